"""Counters that outlive every process, in the coordinators' database (docs/decisions/0014).

What an SQL transaction does is counted in the same transaction (:func:`add`), so it is counted
exactly once. Other events are collected in the process and written every few seconds
(:meth:`Figures.count`); a process that is killed loses what it has not written yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import datetime

import structlog

from engine.coordinator.statements import RecordedRow
from engine.model.errors import EngineError
from engine.model.figures import Figure, FigureName, Tally
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.prepared import FLOAT8, INT4, INT8, TEXT, Prepared, array_of
from engine.postgres.session import Session
from engine.sql import queries

logger = structlog.get_logger(__name__)

#: Each figure has so many rows, so that writers do not wait for each other. Finalizers are spread
#: over them by coordinator; :class:`Figures` writes to the first.
_SHARDS = 16
#: How long a process collects counts before it writes them.
_KEPT_SECONDS = 5.0
_ADD_FIGURES = Prepared(
    "add_figures",
    queries("figures")["add_figures"],
    {
        "shard": INT4,
        "names": array_of(TEXT),
        "labels": array_of(TEXT),
        "counts": array_of(INT8),
        "seconds": array_of(FLOAT8),
        "buckets": array_of(TEXT),
    },
    [],
)
_KNOWN = {name.value for name in FigureName}


def add(session: Session, tally: Tally, *, shard: int = 0) -> None:
    """Add a tally to the counters. It has to be the last statement of its SQL transaction, because
    it locks rows that others wait for."""
    figures = list(tally)
    if figures:
        session.ask(
            _ADD_FIGURES,
            shard % _SHARDS,
            [figure.name.value for figure in figures],
            [figure.label for figure in figures],
            [figure.count for figure in figures],
            [figure.seconds for figure in figures],
            ["{" + ",".join(map(str, figure.buckets)) + "}" for figure in figures],
        )


def of_ends(
    recorded: Iterable[RecordedRow],
    decided_at: Mapping[TxnID, datetime],
    waiting: Mapping[str, int],
) -> Tally:
    """The counts of one step of the finalizer.

    Args:
        recorded: partitions that have answered, and transactions that have ended.
        decided_at: when each transaction was decided.
        waiting: participants that have to be asked again, by kind.
    """
    tally = Tally()
    for row in recorded:
        outcome = row.state.lower()
        if row.execution_seconds is not None and row.finalize_seconds is not None:
            reason = f"{outcome}/{row.end_reason}"
            tally.observe(FigureName.EXECUTION, row.execution_seconds, reason)
            tally.observe(FigureName.FINALIZE, row.finalize_seconds, outcome)
        elif outcome == "committed":
            waited = row.at - decided_at[row.txn_id]
            tally.observe(FigureName.VISIBLE, waited.total_seconds())
    for kind, participants in waiting.items():
        if participants:
            tally.count(FigureName.FINALIZE_RETRIES, kind, times=participants)
    return tally


class Figures:
    """The counters. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._tally = Tally()
        self._timer: threading.Timer | None = None

    def count(self, name: FigureName, label: str = "", *, times: int = 1) -> None:
        """Count an event; it is written within a few seconds."""
        with self._lock:
            self._tally.count(name, label, times=times)
            self._write_soon()

    def observe(self, name: FigureName, seconds: float, label: str = "") -> None:
        """As :meth:`count`, with a duration."""
        with self._lock:
            self._tally.observe(name, seconds, label)
            self._write_soon()

    def write(self) -> None:
        """Write what has been collected. What cannot be written now is kept for the next time."""
        with self._lock:
            tally, self._tally = self._tally, Tally()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if not tally:
            return
        try:
            with self._database.session() as session:
                add(session, tally)
        except EngineError as error:
            logger.warning("figures not written", code=error.code, reason=error.message)
            with self._lock:
                for figure in tally:
                    self._tally.add(figure)

    def read(self) -> Tally:
        """Everything that has been counted and written since the deployment began.

        Raises:
            CoordinatorUnavailable: the database cannot be reached.
        """
        with self._database.session() as session:
            rows = session.all("figures")
        return Tally(
            Figure(FigureName(row.name), row.label, row.count, row.seconds, tuple(row.buckets))
            for row in rows
            if row.name in _KNOWN  # A newer version may count things that this one does not know.
        )

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_KEPT_SECONDS, self.write)
            self._timer.daemon = True
            self._timer.start()
