"""The coordinators' commands and questions (semantics §2; PIP-31)."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from engine.coordinator import rows
from engine.coordinator.archive import find_all, find_archived
from engine.coordinator.fence import Headers
from engine.coordinator.limits import OpenLimits
from engine.coordinator.listing import list_page
from engine.coordinator.scaling import Coordinators
from engine.log.topics import Topics
from engine.model.durations import STEPS_PER_DOUBLING, EndsOfSpan
from engine.model.errors import (
    CoordinatorNotFound,
    InvalidRequest,
    InvalidTxnStatus,
    PartitionNotFound,
    TransactionNotFound,
)
from engine.model.page import Page
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import (
    CoordinatorStats,
    Transaction,
    TransactionFilter,
    TransactionLogEntry,
    TransactionOrder,
)
from engine.model.txn_id import TxnID
from engine.model.txn_status import (
    DECISION,
    EndReason,
    Outcome,
    TxnAction,
    TxnStatus,
    is_repeated_end,
    outcome_of,
)
from engine.postgres.database import Database, Row
from engine.settings import EngineSettings

_KEPT_MEMBERSHIPS = 100_000
_POLL_SECONDS = (0.004, 0.008, 0.015, 0.03)


class Coordinator:
    """All coordinators of a deployment; each transaction belongs to one for ever."""

    def __init__(
        self,
        database: Database,
        topics: Topics,
        settings: EngineSettings,
        coordinators: Coordinators,
    ) -> None:
        self._database = database
        self._topics = topics
        self._settings = settings
        self._coordinators = coordinators
        self._limits = OpenLimits(settings)
        self._headers = Headers(database)
        self._next_tc = itertools.count()
        # What has been joined stays joined: only a first append per partition pays for a write.
        self._members: dict[tuple[TxnID, object], None] = {}

    def open(
        self,
        *,
        owner: str,
        timeout_ms: int | None = None,
        tc_id: int | None = None,
        client: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """NewTxn: open a transaction on the given coordinator, or on the next in turn.

        Raises:
            InvalidRequest: the timeout is not between 1 and the configured maximum.
            CoordinatorNotFound: there is no coordinator ``tc_id``.
            LimitExceeded: the owner has as many open as it may.
        """
        timeout_ms = self._settings.default_timeout_ms if timeout_ms is None else timeout_ms
        self._check_timeout(timeout_ms)
        if tc_id is None:
            tc_id = next(self._next_tc) % max(1, self._coordinators.count())
        with self._database.session() as session:
            self._limits.admit(session, owner)
            row = session.one(
                "open_txn",
                tc_id=tc_id,
                owner=owner,
                client=client,
                properties=json.dumps(dict(properties or {})),
                timeout_ms=timeout_ms,
            )
        if row is None:
            raise CoordinatorNotFound(f"There is no coordinator {tc_id}.")
        return rows.transaction(row)

    def get(self, txn_id: TxnID, *, owner: str | None = None) -> Transaction:
        """Read a transaction with its participants; an archived one with neither these nor times.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
        """
        with self._database.session() as session:
            row = session.one("whole_txn", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        if row is None:
            return self._archived(txn_id, owner)
        if owner is not None and row.owner != owner:
            raise TransactionNotFound(f"There is no transaction {txn_id}.")
        return rows.whole_transaction(row)

    def get_many(self, txn_ids: Iterable[TxnID]) -> dict[TxnID, Transaction]:
        """Read several headers, without participants; unknown ids are left out."""
        with self._database.session() as session:
            return find_all(session, txn_ids)

    def list(
        self,
        filter: TransactionFilter,
        *,
        order: TransactionOrder = TransactionOrder.NEWEST,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Transaction]:
        """List headers, without participants. The cost of a page is bounded whatever the filter:
        one that matches little answers short pages with a cursor to go on from."""
        with self._database.session() as session:
            return list_page(session, filter, order=order, limit=limit, cursor=cursor)

    def log(self, txn_id: TxnID) -> tuple[TransactionLogEntry, ...]:
        """The transaction log's records of one transaction, in order; none once it is archived.

        Raises:
            TransactionNotFound: there is none.
        """
        with self._database.session() as session:
            found = session.all("txn_log", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        if not found:
            self._archived(txn_id, None)
        return tuple(rows.log_entry(row) for row in found)

    def outcome(self, txn_id: TxnID) -> Outcome:
        """Answer for every id ever issued.

        Raises:
            TransactionNotFound: the id was never issued.
        """
        with self._database.session() as session:
            row = session.one("txn_status", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
        status = self._archived(txn_id, None).status if row is None else TxnStatus(row.status)
        return outcome_of(status)

    def add_partitions(
        self, txn_id: TxnID, partitions: Sequence[PartitionName], *, owner: str | None = None
    ) -> Transaction:
        """AddPartitionToTxn; adding twice is once.

        Raises:
            TransactionNotFound, InvalidTxnStatus: not there, not the owner's, or not OPEN.
            TopicNotFound, PartitionNotFound: a partition does not exist.
        """
        self.join_partitions(txn_id, partitions, owner=owner)
        return self.get(txn_id)

    def add_subscriptions(
        self, txn_id: TxnID, subscriptions: Sequence[SubscriptionName], *, owner: str | None = None
    ) -> Transaction:
        """AddSubscriptionToTxn; adding twice is once.

        Raises: as :meth:`add_partitions`.
        """
        self.join_subscriptions(txn_id, subscriptions, owner=owner)
        return self.get(txn_id)

    def join_partitions(
        self, txn_id: TxnID, partitions: Sequence[PartitionName], *, owner: str | None
    ) -> None:
        """Make sure that the transaction is OPEN and has these partitions: what an append asks
        first (the strict fence, semantics §4). A repetition costs one read."""
        partitions = sorted(set(partitions))  # one order for all, so that no two calls deadlock
        topics = [self._topic_with(partition) for partition in partitions]
        # By the topic's id: one of the same name, made after it was deleted, is another.
        members = [
            (topic.topic_id, partition.number)
            for topic, partition in zip(topics, partitions, strict=True)
        ]
        if self._all_members(txn_id, members, owner):
            return
        with self._database.session() as session:
            row = session.one(
                "join_partitions",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                owner=owner,
                topic_ids=[topic.topic_id for topic in topics],
                topics=[str(topic.name) for topic in topics],
                partitions=[partition.number for partition in partitions],
                brokers=[
                    topic.brokers[partition.number]
                    for topic, partition in zip(topics, partitions, strict=True)
                ],
            )
        self._require_open(txn_id, row, owner)
        self._remember_members(txn_id, members)

    def join_subscriptions(
        self, txn_id: TxnID, subscriptions: Sequence[SubscriptionName], *, owner: str | None
    ) -> None:
        """As :meth:`join_partitions`, on every broker that holds partitions of the topic."""
        shares = sorted(
            (topic.topic_id, str(topic.name), subscription.name, broker)
            for subscription in subscriptions
            for topic in [self._topics.get(subscription.topic)]
            for broker in dict.fromkeys(topic.brokers)
        )
        if self._all_members(txn_id, shares, owner):
            return
        with self._database.session() as session:
            row = session.one(
                "join_subscriptions",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                owner=owner,
                topic_ids=[share[0] for share in shares],
                topics=[share[1] for share in shares],
                subscriptions=[share[2] for share in shares],
                brokers=[share[3] for share in shares],
            )
        self._require_open(txn_id, row, owner)
        self._remember_members(txn_id, shares)

    def confirm_ack(self, txn_id: TxnID, call_id: int) -> None:
        """Record that an acknowledgement over several brokers has been claimed on all of them: a
        commit makes only such calls final (docs/decisions/0022).

        Raises:
            TransactionNotFound, InvalidTxnStatus: it is not OPEN any more; the call counts for
                nothing.
        """
        with self._database.session() as session:
            row = session.one(
                "confirm_ack", tc_id=txn_id.tc_id, sequence=txn_id.sequence, call_id=call_id
            )
        self._require_open(txn_id, row, None)

    def end(
        self,
        txn_id: TxnID,
        action: TxnAction,
        *,
        reason: EndReason = EndReason.CLIENT,
        detail: str | None = None,
        owner: str | None = None,
    ) -> Transaction:
        """EndTxn: record the decision; the same action again is success with the current status.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
            InvalidTxnStatus: it has been ended the opposite way.
        """
        with self._database.session() as session:
            row = session.one(
                "decide",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                decision=DECISION[action],
                reason=reason,
                detail=detail,
                owner=owner,
            )
        if row is None:
            transaction = self.get(txn_id, owner=owner)
            is_repeated_end(transaction.status, action, txn_id=txn_id)
            return transaction
        return self.get(txn_id)

    def wait_for_end(self, txn_id: TxnID, *, wait_ms: int) -> Transaction:
        """Wait until the transaction is COMMITTED or ABORTED, at most ``wait_ms``; holds no
        connection meanwhile. Answers the transaction as it is then."""
        give_up = time.monotonic() + wait_ms / 1000
        pauses = itertools.chain(_POLL_SECONDS, itertools.repeat(_POLL_SECONDS[-1]))
        for pause in pauses:
            with self._database.session() as session:
                row = session.one("txn_status", tc_id=txn_id.tc_id, sequence=txn_id.sequence)
            ended = row is None or row.status in (TxnStatus.COMMITTED, TxnStatus.ABORTED)
            if ended or time.monotonic() + pause > give_up:
                break
            time.sleep(pause)
        return self.get(txn_id)

    def extend(self, txn_id: TxnID, timeout_ms: int, *, owner: str | None = None) -> Transaction:
        """Move the deadline of an OPEN transaction to now + ``timeout_ms``.

        Raises:
            InvalidRequest: above the configured maximum.
            TransactionNotFound, InvalidTxnStatus: not there, not the owner's, or not OPEN.
        """
        self._check_timeout(timeout_ms)
        with self._database.session() as session:
            row = session.one(
                "extend",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                timeout_ms=timeout_ms,
                owner=owner,
            )
        if row is None:
            transaction = self.get(txn_id, owner=owner)
            raise InvalidTxnStatus(
                f"{txn_id} is {transaction.status}; only an OPEN transaction can be extended.",
                current_status=str(transaction.status),
            )
        return self.get(txn_id)

    def expire(self, limit: int = 1000) -> tuple[TxnID, ...]:
        """Decide to abort what is OPEN past its deadline, once each, never early."""
        with self._database.session() as session:
            found = session.adhoc("expire_txns", limit=limit)
        return tuple(TxnID(row.tc_id, row.sequence) for row in found)

    def stats(self, *, after: int = -1, limit: int | None = None) -> tuple[CoordinatorStats, ...]:
        """Counters of the coordinators above ``after``, at most ``limit``; of all without these."""
        with self._database.session() as session:
            found = session.all("coordinator_stats", after=after, limit=limit)
        return tuple(map(rows.coordinator_stats, found))

    def counts(self) -> dict[TxnStatus, int]:
        """How many transactions are OPEN, COMMITTING and ABORTING."""
        live = (TxnStatus.OPEN, TxnStatus.COMMITTING, TxnStatus.ABORTING)
        with self._database.session() as session:
            found = {row.status: row.count for row in session.all("live_counts")}
        return {status: found.get(status, 0) for status in live}

    def newest_log_id(self) -> int:
        """The newest record of the transaction log; grows with every change of any header."""
        with self._database.session() as session:
            row = session.one("newest_log_id")
        return int(row.log_id) if row else 0

    def ends_between(
        self, since: datetime, until: datetime, width: timedelta
    ) -> tuple[EndsOfSpan, ...]:
        """What ended from ``since`` on and before ``until``, a row for each span of ``width``,
        outcome and step of duration. It costs what ended then, whatever the history."""
        with self._database.session() as session:
            found = session.adhoc(
                "ends_between", since=since, until=until, width=width, steps=STEPS_PER_DOUBLING
            )
        return tuple(
            EndsOfSpan(row.since, TxnStatus(row.status), row.step, row.count) for row in found
        )

    def _topic_with(self, partition: PartitionName) -> Topic:
        if partition.topic.is_system:
            raise InvalidRequest(f"{partition.topic} is written by the engine alone.")
        topic = self._topics.get(partition.topic)
        if partition.number >= len(topic.brokers):
            topic = self._topics.get(partition.topic, fresh=True)
        if partition.number >= len(topic.brokers):
            raise PartitionNotFound(
                f"{topic.name} has partitions 0 to {len(topic.brokers) - 1},"
                f" not {partition.number}."
            )
        return topic

    def _check_timeout(self, timeout_ms: int) -> None:
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidRequest(
                f"timeout_ms must be between 1 and {self._settings.max_timeout_ms}."
            )

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

    def _require_open(self, txn_id: TxnID, row: Row | None, owner: str | None) -> None:
        if row is None:
            row = self._archived(txn_id, owner)
        if owner is not None and row.owner != owner:
            raise TransactionNotFound(f"There is no transaction {txn_id}.")
        if row.status != TxnStatus.OPEN:
            raise InvalidTxnStatus(
                f"{txn_id} is {row.status}; it takes no more participants.",
                current_status=str(row.status),
            )

    def _archived(self, txn_id: TxnID, owner: str | None) -> Transaction:
        """What the archive knows of a transaction that has no header.

        Raises:
            TransactionNotFound: it was never issued, or is not ``owner``'s.
        """
        with self._database.session() as session:
            found = find_archived(session, [txn_id], owner=owner)
        if txn_id not in found:
            raise TransactionNotFound(f"There is no transaction {txn_id}.")
        return found[txn_id]
