"""Throttling: how many requests a token may make. Sessions have their user's rate.

There are two limits. Each process has token buckets in its memory, which every call asks. And there
is a count over all processes in Redis, of which each process takes shares
(:mod:`txnconsole.queue.rates`); while Redis is away only the buckets count (docs/decisions/0030).
Throttling protects the server from a program in a loop; it is not a quota. Answers to authenticated
callers have the rate and what is left of the burst (``RateLimit-Limit``, ``RateLimit-Remaining``).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from django.conf import settings
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from txnconsole.access.addresses import sender_of
from txnconsole.access.requests import django_request, principal_behind
from txnconsole.queue.rates import SharedRate, Taken

_BUCKETS = 10_000
#: The key in a request's META for what was taken for it.
_TAKEN = "txnconsole.taken"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class RequestRate:
    """Token buckets: for each name ``per_second`` requests a second, and ``burst`` of them at
    once."""

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second = per_second
        self._burst = max(1.0, burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> Taken:
        """Take one request out of the bucket of a name, if there is one."""
        now = monotonic()
        with self._lock:
            bucket = self._buckets.get(name)
            if bucket is None:
                bucket = self._buckets[name] = _Bucket(self._burst, now)
                if len(self._buckets) > _BUCKETS:
                    self._buckets.popitem(last=False)
            self._buckets.move_to_end(name)
            filled = bucket.tokens + (now - bucket.filled_at) * self.per_second
            bucket.tokens, bucket.filled_at = min(self._burst, filled), now
            if bucket.tokens < 1:
                return Taken((1 - bucket.tokens) / self.per_second, 0)
            bucket.tokens -= 1
            return Taken(0.0, int(bucket.tokens))


_rate = RequestRate(settings.REQUESTS_PER_SECOND, settings.REQUESTS_BURST)
_shared = SharedRate(
    int(settings.REQUESTS_BURST),
    settings.REQUESTS_BURST / settings.REQUESTS_PER_SECOND,
)


class PrincipalThrottle(BaseThrottle):
    """Throttles by token, for sessions by user, and otherwise by sender."""

    def __init__(self) -> None:
        self._taken = Taken(0.0, 0)

    def allow_request(self, request: Request, view: APIView) -> bool:
        self._taken = _take(_name(request))
        django_request(request).META[_TAKEN] = self._taken
        return self._taken.wait == 0.0

    def wait(self) -> float:
        return self._taken.wait


def _take(name: str) -> Taken:
    """Take one request out of this process's bucket, and out of the count of all processes."""
    own = _rate.take(name)
    shared = _shared.take(name) if own.wait == 0.0 else None
    if shared is None:
        return own
    return Taken(shared.wait, min(own.left, shared.left))


def tell_rate(request: Request, response: HttpResponseBase) -> None:
    """Set the headers with the requests allowed per second, and left at the moment."""
    taken = django_request(request).META.get(_TAKEN)
    if taken is not None:
        response.headers["RateLimit-Limit"] = str(int(_rate.per_second))
        response.headers["RateLimit-Remaining"] = str(taken.left)


def _name(request: Request) -> str:
    principal = principal_behind(request)
    if principal is None:
        return f"@{sender_of(request)}"
    return principal.name if principal.token_id is None else f"#{principal.token_id}"
