"""Delivering messages to consumers, those that have timed out too (semantics §6)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.retry import retry_if_recreated, retry_once_on
from engine.model.errors import (
    EngineError,
    PartitionUnavailable,
    SegmentUnreadable,
    TimeLimitExceeded,
)
from engine.model.message import StoredMessage
from engine.model.ranges import Ranges
from engine.model.subscription import SubscriptionType
from engine.model.topic_name import SubscriptionName
from engine.postgres.session import Session
from engine.settings import EngineSettings
from engine.subscription.cursors import Cursors, Share, SubscriptionReplaced
from engine.subscription.dead_letters import DeadLetters, dying
from engine.subscription.key_selection import KeySelection
from engine.subscription.leases import Fenced, LeaseHolder, Leases
from engine.subscription.memory import Unsure
from engine.subscription.receiving import ReceiveCall, Received
from engine.subscription.selection import Room, Selection
from engine.subscription.state import Change, State
from engine.subscription.statements import ALL_OFFLINE, DELIVERABLE, NO_PARTITION, Deliverable

_T = TypeVar("_T")
_KEPT_LOOKS = 10_000
#: Partitions that are visited at once, at most.
_AT_ONCE = 32


class Delivery:
    """Delivers messages to consumers."""

    def __init__(
        self,
        topics: Catalog,
        brokers: Brokers,
        settings: EngineSettings,
        *,
        cursors: Cursors,
        leases: Leases,
        dead_letters: DeadLetters,
    ) -> None:
        self.topics = topics
        self._brokers = brokers
        self._settings = settings
        self._cursors = cursors
        self._leases = leases
        self._dead_letters = dead_letters
        self._rotation = itertools.count()
        self._due: dict[tuple[str, int], tuple[float, Sequence[Deliverable]]] = {}
        #: By broker and subscription, the active consumer in which every partition has
        #: been visited, so that what its predecessor had was given back everywhere.
        self._entered: dict[tuple[str, int], LeaseHolder] = {}

    @retry_if_recreated
    @retry_once_on(SubscriptionReplaced)
    @retry_once_on(Fenced)
    def receive(
        self, name: SubscriptionName, consumer: str, *, max_messages: int = 100
    ) -> tuple[StoredMessage, ...]:
        """Deliver up to ``max_messages``, and as many bytes as a fetch answers: first what must be
        redelivered, then what comes next. The first batch always fits.

        They are PENDING for the consumer until they are acknowledged, given back or timed out.
        Messages of a broker that cannot be reached are left out. On a FAILOVER subscription only
        the active consumer gets messages.

        A stretch of very many entries without a message for anybody takes several calls, of which
        the first may answer none: a call looks on for two seconds, and the next goes on there. A
        subscription that has more to deliver wakes whoever waits (Arrivals).

        Raises:
            TopicNotFound, SubscriptionNotFound: there is none.
            ConsumerBusy: another consumer is the active one of an EXCLUSIVE subscription.
            PartitionUnavailable: no broker of the topic can be reached, or all of its partitions
                are offline.
            TimeLimitExceeded: no broker has answered in time.
            SegmentUnreadable: all messages that are due are in missing or damaged files.
        """
        topic = self.topics.get(name.topic)
        rotation = next(self._rotation)
        databases = _rotated(self._brokers.of_topic(topic), rotation)
        call = ReceiveCall(
            rotation=rotation // len(databases),
            began=time.monotonic(),
            max_messages=max_messages,
            bytes_left=self._settings.max_fetch_bytes,
        )
        failures: dict[str, EngineError] = {}
        for since in call.rounds():
            for database in databases:
                if database.name in failures:
                    continue
                try:
                    share = self._cursors.share(database, topic, name)
                    holder = self._holder(share, consumer)
                    if holder is None:
                        return ()
                    self._receive_on(share, holder, since, call)
                except (PartitionUnavailable, TimeLimitExceeded) as error:
                    failures[database.name] = error
                except (SubscriptionReplaced, Fenced):
                    if not call.received:
                        raise
                if call.is_full:
                    return tuple(call.received)
        if not call.received:
            _refuse(list(failures.values()), len(databases))
        return tuple(call.received)

    def _holder(self, share: Share, consumer: str) -> LeaseHolder | None:
        if share.record.type == SubscriptionType.EXCLUSIVE:
            return self._leases.require(share, consumer)
        return self._leases.hold(share, consumer)

    def _receive_on(
        self, share: Share, holder: LeaseHolder, since: float, call: ReceiveCall
    ) -> None:
        """Deliver from the partitions of one broker that were found deliverable at ``since`` or
        later. It does nothing when this call has asked for them itself before."""
        if since == call.began and share.database.name in call.looked:
            return
        looked_at, due = self._due.get(_key(share), (0.0, ()))
        taken_over = holder.epoch > 0 and self._entered.get(_key(share)) != holder
        if looked_at < since or taken_over:
            share, due = self._look(share, taken_over=taken_over)
            call.looked.add(share.database.name)
        unreadable = self._visit(share, due, holder, call)
        if taken_over and not call.is_full:
            self._entered[_key(share)] = holder
        if unreadable is not None and not call.received:
            raise unreadable

    def _visit(
        self, share: Share, due: Sequence[Deliverable], holder: LeaseHolder, call: ReceiveCall
    ) -> SegmentUnreadable | None:
        """Deliver from those partitions of one broker that have given nothing yet, until the call
        is full; answers what is wrong with one whose messages cannot be opened."""
        unreadable: SegmentUnreadable | None = None
        name = share.database.name
        left = [
            row.partition_id
            for row in _rotated(due, call.rotation)
            if (name, row.partition_id) not in call.served
        ]
        # Of those that give little, or nothing, such as markers alone, more and more are visited at
        # once.
        width, widest = 1, _AT_ONCE
        while left and not call.is_full:
            visited, left = left[:width], left[width:]
            try:
                received = self._receive_from(share, visited, holder, call.room)
                messages = received.messages()
            except SegmentUnreadable as error:
                unreadable = error  # go on with the other partitions
                if len(visited) > 1:
                    left, width, widest = visited + left, 1, 1
                continue
            gave = [state.partition_id for state, _ in received.pieces]
            call.served.update((name, partition_id) for partition_id in gave)
            call.cut.update((name, partition_id) for partition_id in received.cut)
            call.received.extend(messages)
            call.bytes_left = received.bytes_left
            # Where there are very many entries to look at, or many messages, one suffices.
            few = 2 * len(messages) <= call.max_messages
            width = min(2 * width, widest) if few and not call.cut else 1
        return unreadable

    def _look(self, share: Share, *, taken_over: bool) -> tuple[Share, Sequence[Deliverable]]:
        """Find the partitions of one broker that may have something to deliver. Partitions without
        a cursor get one.

        Raises:
            SubscriptionNotFound: the subscription, or its topic, has been deleted.
            PartitionUnavailable: all partitions on this broker are offline.
        """
        rows = self._ask(share, taken_over=taken_over)
        if any(row.needs_cursor for row in rows):
            share = self._cursors.refreshed(share)
            rows = self._ask(share, taken_over=taken_over)
            rows = [row for row in rows if row.number != NO_PARTITION]
        if any(row.number == ALL_OFFLINE for row in rows):
            self._cursors.refreshed(share)  # A subscription that is gone is not offline.
            raise PartitionUnavailable(
                f"The partitions of {share.topic.name} on {share.database.name} are offline."
            )
        if len(self._due) > _KEPT_LOOKS:
            self._due.clear()
            self._entered.clear()
        self._due[_key(share)] = (time.monotonic(), rows)
        return share, rows

    def _ask(self, share: Share, *, taken_over: bool) -> Sequence[Deliverable]:
        rows = share.database.ask(
            DELIVERABLE, share.subscription_id, share.topic.topic_id, taken_over
        )
        return [Deliverable(*row) for row in rows]

    def _receive_from(
        self, share: Share, partition_ids: Sequence[int], holder: LeaseHolder, room: Room
    ) -> Received:
        """Deliver as many messages of some partitions as there is ``room`` for, in one change of
        all their cursors."""

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], Received]:
            received = Received(self._brokers.offloaded, room.bytes)
            changes: list[Change] = []
            left = room
            for before in states:
                change, selection = self._decide(session, share, before, holder, left)
                left = selection.left
                if selection.pieces:
                    received.pieces.append((change.after, selection.pieces))
                if selection.is_cut:
                    received.cut.append(before.partition_id)
                if change.dead:
                    received.dead.append(before.partition_id)
                after = change.after
                if (after.dispatch, after.cursor) != (before.dispatch, before.cursor):
                    changes.append(change)
                if left.is_full:
                    break
            received.bytes_left = left.bytes
            return changes, received

        received = self._cursors.change(
            share,
            partition_ids,
            decide,
            durable=False,
            room=room.messages,
            max_bytes=room.bytes // len(partition_ids),
            meanwhile=Received.messages,
        )
        for partition_id in received.dead:
            self._dead_letters.move(share, partition_id)
        return received

    def _decide(
        self, session: Session, share: Share, before: State, holder: LeaseHolder, room: Room
    ) -> tuple[Change, Selection]:
        """What becomes of one partition's state, and what the consumer gets of it."""
        state = self._leases.enter(share, before, holder)
        state = state.give_back(state.dispatch.overdue(state.now_ms))
        dead = dying(share.record, state)
        if dead:
            state = state.withdraw(dead).changed(dead=state.dead | dead)
        after, selection = self._deliver(session, share, state, holder.consumer, room)
        target = self._dead_letters.target(share.record, before.number) if dead else 0
        return Change(before=before, after=after, dead=dead, target=target), selection

    def _deliver(
        self, session: Session, share: Share, state: State, consumer: str, room: Room
    ) -> tuple[State, Selection]:
        """Pick messages and put them in flight to the consumer.

        Raises:
            Unsure: the state is remembered, and gives fewer than are asked for.
        """
        files = self._brokers.offloaded
        dispatch = state.dispatch
        if share.record.type == SubscriptionType.KEY_SHARED:
            keyed = KeySelection(session, state, files, room=room, consumer=consumer)
            keyed.collect()
            selection: Selection = keyed
            queued = Ranges.of_offsets(keyed.queued)
            dispatch = msgspec.structs.replace(
                dispatch, redeliver=dispatch.redeliver | queued, slots=keyed.slots
            )
        else:
            selection = Selection(session, state, files, room=room, in_order=share.has_one_consumer)
            selection.collect()
        delivered = Ranges.of((piece.lower, piece.upper) for piece in selection.pieces)
        if state.remembered and not selection.left.is_full:
            raise Unsure  # there may be more by now
        dispatch = msgspec.structs.replace(dispatch, read_offset=selection.read_offset).deliver(
            delivered, consumer, now_ms=state.now_ms, ack_timeout_ms=share.record.ack_timeout_ms
        )
        after = state.changed(dispatch=dispatch)
        if selection.skipped:
            # What no reader gets is deleted at once, but for offsets that a transaction holds by a
            # cumulative acknowledgement: its end settles those.
            after = after.delete(Ranges.of(selection.skipped) - after.held)
        return after, selection


def _refuse(failures: Sequence[EngineError], asked: int) -> None:
    """Raise why there are no messages, if a file is missing or none of the brokers answered."""
    for failure in failures:
        if isinstance(failure, SegmentUnreadable) or len(failures) == asked:
            raise failure


def _key(share: Share) -> tuple[str, int]:
    return share.database.name, share.subscription_id


def _rotated(items: Sequence[_T], rotation: int) -> Sequence[_T]:
    """The items in their order, beginning with another one each time, so that none is always
    last."""
    start = rotation % len(items) if items else 0
    return (*items[start:], *items[:start])
