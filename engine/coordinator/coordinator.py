"""The coordinators' commands and questions (semantics §2; PIP-31)."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from engine import tracing
from engine.coordinator import rows
from engine.coordinator.archive import archived, find_all
from engine.coordinator.joining import Joining
from engine.coordinator.limits import OpenLimits
from engine.coordinator.listing import count_each, list_page
from engine.coordinator.scaling import CoordinatorCount
from engine.coordinator.statements import DECIDE, OPEN, STATUS, STATUSES, WHOLE, WholeRow
from engine.log.rows import txn_of
from engine.model.durations import STEPS_PER_DOUBLING, EndsOfCoordinator, EndsOfSpan
from engine.model.errors import (
    CoordinatorNotFound,
    InvalidRequest,
    TransactionNotFound,
)
from engine.model.page import Page
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.transaction import (
    CoordinatorStats,
    Load,
    Transaction,
    TransactionFilter,
    TransactionLogEntry,
    TransactionOrder,
)
from engine.model.txn_id import MAX_TC_ID, TxnID, id_lists
from engine.model.txn_status import (
    DECISION,
    ENDED,
    LIVE,
    EndReason,
    Outcome,
    TxnAction,
    TxnStatus,
    not_allowed,
    outcome_of,
    refuse_opposite_end,
)
from engine.postgres.database import Database
from engine.postgres.watching import Watch
from engine.settings import EngineSettings

#: Seconds between the first looks of a caller that waits for an end. Most transactions end within
#: them; after them the caller joins the watch, which looks for all waiters together.
_FIRST_LOOKS = (0.004, 0.008, 0.015)


def _has_ended(status: str | None) -> bool:
    """Whether a status is final. None stands for a transaction that is archived or never was."""
    return status is None or status in ENDED


class Coordinator:
    """All coordinators of a deployment; each transaction belongs to one for ever."""

    def __init__(
        self,
        database: Database,
        joining: Joining,
        settings: EngineSettings,
        count: CoordinatorCount,
    ) -> None:
        self._database = database
        self._joining = joining
        self._settings = settings
        self._count = count
        self._limits = OpenLimits(settings)
        self._next_tc = itertools.count()
        self._ends = Watch(self._statuses)

    def open(
        self,
        *,
        owner: str,
        timeout_ms: int | None = None,
        tc_id: int | None = None,
        client: str = "",
        client_host: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """NewTxn: open a transaction on the given coordinator, or on the next in turn.

        Args:
            client: what the program calls itself.
            client_host: the address that the request came from, None when that is not known.

        Raises:
            InvalidRequest: the timeout is not between 1 and the configured maximum.
            CoordinatorNotFound: there is no coordinator ``tc_id``.
            LimitExceeded: the owner has as many open as it may.
        """
        timeout_ms = self._settings.default_timeout_ms if timeout_ms is None else timeout_ms
        self._check_timeout(timeout_ms)
        if tc_id is None:
            tc_id = next(self._next_tc) % max(1, self._count.current())
        with self._database.session() as session:
            self._limits.admit(session, owner)
            opened = session.ask(
                OPEN,
                tc_id,
                owner,
                client,
                client_host,
                json.dumps(dict(properties or {})),
                timeout_ms,
            )
        if not opened:
            raise CoordinatorNotFound.of(tc_id)
        return rows.transaction(WholeRow(*opened[0]))

    def get(self, txn_id: TxnID, *, owner: str | None = None) -> Transaction:
        """Read a transaction with its participants; an archived one has neither these nor times.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
        """
        found = self._database.ask(WHOLE, txn_id.tc_id, txn_id.sequence)
        if not found:
            return archived(self._database, txn_id, owner)
        row = WholeRow(*found[0])
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
        when few transactions match, pages are short, even empty, and have a cursor all the same.

        Raises:
            InvalidRequest: no item is asked for, or the cursor is not one that this list has given.
        """
        with self._database.session() as session:
            return list_page(session, filter, order=order, limit=limit, cursor=cursor)

    def count_each(
        self, filters: Sequence[TransactionFilter], *, limit: int
    ) -> tuple[tuple[int, bool], ...]:
        """For each filter how many transactions match, up to ``limit``, and whether there may be
        more. Bounded like a page of :meth:`list`."""
        with self._database.session() as session:
            return count_each(session, filters, limit)

    def count_open(self, owner: str, limit: int) -> int:
        """How many of an owner's transactions are open, counted up to ``limit``."""
        with self._database.session() as session:
            row = session.one("count_open_of_owner", owner=owner, limit=limit)
        return row.count if row else 0

    def log(
        self, txn_id: TxnID, *, after: int = 0, limit: int | None = None
    ) -> tuple[TransactionLogEntry, ...]:
        """The transaction log's records of one transaction, in order; none once it is archived.

        Args:
            after: the ``log_id`` of a record; only later ones are answered.
            limit: how many at most; None for all.

        Raises:
            TransactionNotFound: there is none.
        """
        with self._database.session() as session:
            found = session.all(
                "txn_log",
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                after=after,
                limit=limit,
            )
        if not found and not after:
            archived(self._database, txn_id, None)
        return tuple(rows.log_entry(row) for row in found)

    def outcome(self, txn_id: TxnID) -> Outcome:
        """The outcome of a transaction. Every id that was ever issued has one, also when the
        transaction is archived.

        Raises:
            TransactionNotFound: the id was never issued.
        """
        found = self._database.ask(STATUS, txn_id.tc_id, txn_id.sequence)
        status = found[0][0] if found else archived(self._database, txn_id, None).status
        return outcome_of(TxnStatus(status))

    def add_partitions(
        self, txn_id: TxnID, partitions: Sequence[PartitionName], *, owner: str | None = None
    ) -> Transaction:
        """AddPartitionToTxn. Adding a partition again changes nothing.

        Raises:
            TransactionNotFound, InvalidTxnStatus: not there, not the owner's, or not OPEN.
            TopicNotFound, PartitionNotFound: a partition does not exist.
            InvalidRequest: one is a system topic's.
        """
        self._joining.partitions(txn_id, partitions, owner=owner)
        return self.get(txn_id)

    def add_subscriptions(
        self, txn_id: TxnID, subscriptions: Sequence[SubscriptionName], *, owner: str | None = None
    ) -> Transaction:
        """AddSubscriptionToTxn. Adding a subscription again changes nothing.

        Raises: as :meth:`add_partitions`.
        """
        self._joining.subscriptions(txn_id, subscriptions, owner=owner)
        return self.get(txn_id)

    def end(
        self,
        txn_id: TxnID,
        action: TxnAction,
        *,
        reason: EndReason = EndReason.CLIENT,
        detail: str | None = None,
        owner: str | None = None,
    ) -> Transaction:
        """EndTxn: record the decision. Repeating the same action succeeds, with the current status.

        Raises:
            TransactionNotFound: there is none, or it is not ``owner``'s.
            InvalidTxnStatus: it has been ended the opposite way.
        """
        with tracing.span("decide", txn_id=txn_id, action=action):
            decided = self._database.ask(
                DECIDE,
                txn_id.tc_id,
                txn_id.sequence,
                DECISION[action],
                reason,
                detail,
                owner,
                tracing.traceparent(),
            )
        if not decided:
            transaction = self.get(txn_id, owner=owner)
            refuse_opposite_end(
                transaction.status, action, txn_id=txn_id, reason=transaction.end_reason
            )
            return transaction
        return rows.whole_transaction(WholeRow(*decided[0]))

    def wait_for_end(self, txn_id: TxnID, *, wait_ms: int) -> Transaction:
        """Wait until the transaction is COMMITTED or ABORTED, at most ``wait_ms``, without holding
        a connection. Answers the transaction as it is after that.

        Raises:
            TransactionNotFound: there is none.
        """
        give_up = time.monotonic() + wait_ms / 1000
        for pause in _FIRST_LOOKS:
            if _has_ended(self._statuses([txn_id]).get(txn_id)):
                return self.get(txn_id)
            if time.monotonic() + pause > give_up:
                break
            time.sleep(pause)
        while (left := give_up - time.monotonic()) > 0:
            self._ends.wait(txn_id, _has_ended, left)
            if _has_ended(self._statuses([txn_id]).get(txn_id)):
                break
        return self.get(txn_id)

    def _statuses(self, txn_ids: Collection[TxnID]) -> dict[TxnID, str | None]:
        found = self._database.ask(STATUSES, *id_lists(txn_ids).values())
        return {txn_id: status for txn_id, (status, _) in zip(txn_ids, found, strict=True)}

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
            what = "only an OPEN transaction can be extended"
            raise not_allowed(txn_id, transaction.status, what, transaction.end_reason)
        return self.get(txn_id)

    def expire(self, limit: int = 1000) -> tuple[TxnID, ...]:
        """Decide to abort at most ``limit`` transactions that are OPEN past their deadline; answers
        which. Never early, by the database's clock; concurrent calls take different ones."""
        with self._database.session() as session:
            found = session.adhoc("expire_txns", limit=limit)
        return tuple(txn_of(row) for row in found)

    def stats(self, *, after: int = -1, limit: int | None = None) -> tuple[CoordinatorStats, ...]:
        """Counters of the coordinators with ids above ``after``, at most ``limit``; by default of
        all."""
        with self._database.session() as session:
            found = session.all("coordinator_stats", after=after, limit=limit)
        return tuple(map(rows.coordinator_stats, found))

    def stats_of(self, tc_id: int) -> CoordinatorStats:
        """One coordinator's counters.

        Raises:
            CoordinatorNotFound: there is no coordinator ``tc_id``.
        """
        for found in self.stats(after=min(tc_id, MAX_TC_ID) - 1, limit=1):
            if found.tc_id == tc_id:
                return found
        raise CoordinatorNotFound.of(tc_id)

    def number(self) -> int:
        """How many coordinators there are, as of the last second; ids go from 0 up to one less."""
        return self._count.current()

    def scale(self, count: int) -> int:
        """Grow the number of coordinators while all runs; every process uses them within a second.
        See :meth:`engine.coordinator.scaling.CoordinatorCount.scale`.

        Returns:
            How many there were before.
        """
        return self._count.scale(count)

    def load(self) -> Load:
        """What all coordinators have to do, read at one moment."""
        counted, stats = self._database.snapshot(
            ("live_counts", {}), ("coordinator_stats", {"after": -1, "limit": None})
        )
        found = {row.status: row.count for row in counted}
        return Load(
            live={status: found.get(status, 0) for status in LIVE},
            coordinators=tuple(map(rows.coordinator_stats, stats)),
        )

    def timeout_wheel(self, tc_id: int, bounds: Sequence[float]) -> tuple[int, ...]:
        """A histogram of the time that open transactions of a coordinator have left.

        Args:
            bounds: seconds, ascending.

        Returns:
            How many have less time left than the first bound, then how many lie between each bound
            and the next, and last how many are above the last bound.
        """
        with self._database.session() as session:
            found = session.all("timeout_wheel", tc_id=tc_id, bounds=list(bounds))
        slots = [0] * (len(bounds) + 1)
        for row in found:
            slots[row.slot] = row.count
        return tuple(slots)

    def ends_between(
        self, since: datetime, until: datetime, width: timedelta
    ) -> tuple[EndsOfSpan, ...]:
        """Counts of the transactions that ended in [since, until), by span of ``width``, outcome
        and step of duration (engine.model.durations). The cost depends on what ended in that time,
        not on the history."""
        with self._database.session() as session:
            found = session.adhoc(
                "ends_between", since=since, until=until, width=width, steps=STEPS_PER_DOUBLING
            )
        return tuple(
            EndsOfSpan(row.since, TxnStatus(row.status), row.step, row.count) for row in found
        )

    def ends_of_coordinators(
        self, since: datetime, until: datetime, width: timedelta
    ) -> tuple[EndsOfCoordinator, ...]:
        """As :meth:`ends_between`, by span and coordinator."""
        with self._database.session() as session:
            found = session.adhoc("ends_of_coordinators", since=since, until=until, width=width)
        return tuple(EndsOfCoordinator(**row._asdict()) for row in found)

    def _check_timeout(self, timeout_ms: int) -> None:
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidRequest(
                f"timeout_ms must be between 1 and {self._settings.max_timeout_ms}.",
                field="timeout_ms",
            )
