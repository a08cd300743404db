"""Carrying out decisions: every participant gets its end command, then the transaction ends
(semantics §3).

Many transactions take few SQL transactions: all that are due, of one coordinator or of many, are
grouped by broker, and each broker does its part of all of them together
(engine.coordinator.broker_ends). The brokers are asked in parallel, and a run does not wait for a
slow one, so that a slow broker holds up only its own ends. Two workers may do the same work: ends
are exactly-once on the broker, and results are recorded by compare-and-set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

import structlog

from engine.coordinator import due, figures
from engine.coordinator.answers import Answers
from engine.coordinator.broker_ends import BrokerEnds, Orders
from engine.coordinator.due import Participant
from engine.coordinator.end_traces import EndTraces
from engine.coordinator.orphans import Orphans
from engine.log.brokers import Brokers
from engine.log.catalog import Catalog
from engine.log.rows import txn_of
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Row, Session

logger = structlog.get_logger(__name__)

#: How often a process records that it finalizes a coordinator.
_NOTE_SECONDS = 1.0
#: How many brokers the runs of one process ask at the same time.
_ASKERS = 32
#: How long a run waits for its brokers; normally a broker's part takes milliseconds.
_PATIENCE_SECONDS = 1.0
#: How long the answers of a broker wait, to be recorded together with those of other brokers.
_TOGETHER_SECONDS = 0.02
#: How many transactions one line of the log names.
_LOGGED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """How many transactions one run ended, and how many still wait for a participant."""

    ended: int
    waiting: int

    def leaves_more(self, limit: int) -> bool:
        """Whether a further run may find what this one, of at most ``limit``, has not come to. What
        has not been tried comes first, so when all of a run waits, nothing else is left."""
        return self.ended > 0 and self.ended + self.waiting >= limit


class _Together:
    """Records the answers of a run's brokers, several at a time. A broker's thread waits a moment
    for those of others, and then one of them records for all. Thread-safe.

    Args:
        members: the brokers on which each transaction has still to be ended.
        record: records answers, and ends the transactions that have no broker left to ask; answers
            how many have ended.
    """

    def __init__(
        self,
        members: dict[TxnID, set[str]],
        record: Callable[[Sequence[Answers], list[TxnID]], int],
    ) -> None:
        self._members = members
        self._record = record
        self._asked_still = set().union(*members.values())
        self._to_record: dict[str, Answers] = {}
        self._changed = threading.Condition()

    def record(self, broker: str, answers: Answers) -> int:
        """Record a broker's answers; answers how many transactions this call has ended."""
        with self._changed:
            self._asked_still.remove(broker)
            self._to_record[broker] = answers
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not self._asked_still or broker not in self._to_record, _TOGETHER_SECONDS
            )
            if broker not in self._to_record:
                return 0  # Another thread has recorded them with its own.
            brokers = set(self._to_record)
            # Sorted, because another finalizer may record the same rows: the locks need one order.
            together = [self._to_record.pop(each) for each in sorted(brokers)]
            theirs = [txn_id for txn_id, left in self._members.items() if left & brokers]
            for txn_id in theirs:
                self._members[txn_id] -= brokers
            # Those for which no other broker is still being asked.
            concluded = [txn_id for txn_id in theirs if not self._members[txn_id]]
            return self._record(together, concluded)


class Finalizer:
    """Drives COMMITTING and ABORTING transactions to their end."""

    def __init__(self, database: Database, topics: Catalog, brokers: Brokers) -> None:
        self._database = database
        self._brokers = brokers
        self._ends = BrokerEnds(topics, brokers)
        self._orphans = Orphans(database)
        self._noted: dict[int, float] = {}
        #: The threads are kept, because making them for each run costs as much as a short run.
        self._askers = ThreadPoolExecutor(_ASKERS, "finalizer")
        #: Brokers that are still being asked by a run that is over.
        self._late: set[str] = set()

    def close(self) -> None:
        """End the threads that ask brokers, once they are done."""
        self._askers.shutdown()

    def due(self) -> tuple[int, ...]:
        """Coordinators with something to finalize now."""
        with self._database.session() as session:
            return tuple(row.tc_id for row in session.adhoc("due_coordinators"))

    def finalize(self, *tc_ids: int, limit: int = 1000, worker: str | None = None) -> Finalized:
        """Drive on up to ``limit`` transactions of some coordinators, in the order of decision.

        A participant that cannot be reached is tried again after a back-off; the other
        participants finish their part, which is readable then. ``worker`` is shown as the owner of
        these coordinators.
        """
        with self._database.session() as session:
            found = due.read(session, tc_ids, limit)
            if not found.transactions:
                return Finalized(ended=0, waiting=0)
            self._note(session, sorted(found.low_water_marks), worker)
        commands = {each.command.txn_id: each.command for each in found.transactions}
        orders = Orders(
            commands=commands,
            decided_at={each.command.txn_id: each.decided_at for each in found.transactions},
            low_water_marks=found.low_water_marks,
            traces=EndTraces(found.transactions),
        )
        try:
            ended = self._end_everywhere(found.partitions, found.subscriptions, orders)
        finally:
            orders.traces.close()
        return Finalized(ended=ended, waiting=len(found.transactions) - ended)

    def _note(self, session: Session, tc_ids: Iterable[int], worker: str | None) -> None:
        """Record who finalizes which coordinators, at most once a second for each."""
        now = time.monotonic()
        new = [tc_id for tc_id in tc_ids if now >= self._noted.get(tc_id, 0.0) + _NOTE_SECONDS]
        if worker is not None and new:
            self._noted.update(dict.fromkeys(new, now))
            session.run("note_finalizer", tc_ids=new, worker=worker)

    def _end_everywhere(
        self,
        partitions: Sequence[Participant],
        subscriptions: Sequence[Participant],
        orders: Orders,
    ) -> int:
        """Ask all brokers in parallel, and record their answers, together with those that come at
        about the same time; answers how many transactions have ended.

        The run does not wait for a broker that takes long. Its thread goes on and records its
        answers by itself; until then no run asks that broker again, and what is due there is
        postponed.
        """
        members: dict[TxnID, set[str]] = {txn_id: set() for txn_id in orders.commands}
        for participant in (*partitions, *subscriptions):
            members[participant.txn_id].add(participant.broker)
        late = self._late.copy()
        for brokers in members.values():
            brokers.difference_update(late)
        names = sorted(set().union(*members.values()))
        alone = [txn_id for txn_id, brokers in members.items() if not brokers]
        together = _Together(members, partial(self._record, orders))

        def end_on(name: str) -> int:
            its_partitions = [each for each in partitions if each.broker == name]
            its_subscriptions = [each for each in subscriptions if each.broker == name]
            answers, orphans_left = self._ends.end(name, its_partitions, its_subscriptions, orders)
            ended = together.record(name, answers)
            if orphans_left:
                self._orphans.pass_over(
                    self._brokers.get(name),
                    {each.key for each in its_partitions},
                    {each.key for each in its_subscriptions},
                    orders.low_water_marks,
                )
            return ended

        ended = self._record(orders, [], alone) if alone else 0
        # In a copy of the context, so that the threads' log lines name what this run is about.
        asked = {self._askers.submit(copy_context().run, end_on, name): name for name in names}
        answered, unanswered = wait(asked, timeout=_PATIENCE_SECONDS)
        for future in unanswered:
            self._leave_behind(asked[future], future)
        return ended + sum(future.result() for future in answered)

    def _leave_behind(self, broker: str, future: Future[int]) -> None:
        """End the run without a broker that takes long."""
        self._late.add(broker)
        logger.warning("broker takes long to finalize", broker=broker)

        def done(future: Future[int]) -> None:
            self._late.discard(broker)
            if error := future.exception():
                logger.warning("broker's answers not recorded", broker=broker, error=str(error))

        future.add_done_callback(done)

    def _record(self, orders: Orders, answers: Sequence[Answers], concluded: list[TxnID]) -> int:
        """Record the answers of brokers, and end transactions that have no broker left to ask;
        answers how many."""
        together = Answers.together(answers)

        def work(session: Session) -> tuple[list[TxnID], list[Row]]:
            rows = together.record(session, concluded)
            tally = figures.of_ends(rows, orders.decided_at, together.waiting())
            figures.add(session, tally, shard=min(orders.low_water_marks))
            ended = [row.txn_id for row in rows if row.kind == "transaction"]
            return ended, together.torn(session)

        ended, torn = self._database.retrying(work)
        for row in torn:
            logger.error(
                "a participant has carried out the opposite end",
                txn_id=str(txn_of(row)),
                topic=row.topic,
            )
        if ended:
            orders.traces.conclude(ended)
            txn_ids = [str(txn_id) for txn_id in ended[:_LOGGED]]
            logger.info("transactions ended", transactions=len(ended), txn_ids=txn_ids)
        return len(ended)
