"""Giving delivered messages back: nack, and a consumer that leaves (semantics §6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.retry import retry_if_recreated, retry_once_on
from engine.model.errors import PartitionUnavailable
from engine.model.message import MessageID
from engine.model.topic_name import SubscriptionName
from engine.postgres.session import Session
from engine.subscription.cursors import Cursors, Share, SubscriptionReplaced
from engine.subscription.ids_by_broker import BrokerIds, IdsByBroker
from engine.subscription.leases import Fenced, Leases
from engine.subscription.ledgers import Ledgers
from engine.subscription.state import Change, State


class Redelivery:
    """Takes messages back from consumers; they are delivered again."""

    def __init__(
        self,
        topics: Catalog,
        brokers: Brokers,
        *,
        cursors: Cursors,
        ids_by_broker: IdsByBroker,
        leases: Leases,
        ledgers: Ledgers,
    ) -> None:
        self.topics = topics
        self._brokers = brokers
        self._cursors = cursors
        self._ids_by_broker = ids_by_broker
        self._leases = leases
        self._ledgers = ledgers

    @retry_if_recreated
    @retry_once_on(SubscriptionReplaced)
    @retry_once_on(Fenced)
    def nack(self, name: SubscriptionName, consumer: str, message_ids: Sequence[MessageID]) -> None:
        """Give delivered messages back. Those in PENDING_ACK stay with their transaction; ids of
        messages that do not exist any more are ignored.

        Raises:
            TopicNotFound, SubscriptionNotFound, PartitionNotFound: there is none.
            ConsumerBusy: another consumer is the active one.
            PartitionUnavailable: a partition cannot serve this, or its broker cannot be reached;
                what stands on other brokers has been given back, if this process knows or can ask
                where each of the partitions is.
        """
        refusals: list[PartitionUnavailable] = []
        for ids in self._ids_by_broker.of(name.topic, message_ids):
            with _refused_apart(refusals):
                self._nack_on(name, consumer, ids)
        if refusals:
            raise refusals[0]

    def _nack_on(self, name: SubscriptionName, consumer: str, ids: BrokerIds) -> None:
        share = self._cursors.share(ids.database, ids.topic, name)
        holder = self._leases.require(share, consumer)

        def without_named(session: Session, state: State) -> State:
            there = ids.ledgers[state.partition_id]
            named = self._ledgers.own(share.database, session, state, there)
            entered = self._leases.enter(share, state, holder)
            return entered.give_back(named & entered.dispatch.in_flight(consumer))

        self._change(share, list(ids.offsets), without_named)

    @retry_if_recreated
    @retry_once_on(SubscriptionReplaced)
    def leave(self, name: SubscriptionName, consumer: str) -> None:
        """End a consumer's part: what it has is given back, and another may take its place at once.

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            PartitionUnavailable: a partition cannot serve this, or its broker cannot be reached;
                what it has in others has been given back, and repeating the call completes it.
        """
        topic, passed = self.topics.get(name.topic), 0

        def without_consumer(session: Session, state: State) -> State:
            del session
            back = state.give_back(state.dispatch.in_flight(consumer))
            return _without(back, consumer, passed)

        refusals: list[PartitionUnavailable] = []
        for database in self._brokers.of_topic(topic):
            with _refused_apart(refusals):
                share = self._cursors.refreshed(self._cursors.share(database, topic, name))
                if database.name == topic.brokers[0]:
                    passed = self._leases.leave(share, consumer)
                with database.session() as session:
                    rows = session.all("cursors", subscription_id=share.subscription_id)
                for row in rows:
                    with _refused_apart(refusals):
                        self._change(share, [row.partition_id], without_consumer)
        if refusals:
            raise refusals[0]

    def _change(
        self,
        share: Share,
        partition_ids: Sequence[int],
        changed: Callable[[Session, State], State],
    ) -> None:
        """Give messages back in some partitions, each as its state says then."""

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            both = [(state, changed(session, state)) for state in states]
            changes = [
                Change(before=before, after=after)
                for before, after in both
                if after.dispatch != before.dispatch
            ]
            return changes, None

        self._cursors.change(share, partition_ids, decide, durable=False)


@contextmanager
def _refused_apart(refusals: list[PartitionUnavailable]) -> Iterator[None]:
    """What one broker or partition cannot serve keeps no other from its part of the call."""
    try:
        yield
    except PartitionUnavailable as refusal:
        refusals.append(refusal)


def _without(state: State, consumer: str, passed: int) -> State:
    """A state in which a consumer that has left is not present. ``passed``: the first epoch after
    its own; it fences calls of the consumer that another process still lets through."""
    present = {who: until for who, until in state.dispatch.present.items() if who != consumer}
    dispatch = msgspec.structs.replace(state.dispatch, present=present)
    if passed <= dispatch.epoch:
        return state.changed(dispatch=dispatch)
    # No earlier holder goes on, so nobody may keep messages. The next active consumer finds the
    # epoch raised, and need not give anything back.
    dispatch = msgspec.structs.replace(dispatch, epoch=passed)
    return state.changed(dispatch=dispatch).give_back(dispatch.in_flight())
