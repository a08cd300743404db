"""Changing a subscription's cursors: find the record, read or remember the state, decide, store.

What stands in the way of a decision is dealt with here: a remembered record that has been deleted,
a cursor that a new partition does not have yet, a partition that has to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import msgspec

from engine.log.brokers import Location, Recover
from engine.model.errors import EngineError, PartitionUnavailable, SubscriptionNotFound
from engine.model.subscription import ONE_CONSUMER
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.postgres.database import Database
from engine.postgres.session import Row, Session
from engine.subscription import state
from engine.subscription.memory import Memory, Unsure
from engine.subscription.records import Records, ensure_cursors
from engine.subscription.state import Change, CursorGone, State

_T = TypeVar("_T")
#: How many messages are read ahead, if they are small and came in batches
#: (functions/broker/read_cursors.sql).
_AHEAD = 4000
#: Decides on states: answers the changes, and the answer for the caller.
Decide = Callable[[Session, Sequence[State]], tuple[Sequence[Change], _T]]


class SubscriptionReplaced(SubscriptionNotFound):
    """The subscription was deleted during the call, and one of the same name was made."""


class Share(msgspec.Struct, frozen=True):
    """A subscription's share on one broker, with its record there."""

    database: Database
    topic: Topic
    name: SubscriptionName
    record: Row

    @property
    def subscription_id(self) -> int:
        """Its id on this broker; it has another one on each."""
        return int(self.record.subscription_id)

    @property
    def has_one_consumer(self) -> bool:
        """Whether its type has one active consumer at a time."""
        return self.record.type in ONE_CONSUMER


class Cursors:
    """Changes cursors, and the state that belongs to them.

    Args:
        recover: rebuilds a partition that is found without its derived state.
    """

    def __init__(self, records: Records, recover: Recover) -> None:
        self._records = records
        self._recover = recover
        self._memory = Memory()

    def share(self, database: Database, topic: Topic, name: SubscriptionName) -> Share:
        """A subscription's share on one broker.

        Raises:
            SubscriptionNotFound: there is none.
        """
        return Share(database, topic, name, self._records.recall(database, topic, name))

    def refreshed(self, share: Share) -> Share:
        """The same share with its record read anew, and with a cursor in each partition.

        Raises:
            SubscriptionNotFound: it has been deleted.
            SubscriptionReplaced: it has been deleted, and another has its name.
        """
        record = self._records.find(share.database, share.topic, share.name)
        if record.subscription_id != share.subscription_id:
            self._records.forget(share.topic, share.name)
            raise SubscriptionReplaced(f"{share.name} was deleted, and made anew.")
        with share.database.session() as session:
            ensure_cursors(session, record)
        return Share(share.database, share.topic, share.name, record)

    def change(
        self,
        share: Share,
        partition_ids: Sequence[int],
        decide: Decide[_T],
        *,
        durable: bool = True,
        room: int = 0,
        max_bytes: int = 0,
        first: Callable[[Session], object] | None = None,
        meanwhile: Callable[[_T], object] | None = None,
    ) -> _T:
        """Read the states of some partitions, decide, store.

        ``decide`` may run several times; only the answer whose changes were stored counts. It runs
        again when somebody else has changed a state in between. It may first be given states that
        this process remembers (engine.subscription.memory), and raises :class:`Unsure` when it
        cannot decide on those.

        Args:
            durable: what is stored must outlive a crash. Dead letters and steps of the pending-ack
                log always do.
            room, max_bytes: how much of the log to read together with the states.
            first: takes what has to be locked before the cursors. ``decide`` then runs under the
                locks alone, and may write something itself.
            meanwhile: called with the answer while it is being stored, for work that does not
                depend on whether it is stored. What it raises is raised after the store.

        Raises:
            SubscriptionNotFound: it has been deleted.
            PartitionUnavailable: a partition is offline or cannot be rebuilt now.
            Whatever ``decide`` raises.
        """
        call = _ChangeCall(
            memory=self._memory,
            share=share,
            partition_ids=partition_ids,
            decide=decide,
            durable=durable,
            room=room,
            max_bytes=max_bytes,
            first=first,
            meanwhile=meanwhile,
        )
        try:
            return call.run()
        except CursorGone:
            self.refreshed(share)  # New partitions have cursors then; the share is the same.
        except _Unserved as found:
            for each in found.states:
                if not each.online:
                    raise _unavailable(share, each) from None
            for each in found.states:
                location = Location(share.database, each.partition_id)
                self._recover(location, PartitionName(share.topic.name, each.number))
        try:
            return call.run()
        except CursorGone:
            raise SubscriptionNotFound(f"{share.name} has been deleted.") from None
        except _Unserved as found:
            raise _unavailable(share, found.states[0]) from None


@dataclass(kw_only=True)
class _ChangeCall(Generic[_T]):
    """One call of :meth:`Cursors.change`: it decides on what is remembered; where that does not
    hold, on what it reads without locks; and where that has changed meanwhile, under the locks."""

    memory: Memory
    share: Share
    partition_ids: Sequence[int]
    decide: Decide[_T]
    durable: bool
    room: int
    max_bytes: int
    first: Callable[[Session], object] | None
    meanwhile: Callable[[_T], object] | None
    _stored: Sequence[State] = ()
    #: ``Database.connections`` before the decision (engine.subscription.memory tells what for).
    _connections: int = 0

    def run(self) -> _T:
        answer = self._stored_answer()
        # Not earlier: what was stored under the locks does not exist before the commit.
        key = (self.share.database, self.share.subscription_id)
        self.memory.keep(*key, self._stored, connections=self._connections)
        return answer

    def _stored_answer(self) -> _T:
        """The answer of an attempt without locks or, if somebody else changed a state meanwhile, of
        one under the locks."""
        database = self.share.database
        if self.first is None:
            with database.session() as session:
                has_stored, answer = self._attempt(session, lock=False)
            if has_stored:
                return answer
        # It always stores: nobody can change what is locked.
        _, answer = database.retrying(partial(self._attempt, lock=True))
        return answer

    def _attempt(self, session: Session, *, lock: bool) -> tuple[bool, _T]:
        """Read, decide and store; answers whether it has stored, and the answer."""
        self._stored = ()
        self._connections = self.share.database.connections
        if not lock:
            recalled = self._recall(session)
            if recalled is not None:
                return True, recalled[0]
        elif self.first is not None:
            self.first(session)
        states = state.read(
            session,
            self.share.subscription_id,
            self.partition_ids,
            lock=lock,
            room=self.room,
            ahead=self._ahead(lock=lock),
            max_bytes=self.max_bytes,
        )
        if len(states) < len(self.partition_ids):
            raise CursorGone
        unserved = [each for each in states if each.stable_position is None or not each.online]
        if unserved:
            raise _Unserved(unserved)
        changes, answer = self.decide(session, states)
        return not changes or self._store(session, changes, answer, locked=lock), answer

    def _ahead(self, *, lock: bool) -> int:
        """How many messages to read beyond what is asked for. Only where remembered states have
        proved right, since only there the next calls can use them."""
        key = (self.share.database, self.share.subscription_id)
        if lock or not self.room or not self.memory.is_right(*key, self.partition_ids):
            return 0
        return _AHEAD

    def _recall(self, session: Session) -> tuple[_T] | None:
        """Decide on remembered states and store; None when that is not possible. The store checks
        only the states that change, so the decision counts only if all of them do."""
        key = (self.share.database, self.share.subscription_id)
        states = self.memory.take(*key, self.partition_ids)
        if states is None:
            return None
        try:
            changes, answer = self.decide(session, states)
        except (EngineError, Unsure):
            return None
        if len(changes) < len(states):
            return None
        try:
            right = self._store(session, changes, answer, serving=True, locked=False)
        except CursorGone:
            right = False
        self.memory.judge(*key, self.partition_ids, right=right)
        return (answer,) if right else None

    def _store(
        self,
        session: Session,
        changes: Sequence[Change],
        answer: _T,
        *,
        serving: bool = False,
        locked: bool,
    ) -> bool:
        must = self.durable or any(change.steps or change.dead for change in changes)
        self._stored = state.store(
            session,
            self.share.subscription_id,
            changes,
            durable=must,
            serving=serving,
            locked=locked,
            meanwhile=None if self.meanwhile is None else partial(self.meanwhile, answer),
        )
        return bool(self._stored)


class _Unserved(Exception):
    """Some partitions are offline, or have to be rebuilt before they can serve."""

    def __init__(self, states: Sequence[State]) -> None:
        super().__init__()
        self.states = states


def _unavailable(share: Share, found: State) -> PartitionUnavailable:
    partition = PartitionName(share.topic.name, found.number)
    return PartitionUnavailable(f"{partition} cannot serve this now; try again.")
