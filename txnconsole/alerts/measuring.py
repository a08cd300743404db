"""What each kind of rule reads from the engine.

Every read is bounded. One that fails, or whose bound may hide an object that has an alert, makes
its kind incomplete: what was not measured is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import structlog

from engine import Engine
from engine.inspect.blockers import HeldBack
from engine.model.errors import EngineError, PartitionNotFound, TopicNotFound
from engine.model.topic_name import SIDECAR_SUFFIX, PartitionName
from engine.model.transaction import Transaction, TransactionFilter, TransactionOrder
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.alerts.kinds import Kind
from txnconsole.alerts.units import milliseconds
from txnconsole.quantities import counted
from txnconsole.queue.conflicts import conflicts_per_minute

#: How many objects of one kind are looked at: the worst, when there are more.
MAX_OBJECTS = 100
#: How many held-back partitions are looked at.
_MAX_PARTITIONS = 500
#: The ends of the last so many seconds make the abort ratio.
_ENDS_SECONDS = 300
#: With fewer ends there is no abort ratio: it would say nothing.
MIN_ENDS = 20
_PARTITION, _TRANSACTION = "partition:", "transaction:"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
    """An object's value, in its kind's unit.

    ``detail`` tells people what is behind it; ``topic`` is what a rule's pattern is matched with,
    empty when the object belongs to no topic.
    """

    value: float
    detail: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples by object. When they are ``complete``, an object without a sample is fine, unless it
    is one of the ``unknown``; otherwise nothing is known of it."""

    samples: Mapping[str, Sample] = field(default_factory=dict)
    complete: bool = True
    unknown: Collection[str] = ()


class Measurements:
    """One look at the engine, shared by all rules of one evaluation.

    Args:
        known: objects that have an alert already, by kind; they are measured even when others are
            worse.
    """

    def __init__(self, engine: Engine, known: Mapping[Kind, Collection[str]]) -> None:
        self._engine = engine
        self._known = known
        self._measured: dict[Kind, Measured] = {}

    def of(self, kind: Kind) -> Measured:
        """Measure a kind, once; when the engine cannot be read now, it is incomplete."""
        if kind not in self._measured:
            try:
                self._measured[kind] = self._by_kind[kind](self)
            except EngineError as error:
                _log.warning("not measured", kind=kind.value, code=error.code)
                self._measured[kind] = Measured(complete=False)
        return self._measured[kind]

    @cached_property
    def _held(self) -> HeldBack:
        return self._engine.inspect.held_back(_MAX_PARTITIONS)

    def _overdue(self) -> Measured:
        wanted = TransactionFilter(overdue=True)
        found = self._transactions(Kind.OVERDUE, wanted, TransactionOrder.OVERDUE)
        return Measured({name: Sample(one.overdue_ms, _about(one)) for name, one in found.items()})

    def _stuck(self) -> Measured:
        wanted = TransactionFilter(statuses=(TxnStatus.COMMITTING, TxnStatus.ABORTING))
        found = self._transactions(Kind.STUCK_ENDING, wanted, TransactionOrder.OLDEST)
        return Measured(
            {
                name: Sample(one.finalizing_ms or 0, f"{one.status}, {_about(one)}")
                for name, one in found.items()
            }
        )

    def _transactions(
        self, kind: Kind, wanted: TransactionFilter, order: TransactionOrder
    ) -> dict[str, Transaction]:
        """The first that match, and those that have an alert of this kind, as they are now."""
        page = self._engine.coordinator.list(wanted, order=order, limit=MAX_OBJECTS)
        listed = {one.txn_id: one for one in page.items}
        missing = {_txn_id(name) for name in self._known.get(kind, ())} - listed.keys()
        listed |= self._engine.coordinator.get_many(missing) if missing else {}
        return {f"{_TRANSACTION}{txn_id}": one for txn_id, one in listed.items()}

    def _held_back(self) -> Measured:
        samples = {}
        for status in self._held.partitions:
            if status.blocker is not None:
                waited = milliseconds(status.held_for)
                hidden = counted(status.hidden_messages, "offset")
                detail = f"{hidden} behind {status.blocker.txn_id}"
                topic = str(status.partition.topic)
                samples[f"{_PARTITION}{status.partition}"] = Sample(waited, detail, topic)
        return self._of_partitions(Kind.HELD_BACK, samples, self._held.unavailable, whole=self._all)

    def _blocker_timeout(self) -> Measured:
        blockers = {
            status.partition: status.blocker.txn_id
            for status in self._held.partitions
            if status.blocker is not None
        }
        known = self._engine.coordinator.get_many(set(blockers.values())) if blockers else {}
        samples = {}
        for partition, txn_id in blockers.items():
            one = known.get(txn_id)
            used = None if one is None else _used_percent(one)
            if one is not None and used is not None:
                detail = f"{txn_id}, {_about(one)}"
                samples[f"{_PARTITION}{partition}"] = Sample(used, detail, str(partition.topic))
        return self._of_partitions(
            Kind.BLOCKER_TIMEOUT, samples, self._held.unavailable, whole=self._all
        )

    @property
    def _all(self) -> bool:
        """Whether all held-back partitions of the brokers that answered were looked at."""
        return len(self._held.partitions) < _MAX_PARTITIONS

    def _of_partitions(
        self,
        kind: Kind,
        samples: Mapping[str, Sample],
        unavailable: Collection[str],
        *,
        whole: bool,
    ) -> Measured:
        """Samples of partitions. ``whole``: no bound left any out. Nothing is known of those on
        brokers that did not answer."""
        missing = set(self._known.get(kind, ())) - samples.keys() if unavailable else ()
        unknown = {name for name in missing if self._broker_of(name) in unavailable}
        return Measured(samples, complete=whole, unknown=unknown)

    def _broker_of(self, name: str) -> str | None:
        """The broker of a partition that has an alert; None when the partition has been deleted."""
        partition = name.removeprefix(_PARTITION).removesuffix(SIDECAR_SUFFIX)
        try:
            return self._engine.log.locate(PartitionName.parse(partition)).database.name
        except (TopicNotFound, PartitionNotFound):
            return None

    def _abort_ratio(self) -> Measured:
        ends = self._engine.inspect.recent_ends(_ENDS_SECONDS)
        total = ends.committed + ends.aborted
        if total < MIN_ENDS:
            return Measured()
        detail = f"{ends.aborted:,} of {total:,} that ended"
        return Measured({"transactions": Sample(round(100 * ends.aborted / total, 3), detail)})

    def _conflicts(self) -> Measured:
        found = conflicts_per_minute()
        if found is None:
            return Measured(complete=False)
        return Measured(
            {
                f"subscription:{name}": Sample(rate, "", name.rpartition("/")[0])
                for name, rate in found.items()
            }
        )

    def _stranded(self) -> Measured:
        found = self._engine.inspect.stranded_letters()
        worst = found.stranded[:MAX_OBJECTS]
        return Measured(
            {
                f"subscription:{one.subscription}": Sample(
                    one.letters,
                    f"there is no topic {one.dead_letter_topic}",
                    str(one.subscription.topic),
                )
                for one in worst
            },
            complete=found.complete and len(worst) == len(found.stranded),
        )

    def _snapshots(self) -> Measured:
        found = self._engine.inspect.late_snapshots(MAX_OBJECTS)
        samples = {
            f"{_PARTITION}{one.partition}": Sample(
                one.age_ms, f"{one.changes:,} changes since", str(one.partition.topic)
            )
            for one in found.late
        }
        whole = len(found.late) < MAX_OBJECTS
        return self._of_partitions(Kind.SNAPSHOT_AGE, samples, found.unavailable, whole=whole)

    def _recovering(self) -> Measured:
        found = self._engine.inspect.recovering()
        return Measured({f"coordinator:{tc_id}": Sample(age) for tc_id, age in found.items()})

    def _invariants(self) -> Measured:
        page = self._engine.inspect.invariant_state(broken=True, limit=MAX_OBJECTS).page
        return Measured(
            {
                f"invariant:{check.name}:{check.subject}": Sample(
                    len(check.counter_examples), f"invariant {check.invariant}"
                )
                for check in page.items
            },
            complete=page.next_cursor is None,
        )

    def _databases(self) -> Measured:
        brokers = self._engine.ping()
        del brokers[self._engine.database.name]  # Rules are evaluated there.
        wrong = {name: problem for name, problem in brokers.items() if problem is not None}
        return Measured({f"database:{name}": Sample(1, problem) for name, problem in wrong.items()})

    def _workers(self) -> Measured:
        return Measured()  # A worker that measures is not silent; see ``reading``.

    _by_kind: ClassVar[Mapping[Kind, Callable[[Measurements], Measured]]] = {
        Kind.OVERDUE: _overdue,
        Kind.HELD_BACK: _held_back,
        Kind.BLOCKER_TIMEOUT: _blocker_timeout,
        Kind.STUCK_ENDING: _stuck,
        Kind.ABORT_RATIO: _abort_ratio,
        Kind.CONFLICT_RATE: _conflicts,
        Kind.DEAD_LETTERS_STRANDED: _stranded,
        Kind.SNAPSHOT_AGE: _snapshots,
        Kind.COORDINATOR_RECOVERING: _recovering,
        Kind.INVARIANT_BROKEN: _invariants,
        Kind.DATABASE_AWAY: _databases,
        Kind.WORKER_SILENT: _workers,
    }


def _txn_id(name: str) -> TxnID:
    return TxnID.parse(name.removeprefix(_TRANSACTION))


def _about(one: Transaction) -> str:
    return f"of {one.owner} ({one.client})" if one.client else f"of {one.owner}"


def _used_percent(one: Transaction) -> float | None:
    """How much of its timeout an open transaction has used, from when it was last extended."""
    if one.status is not TxnStatus.OPEN or one.deadline is None or not one.timeout_ms:
        return None
    left = milliseconds(one.deadline - one.now)
    return round(max(0.0, 100 * (1 - left / one.timeout_ms)), 3)
