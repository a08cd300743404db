"""Finding the view of an address; results are remembered, because programs call the same addresses
again and again."""

from __future__ import annotations

from functools import lru_cache

from django.urls import ResolverMatch, URLResolver, include
from django.urls.resolvers import RoutePattern

_PATHS = 1024
#: Longer paths are not remembered, so that strangers' paths take little memory.
_LONGEST = 512


class RememberingResolver(URLResolver):
    """The addresses of a module under a prefix. It remembers the results for the latest paths.

    The resolver that includes this one makes a match of its own from each result, so requests do
    not share one.
    """

    def __init__(self, prefix: str, module: str) -> None:
        addresses, _, _ = include(module)
        super().__init__(RoutePattern(prefix, is_endpoint=False), addresses)
        self._remembered = lru_cache(_PATHS)(super().resolve)

    def resolve(self, path: str) -> ResolverMatch:
        """The view of a path, with what the path names.

        Raises:
            Resolver404: it does not begin with the prefix.
        """
        return super().resolve(path) if len(path) > _LONGEST else self._remembered(path)
