"""Calls that are made once more when what they went by has changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from engine.log.catalog import Catalog
from engine.model.errors import EngineError, PartitionNotFound, SubscriptionNotFound
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName

_T = TypeVar("_T")
_P = ParamSpec("_P")
_N = TypeVar("_N", PartitionName, SubscriptionName)


def retry_once_on(
    outdated: type[EngineError],
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorate a call: when it raises ``outdated``, it is made once more from its start. That error
    means that what the call went by may be outdated: what this process remembered, which has been
    forgotten by then, or what it has just read."""

    def decorate(call: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(call)
        def repeated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return call(*args, **kwargs)
            except outdated:
                return call(*args, **kwargs)

        return repeated

    return decorate


class TopicReplaced(PartitionNotFound):
    """The topic was deleted during the call, and one of the same name was made."""


def require_joined(topic: Topic, joined: int) -> None:
    """Check, before anything is stored in a topic, that it is the one that a transaction has
    joined.

    Raises:
        TopicReplaced: it is another of the same name.
    """
    if topic.topic_id != joined:
        raise TopicReplaced(f"{topic.name} was deleted, and made anew.")


class _KnowsTopics(Protocol):
    @property
    def topics(self) -> Catalog: ...


_S = TypeVar("_S", bound=_KnowsTopics)


def retry_if_recreated(
    call: Callable[Concatenate[_S, _N, _P], _T],
) -> Callable[Concatenate[_S, _N, _P], _T]:
    """Decorate a call about a partition or a subscription: when that is not found because the
    process remembered a topic that has since been deleted and made anew, or because that happened
    during the call, the call is made once more, with the new topic."""

    @wraps(call)
    def repeated(self: _S, name: _N, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        before = self.topics.remembered(name.topic)
        try:
            return call(self, name, *args, **kwargs)
        except TopicReplaced:
            pass
        except (PartitionNotFound, SubscriptionNotFound):
            # The call itself may have been the first to ask which topic has the name.
            remembered = {before, self.topics.remembered(name.topic)}
            if remembered <= {None, self.topics.get(name.topic, fresh=True).topic_id}:
                raise
        return call(self, name, *args, **kwargs)

    return repeated
