"""Joining a transaction: participants, and acknowledgements over several brokers, while it is OPEN
(semantics §2, §4).

An end locks the header, and a new participant takes a share lock of it. So the end sees every
participant that joined before it, and none joins after it. The same holds for topics: a join reads
the table ``joining``, and a deletion locks it. So nothing joins a topic that has been deleted, and
a deletion sees every participant that has joined (migration 0011).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from engine.coordinator.archive import archived, find_all
from engine.coordinator.fence import Headers
from engine.coordinator.statements import JOIN_PARTITIONS, JOIN_SUBSCRIPTIONS, Header
from engine.log.catalog import Catalog
from engine.model.errors import TopicNotFound, TransactionNotFound
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus, not_allowed
from engine.postgres.database import Database
from engine.postgres.prepared import Prepared

_T = TypeVar("_T")
_KEPT_MEMBERSHIPS = 100_000


class _TopicGone(TopicNotFound):
    """The topic that this process remembers has been deleted; another may have its name by now."""


def _with_topics(join: Callable[[bool], _T]) -> _T:
    """Run ``join`` with the topics that this process remembers and, when one of them has been
    deleted, again with those that exist now. ``join`` is given whether to ask the catalog."""
    try:
        return join(False)
    except _TopicGone:
        return join(True)


class Joining:
    """Adds participants to transactions. Every append and every acknowledgement in a transaction
    comes here first."""

    def __init__(self, database: Database, topics: Catalog) -> None:
        self._database = database
        self._topics = topics
        self._headers = Headers(database)
        # A participant stays one, so only the first append to a partition has to write anything.
        self._members: dict[tuple[TxnID, object], None] = {}

    def partitions(
        self, txn_id: TxnID, partitions: Sequence[PartitionName], *, owner: str | None
    ) -> set[int]:
        """Make sure that the transaction is OPEN and that these partitions take part in it (the
        strict fence, semantics §4). When they do already, this costs one read.

        Returns:
            The ids of their topics, as this process knows them.

        Raises:
            TransactionNotFound, InvalidTxnStatus: not there, not ``owner``'s, or not OPEN.
            TopicNotFound, PartitionNotFound: a partition does not exist.
            InvalidRequest: one is a system topic's.
        """
        partitions = sorted(set(partitions))  # one order for all, so that no two calls deadlock

        def join(fresh: bool) -> set[int]:
            topics = [self._topic_with(partition, fresh=fresh) for partition in partitions]
            # By the topic's id: one of the same name, made after it was deleted, is another.
            members = [
                (topic.topic_id, partition.number)
                for topic, partition in zip(topics, partitions, strict=True)
            ]
            if not self._all_members(txn_id, members, owner):
                self._join(
                    JOIN_PARTITIONS,
                    txn_id,
                    owner,
                    [topic.topic_id for topic in topics],
                    [str(topic.name) for topic in topics],
                    [partition.number for partition in partitions],
                    [
                        topic.broker_of(partition.number)
                        for topic, partition in zip(topics, partitions, strict=True)
                    ],
                )
                self._remember_members(txn_id, members)
            return {topic.topic_id for topic in topics}

        return _with_topics(join)

    def partition(self, txn_id: TxnID, partition: PartitionName, *, owner: str | None) -> int:
        """As :meth:`partitions`, for one partition; answers the id of its topic."""
        topic = self._topic_with(partition, fresh=False)
        if (txn_id, (topic.topic_id, partition.number)) not in self._members:
            [topic_id] = self.partitions(txn_id, [partition], owner=owner)
            return topic_id
        self._require_open(txn_id, self._headers.get(txn_id), owner)
        return topic.topic_id

    def subscription(
        self, txn_id: TxnID, subscription: SubscriptionName, *, owner: str | None, partition: int
    ) -> int:
        """As :meth:`subscriptions`, for one subscription; answers the id of its topic.

        Args:
            partition: the highest partition that the call is about; it may have been added since
                this process looked at the topic.
        """
        [topic_id] = self.subscriptions(txn_id, [subscription], owner=owner, partition=partition)
        return topic_id

    def subscriptions(
        self,
        txn_id: TxnID,
        subscriptions: Sequence[SubscriptionName],
        *,
        owner: str | None,
        partition: int = 0,
    ) -> set[int]:
        """As :meth:`partitions`. A subscription takes part on every broker that holds partitions of
        its topic; ``partition`` as in :meth:`subscription`."""

        def join(fresh: bool) -> set[int]:
            members = sorted(
                (topic.topic_id, str(topic.name), subscription.name, broker)
                for subscription in subscriptions
                for topic in [self._reaching(subscription.topic, partition, fresh=fresh)]
                for broker in dict.fromkeys(topic.brokers)
            )
            if not self._all_members(txn_id, members, owner):
                self._join(
                    JOIN_SUBSCRIPTIONS,
                    txn_id,
                    owner,
                    *([member[column] for member in members] for column in range(4)),
                )
                self._remember_members(txn_id, members)
            return {member[0] for member in members}

        return _with_topics(join)

    def confirm_ack(self, txn_id: TxnID, call_id: int) -> None:
        """Record that an acknowledgement call over several brokers holds its messages on all of
        them. A commit makes only such calls final (docs/decisions/0022).

        Raises:
            TransactionNotFound, InvalidTxnStatus: the transaction is not OPEN any more; the call
                has no effect.
        """
        with self._database.session() as session:
            row = session.one(
                "confirm_ack", tc_id=txn_id.tc_id, sequence=txn_id.sequence, call_id=call_id
            )
        self._require_open(txn_id, Header(row.status, row.owner) if row else None, None)

    def forget(self, txn_id: TxnID) -> None:
        """Ask the database again who takes part: what this process remembers is not so there."""
        for member in [member for member in list(self._members) if member[0] == txn_id]:
            self._members.pop(member, None)

    def _join(
        self, statement: Prepared, txn_id: TxnID, owner: str | None, *participants: Sequence[object]
    ) -> None:
        rows = self._database.ask(statement, txn_id.tc_id, txn_id.sequence, owner, *participants)
        self._require_open(txn_id, Header(*rows[0][:2]) if rows else None, owner)
        if rows[0][2] is False:
            raise _TopicGone("A topic was deleted while it was being joined; try again.")

    def _topic_with(self, partition: PartitionName, *, fresh: bool) -> Topic:
        partition.require_writable()
        topic = self._reaching(partition.topic, partition.number, fresh=fresh)
        topic.broker_of(partition.number)
        return topic

    def _reaching(self, name: TopicName, number: int, *, fresh: bool) -> Topic:
        """A topic as this process remembers it or, when that has no such partition, as it is
        now."""
        topic = self._topics.get(name, fresh=fresh)
        return topic if number < len(topic.brokers) else self._topics.get(name, fresh=True)

    def _all_members(
        self, txn_id: TxnID, participants: Iterable[object], owner: str | None
    ) -> bool:
        if not all((txn_id, participant) in self._members for participant in participants):
            return False
        self._require_open(txn_id, self._headers.get(txn_id), owner)
        return True

    def _remember_members(self, txn_id: TxnID, participants: Iterable[object]) -> None:
        if len(self._members) > _KEPT_MEMBERSHIPS:
            self._members = {}
        for participant in participants:
            self._members[txn_id, participant] = None

    def _require_open(self, txn_id: TxnID, row: Header | None, owner: str | None) -> None:
        if row is None:
            ended = archived(self._database, txn_id, owner)
            row = Header(ended.status, ended.owner)
        if owner is not None and row.owner != owner:
            raise TransactionNotFound(f"There is no transaction {txn_id}.")
        if row.status != TxnStatus.OPEN:
            with self._database.session() as session:
                ended_as = find_all(session, [txn_id])[txn_id]
            raise not_allowed(txn_id, ended_as.status, "it takes nothing more", ended_as.end_reason)
