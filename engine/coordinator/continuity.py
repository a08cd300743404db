"""Whether the coordinators' database still has all that the brokers have carried out.

A standby that lagged may be promoted while every process goes on, and a copy may be restored that
is older than the brokers'. Such coordinators would issue ids a second time, and decide again what
readers have seen. So before a process relies on a connection the coordinators are compared with the
brokers, once for each start of their server and for each copy of the database
(``coordinator.compared``). Older ones are refused until ``manage.py reconcile_engine`` has been run
(engine/coordinator/reconciliation.py).

What no broker has heard of is not missed: an id that was issued and lost before anything was
written in its transaction may be issued again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from engine.log.brokers import Brokers
from engine.log.rows import txn_of
from engine.model.errors import CoordinatorUnavailable, EngineError
from engine.model.txn_id import TxnID, id_lists
from engine.postgres.pool_cache import hurried
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

_OLDER = (
    "The coordinators' database is older than the brokers': it would issue ids a second time. Stop"
    " all processes and run manage.py reconcile_engine (docs/operations.md, Backups)."
)
#: For so many seconds coordinators are used that not every broker could be compared with, and for
#: so many nobody looks again at older ones.
_UNTIL_COMPARED, _REFUSED = 5.0, 1.0


class Continuity:
    """Compares the coordinators with the brokers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._refused_until = 0.0

    def vouch(self, session: Session) -> float:
        """For how many seconds the coordinators that a session leads to may be relied on: for ever
        when they are no older than any broker, for a moment while one cannot be asked.

        Raises:
            CoordinatorUnavailable: they are older.
        """
        if time.monotonic() < self._refused_until:
            raise CoordinatorUnavailable(_OLDER)
        [row] = session.all("compared")
        self._brokers.cluster_id = row.cluster_id
        if not row.compared:
            if not self._compare(session):
                return _UNTIL_COMPARED
            session.run("note_compared")
        return math.inf

    def require(self, session: Session) -> None:
        """Compare anew, whatever was found before.

        Raises:
            CoordinatorUnavailable: the coordinators are older than a broker.
        """
        self._refused_until = 0.0
        self._compare(session)

    def _compare(self, session: Session) -> bool:
        """Whether all brokers were asked."""
        evidence = self._evidence(session)
        if any(_contradicted(session, evidence)):
            logger.error("the coordinators' database is older than the brokers'")
            self._refused_until = time.monotonic() + _REFUSED
            raise CoordinatorUnavailable(_OLDER)
        return evidence.by_all

    def _evidence(self, session: Session) -> _Evidence:
        issued = session.all("issued")
        tc_ids = [row.tc_id for row in issued]
        unissued = {"tc_ids": tc_ids, "sequences": [row.sequence + 1 for row in issued]}
        undecided = {"tc_ids": tc_ids, "sequences": [row.decided + 1 for row in issued]}
        open_ids = id_lists(map(txn_of, session.all("open_ids")))
        among = {f"open_{name}": ids for name, ids in open_ids.items()}
        evidence = _Evidence()
        for broker in self._brokers:
            try:
                with hurried(), broker.session() as asked:
                    evidence.tc_id = max(evidence.tc_id, asked.all("highest_ids")[0].tc_id)
                    evidence.marks += asked.adhoc("highest_marks")
                    evidence.known += map(txn_of, asked.all("evidence", **unissued))
                    evidence.ended += asked.all("ended_among", **undecided, **among)
            except EngineError as error:
                logger.warning("broker not compared", broker=broker.name, reason=error.message)
                evidence.by_all = False
        return evidence


@dataclass(slots=True)
class _Evidence:
    """What the brokers know: the highest id of a coordinator, low water marks, transactions that
    had not been issued when the coordinators were asked before, and where such as were OPEN have
    ended (rows of ``ended_among``)."""

    tc_id: int = -1
    marks: list[Row] = field(default_factory=list)
    known: list[TxnID] = field(default_factory=list)
    ended: list[Row] = field(default_factory=list)
    by_all: bool = True


def _contradicted(session: Session, evidence: _Evidence) -> Iterator[bool]:
    """Whether the coordinators contradict what the brokers tell. They are asked afterwards: what a
    broker knows, coordinators that have lost nothing knew before."""
    issued = {row.tc_id: row for row in session.all("issued")}
    yield evidence.tc_id >= 0 and evidence.tc_id not in issued
    for row in evidence.marks:
        yield row.tc_id not in issued or row.low_water_mark > issued[row.tc_id].decided
    for txn_id in evidence.known:
        yield txn_id.sequence > issued[txn_id.tc_id].sequence
    yield bool(open_though_ended(session, evidence.ended))


def open_though_ended(session: Session, ended: Sequence[Row]) -> set[TxnID]:
    """The transactions that are OPEN although they have ended on a broker.

    Args:
        ended: where, in rows of ``ended_among``.
    """
    found = session.all(
        "open_though_ended",
        **id_lists(map(txn_of, ended)),
        topic_ids=[row.topic_id for row in ended],
        subscriptions=[row.subscription for row in ended],
    )
    return set(map(txn_of, found))
