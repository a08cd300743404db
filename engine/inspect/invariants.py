"""The invariants of semantics §8, checked continuously.

A step looks at a bounded number of rows and stores in the coordinators' database where it stopped
and what it found. It writes nothing else, and locks nothing. Each check of a partition reads one
snapshot of its broker, so traffic cannot make it fail. For what no snapshot spans, the order of
reading makes sure of the same (:mod:`engine.inspect.coordinator_checks`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from engine.inspect.ack_checks import check_acks
from engine.inspect.checks import Check
from engine.inspect.coordinator_checks import (
    Marks,
    check_ids,
    check_marks,
    check_transactions,
    highest_marks,
    subject_of,
)
from engine.inspect.log_checks import check_files, check_log, check_rebuild
from engine.inspect.reading import Reading
from engine.inspect.sidecar_checks import check_sidecar, check_sidecar_index
from engine.log.rows import partition_of
from engine.model.errors import (
    CoordinatorUnavailable,
    PartitionNotFound,
    PartitionUnavailable,
    TopicNotFound,
)
from engine.model.page import Page, check_limit, decode_cursor, encode_cursor, foreign_cursor
from engine.model.topic_name import PartitionName
from engine.postgres.database import Database
from engine.postgres.failures import FAILURES
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

#: How many entries, log steps or transactions one step looks at, of one subject.
BUDGET = 5000
#: How many partitions of a broker, and how many coordinators, one round takes.
_PARTITIONS = 20
_COORDINATORS = 20
#: What a number of an invariant is stored in holds no more.
_MAX_INVARIANT = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCheck:
    """What is known of one invariant about one subject: counter-examples from the last complete
    pass and from the pass under way. ``completed_at``: None until a first pass is complete."""

    invariant: int
    name: str
    subject: str
    holds: bool
    counter_examples: tuple[Mapping[str, object], ...]
    position: int
    detail: str | None
    checked_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantState:
    """What is known of all invariants: how many checks there are, how many of them are broken, when
    the oldest and the newest were made, and a page of them."""

    checks: int
    broken: int
    oldest: datetime | None
    newest: datetime | None
    page: Page[KnownCheck]


@dataclass(frozen=True, slots=True)
class Report:
    """The checks of one step on one subject. ``position``: where to go on, None when all of it has
    been looked at."""

    checks: tuple[Check, ...]
    position: int | None


class Invariants:
    """Runs checks and remembers what they found."""

    def __init__(self, reading: Reading, database: Database) -> None:
        self._reading = reading
        self._database = database

    def of_partition(
        self, partition: PartitionName, *, position: int = 0, budget: int = BUDGET
    ) -> Report:
        """Check a partition with its subscriptions; its log from the offset ``position`` on.

        Raises:
            TopicNotFound, PartitionNotFound: there is no such partition.
            PartitionUnavailable: recovering, or its broker cannot be reached.
        """
        with self._reading.view(partition) as view:
            log = check_log(view, position, budget)
            checks = [*log.checks, *check_acks(view, budget), check_rebuild(view, budget)]
            checks += check_sidecar(view, budget)
        brokers = self._reading.brokers
        broker = self._reading.locate(partition).database
        checks.append(check_files(brokers.offloaded, broker, partition, log))
        return Report(tuple(checks), log.position)

    def of_index(self, partition: PartitionName, *, position: int = 0) -> Report:
        """As :meth:`of_partition`, but only the log and its index: without subscriptions, without
        files, and without rebuilding the state.

        Raises:
            As :meth:`of_partition`.
        """
        with self._reading.view(partition) as view:
            log = check_log(view, position, BUDGET)
            checks = [*log.checks, *check_sidecar_index(view, BUDGET)]
        return Report(tuple(checks), log.position)

    def of_coordinator(
        self, tc_id: int, *, position: int = 0, budget: int = BUDGET, marks: Marks | None = None
    ) -> Report:
        """Check a coordinator against all brokers; its transactions from the sequence ``position``
        on. ``marks``: the brokers' low water marks, if they have been asked already.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        marks = marks or highest_marks(self._reading)
        checks, resume = check_transactions(
            self._reading, self._database, tc_id, position, min(budget, 500)
        )
        return Report((check_marks(marks, self._database, tc_id), *checks), resume)

    def of_ids(self, tc_id: int, *, position: int = 0) -> Report:
        """Check that there is an answer for every id of a coordinator, from a sequence on.

        Raises:
            CoordinatorUnavailable: its database cannot be reached.
        """
        check = check_ids(self._database, tc_id, position)
        return Report((check,), check.position)

    def step(self, coordinators: int, *, seconds: float = math.inf) -> int:
        """One round: the next coordinators, and the next partitions of each broker, from where the
        last round stopped. A broker that cannot be reached is left out. When a coordinator or a
        partition cannot be checked, those after it wait for the next round.

        Args:
            seconds: after so long nothing more is begun, but at least one coordinator and one
                partition of each broker are checked. The next round goes on.

        Returns:
            How many checks found counter-examples.
        """
        share = seconds / (1 + len(self._reading.brokers.names))
        rounds = {"coordinators": partial(self._coordinators_round, coordinators)} | {
            database.name: partial(self._round, database) for database in self._reading.brokers
        }
        broken = 0
        for name, check in rounds.items():
            try:
                broken += check(share)
            except (CoordinatorUnavailable, PartitionUnavailable):
                continue  # Readiness names it, and so do the checks that needed it.
            except FAILURES:  # It takes too long, or there is damage that no check expects.
                logger.exception("invariants not checked", of=name)
        with self._database.session() as session:
            session.run("forget_checks")
        return broken

    def state(self, *, broken: bool, part: str, limit: int, cursor: str | None) -> InvariantState:
        """See :meth:`engine.inspect.inspector.Inspector.invariant_state`."""
        check_limit(limit)
        place = _place(cursor)
        with self._database.session() as session:
            [totals] = session.all("check_totals")
            found = session.adhoc("checks", broken=broken, part=part, limit=limit + 1, **place)
        items = tuple(_known(row) for row in found[:limit])
        more = len(found) > limit
        return InvariantState(
            checks=totals.checks,
            broken=totals.broken,
            oldest=totals.oldest,
            newest=totals.newest,
            page=Page(
                items=items,
                next_cursor=_cursor(items[-1]) if more else None,
            ),
        )

    def _coordinators_round(self, coordinators: int, seconds: float) -> int:
        until = time.monotonic() + seconds
        subject = "round:coordinators"
        first = self._positions(subject).get("round", 0)
        due = range(first, min(first + _COORDINATORS, coordinators))
        marks = highest_marks(self._reading)
        broken = reached = 0
        try:
            for tc_id in due:
                reached = tc_id + 1
                positions = self._positions(subject_of(tc_id))
                position = positions.get("one_outcome", 0)
                report = self.of_coordinator(tc_id, position=position, marks=marks)
                broken += self._keep(report, begins=position == 0)
                position = positions.get("ids_answer", 0)
                broken += self._keep(self.of_ids(tc_id, position=position), begins=position == 0)
                if time.monotonic() >= until:
                    break
        finally:  # One that cannot be checked is passed over by the next round.
            self._stop(subject, reached if reached < coordinators else 0)
        return broken

    def _round(self, database: Database, seconds: float) -> int:
        until = time.monotonic() + seconds
        subject = f"round:{database.name}"
        last = self._positions(subject).get("round", 0)
        with database.session() as session:
            due = session.all("partitions_from", partition_id=last, limit=_PARTITIONS)
        broken = place = 0
        for row in due:
            place = row.partition_id
            partition = partition_of(row)
            position = self._positions(str(partition)).get("dense_offsets", 0)
            try:
                report = self.of_partition(partition, position=position)
            except (PartitionNotFound, TopicNotFound):
                continue  # It has just been deleted.
            except Exception:
                self._stop(subject, place)  # the next round goes on after it
                raise
            broken += self._keep(report, begins=position == 0)
            if time.monotonic() >= until:
                break
        whole = len(due) < _PARTITIONS and (not due or place == due[-1].partition_id)
        self._stop(subject, 0 if whole else place)
        return broken

    def _stop(self, subject: str, place: int) -> None:
        """Store where a round stopped."""
        with self._database.session() as session:
            stop = Check(invariant=0, name="round", subject=subject, position=place)
            _write(session, stop, begins=True)

    def _positions(self, subject: str) -> dict[str, int]:
        with self._database.session() as session:
            return {
                row.name: row.position for row in session.all("check_positions", subject=subject)
            }

    def _keep(self, report: Report, *, begins: bool) -> int:
        with self._database.transaction() as session:
            for check in report.checks:
                _write(session, check, begins=begins)
        return sum(bool(check.counter_examples) for check in report.checks)


def _write(session: Session, check: Check, *, begins: bool) -> None:
    """Store a check of a step. ``begins``: this is the first step of a pass."""
    session.run(
        "write_check",
        name=check.name,
        subject=check.subject,
        invariant=check.invariant,
        position=check.position or 0,
        begins=begins,
        whole=check.position is None and check.skipped is None,
        found=json.dumps([dict(example) for example in check.counter_examples]),
        detail=check.skipped,
    )


def _cursor(last: KnownCheck) -> str:
    return encode_cursor(int(last.holds), last.invariant, last.name, last.subject)


def _place(cursor: str | None) -> dict[str, object]:
    holds, invariant, name, subject = decode_cursor(cursor, 4) if cursor else (0, 0, "", "")
    if not (isinstance(invariant, int) and 0 <= invariant <= _MAX_INVARIANT):
        raise foreign_cursor()
    return {
        "holds": bool(holds),
        "invariant": invariant,
        "name": str(name),
        "subject": str(subject),
    }


def _known(row: Row) -> KnownCheck:
    examples: list[dict[str, Any]] = []
    for example in (*row.counter_examples, *row.found):
        if example not in examples:
            examples.append(example)
    return KnownCheck(
        invariant=row.invariant,
        name=row.name,
        subject=row.subject,
        holds=not examples,
        counter_examples=tuple(examples),
        position=row.position,
        detail=row.detail,
        checked_at=row.checked_at,
        completed_at=row.completed_at,
    )
