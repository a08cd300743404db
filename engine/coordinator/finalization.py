"""Carrying out decisions: every participant gets its end command, then the transaction ends
(semantics §3).

Many transactions take few SQL transactions: all that are due, of one coordinator or of many, are
grouped by broker, and each broker does its part of all of them in one SQL transaction. The brokers
are asked in parallel, and a run does not wait for a slow one, so that a slow broker holds up only
its own ends. Two workers may do the same work: ends are exactly-once on the broker, and results are
recorded by compare-and-set.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import structlog

from engine.buffer.ending import PartitionEnds, end_txns
from engine.coordinator import due, figures
from engine.coordinator.answers import GONE, Answer, Answers
from engine.coordinator.end_traces import EndTraces
from engine.coordinator.statements import DuePartition, DueSubscription
from engine.log.brokers import Brokers, Location
from engine.log.rows import txn_of
from engine.log.topics import Topics
from engine.model.errors import BrokerUnavailable, EngineError, TimeLimitExceeded
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database, Row, Session
from engine.subscription import ending

logger = structlog.get_logger(__name__)

#: How often a process records that it finalizes a coordinator.
_NOTE_SECONDS = 1.0
#: How many brokers the runs of one process ask at the same time.
_ASKERS = 32
#: How long a run waits for its brokers; normally a broker's part takes milliseconds.
_PATIENCE_SECONDS = 1.0
#: How long the answers of a broker wait, to be recorded together with those of other brokers.
_TOGETHER_SECONDS = 0.02
#: After so many participants, asked one by one, that ran out of time, the others are not asked.
_SLOW = 2
#: How many transactions one line of the log names.
_TOLD = 20
#: A participant of a transaction, a row of ``due_ends``, with the command for it.
_Member = tuple[Row, EndCommand]
#: Partitions or subscriptions, each by topic's id and number or name, with all that is due there.
_Groups = list[tuple[tuple[int, Any], list[_Member]]]
#: A way to end transactions on one subscription (engine.subscription.ending).
_EndAcks = Callable[
    [Session, int, str, Sequence[EndCommand], Mapping[int, int]], ending.Ended | None
]


class _Ended(NamedTuple):
    """Answers of participants of one broker, and whether the low water marks have yet to pass over
    some orphans there (engine.buffer.ending)."""

    answers: list[Answer]
    orphans_left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """How many transactions one run ended, and how many still wait for a participant."""

    ended: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orders:
    """What a run has to carry out: the commands, in the order of decision, and what goes with
    them."""

    commands: Mapping[TxnID, EndCommand]
    decided_at: Mapping[TxnID, datetime]
    low_water_marks: Mapping[int, int]
    traces: EndTraces

    def of(self, rows: Iterable[Row]) -> list[_Member]:
        """Some participants, each with its command, in the order of decision."""
        members = {txn_of(row): row for row in rows}
        return [
            (members[txn_id], command)
            for txn_id, command in self.commands.items()
            if txn_id in members
        ]


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
            told = set(self._to_record)
            # Sorted, because another finalizer may record the same rows: the locks need one order.
            together = [self._to_record.pop(each) for each in sorted(told)]
            theirs = [txn_id for txn_id, brokers in self._members.items() if brokers & told]
            for txn_id in theirs:
                self._members[txn_id] -= told
            # Those for which no other broker is still being asked.
            concluded = [txn_id for txn_id in theirs if not self._members[txn_id]]
            return self._record(together, concluded)


class Finalizer:
    """Drives COMMITTING and ABORTING transactions to their end.

    Args:
        recover: rebuilds a partition that an end found without its derived state.
    """

    def __init__(
        self,
        database: Database,
        topics: Topics,
        brokers: Brokers,
        recover: Callable[[Location, PartitionName], None],
    ) -> None:
        self._database = database
        self._topics = topics
        self._brokers = brokers
        self._recover = recover
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
        commands = {txn_of(row): _command(row, found.confirmed) for row in found.transactions}
        orders = _Orders(
            commands=commands,
            decided_at={txn_of(row): row.decided_at for row in found.transactions},
            low_water_marks=found.low_water_marks,
            traces=EndTraces(found.transactions, commands),
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
        partitions: Sequence[DuePartition],
        subscriptions: Sequence[DueSubscription],
        orders: _Orders,
    ) -> int:
        """Ask all brokers in parallel, and record their answers, together with those that come at
        about the same time; answers how many transactions have ended.

        The run does not wait for a broker that takes long. Its thread goes on and records its
        answers by itself; until then no run asks that broker again, and what is due there is
        postponed.
        """
        members: dict[TxnID, set[str]] = {txn_id: set() for txn_id in orders.commands}
        participants: list[DuePartition | DueSubscription] = [*partitions, *subscriptions]
        for row in participants:
            members[txn_of(row)].add(row.broker)
        late = self._late.copy()
        for brokers in members.values():
            brokers.difference_update(late)
        names = sorted(set().union(*members.values()))
        alone = [txn_id for txn_id, brokers in members.items() if not brokers]
        together = _Together(members, partial(self._record, orders))

        def end_on(name: str) -> int:
            mine = [row for row in partitions if row.broker == name]
            ours = [row for row in subscriptions if row.broker == name]
            answers, orphans_left = self._end_on_broker(name, mine, ours, orders)
            ended = together.record(name, answers)
            if orphans_left:
                self._end_orphans(name, mine, ours, orders)
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

    def _end_on_broker(
        self,
        broker: str,
        partitions: Sequence[DuePartition],
        subscriptions: Sequence[DueSubscription],
        orders: _Orders,
    ) -> tuple[Answers, bool]:
        """Do a broker's part: all partitions in one SQL transaction, then all subscriptions in
        another. Gives whether orphans are left, too (:class:`_Ended`)."""
        places = _grouped(partitions, "partition", orders)
        shares = _grouped(subscriptions, "subscription", orders)
        orphans_left = False
        asked = orders.traces.ask(broker, partitions, subscriptions)
        try:
            database = self._brokers.get(broker)
            end_places = partial(self._end_partitions, database, orders)
            end_shares = partial(self._end_subscriptions, database, orders)
            partition_answers, places_left = self._end_all(database, places, end_places)
            subscription_answers, shares_left = self._end_all(database, shares, end_shares)
            orphans_left = places_left or shares_left
            answers = Answers(partition_answers, subscription_answers)
            answers = self._recover_what_waits(database, answers)
        except EngineError as error:
            logger.warning(
                "broker not finalized", broker=broker, code=error.code, reason=error.message
            )
            answers = Answers(_failed(places, error.message), _failed(shares, error.message))
        for answer in (*answers.partitions, *answers.subscriptions):
            asked.answer(answer.row, answer.result, waiting=answer.state is None)
        return answers, orphans_left

    def _end_all(
        self, database: Database, groups: _Groups, end: Callable[[_Groups], _Ended]
    ) -> _Ended:
        """End all these participants in one SQL transaction. When that fails, each gets one of its
        own, so that one that is locked or damaged delays only its own part.

        Raises:
            BrokerUnavailable: it cannot be reached.
        """
        if not groups:
            return _Ended([])
        try:
            return end(groups)
        except BrokerUnavailable:
            raise
        except Exception as error:
            logger.exception("participants end one by one", broker=database.name)
            if len(groups) == 1:
                return _Ended(_failed(groups, _reason(error)))
        answers: list[Answer] = []
        orphans_left = False
        slow = 0
        for group in groups:
            if slow == _SLOW:  # The broker itself is slow.
                answers += _failed([group], f"{database.name} was not done in time.")
                continue
            try:
                ended = end([group])
            except Exception as error:
                slow += isinstance(error, TimeLimitExceeded)
                answers += _failed([group], _reason(error))
            else:
                answers += ended.answers
                orphans_left |= ended.orphans_left
        return _Ended(answers, orphans_left)

    def _end_partitions(self, database: Database, orders: _Orders, places: _Groups) -> _Ended:
        """Appends wait for the heads, so they are held for one statement and its commit."""
        ends = [
            PartitionEnds(
                topic_id=topic_id, number=number, commands=[command for _, command in members]
            )
            for (topic_id, number), members in places
        ]
        ended = database.retrying(
            lambda session: end_txns(session, ends, orders.low_water_marks), one_statement=True
        )
        members = [member for _, members in places for member in members]
        answers = [
            self._missing(row, command)
            if result.error == "missing"
            else Answer.of(row, command, result)
            for (row, command), result in zip(members, ended.results, strict=True)
        ]
        return _Ended(answers, ended.orphans_left)

    def _end_orphans(
        self,
        broker: str,
        partitions: Sequence[DuePartition],
        subscriptions: Sequence[DueSubscription],
        orders: _Orders,
    ) -> None:
        """Let the low water marks pass over what they had to leave, a bounded number in each SQL
        transaction, so that neither appends to these partitions nor acknowledgements to these
        subscriptions wait for it for long. What fails is the next end's there."""
        places = sorted({(row.topic_id, row.partition) for row in partitions})
        ends = [
            PartitionEnds(topic_id=topic_id, number=number, commands=())
            for topic_id, number in places
        ]
        database = self._brokers.get(broker)
        try:
            while database.retrying(
                lambda session: end_txns(session, ends, orders.low_water_marks).orphans_left,
                one_statement=True,
            ):
                pass
            for topic_id, name in sorted(
                {(row.topic_id, row.subscription) for row in subscriptions}
            ):
                give_back = partial(_give_back_orphans, topic_id, name, orders.low_water_marks)
                while database.retrying(give_back):
                    pass
        except EngineError as error:
            logger.warning("orphans left", broker=broker, code=error.code, reason=error.message)

    def _end_subscriptions(self, database: Database, orders: _Orders, shares: _Groups) -> _Ended:
        """Who acknowledges waits for the cursors. A single subscription, which is common, is ended
        without them being held meanwhile, unless something changes then."""

        def work(session: Session, end: _EndAcks = ending.end_acks) -> _Ended:
            answers: list[Answer] = []
            orphans_left = False
            for (topic_id, name), members in shares:
                commands = [command for _, command in members]
                ended = end(session, topic_id, name, commands, orders.low_water_marks)
                answers += _of_subscription(members, None if ended is None else ended.results)
                orphans_left |= ended is not None and ended.orphans_left
            return _Ended(answers, orphans_left)

        if len(shares) == 1:
            with contextlib.suppress(ending.Changed):
                return database.retrying(
                    partial(work, end=ending.end_acks_apart), one_statement=True
                )
        return database.retrying(work)

    def _missing(self, row: Row, command: EndCommand) -> Answer:
        """The answer for a partition that does not exist: done when its topic was deleted, else the
        partition is not made yet and is asked again."""
        exists = self._topics.has(TopicName.parse(row.topic), row.topic_id)
        error = "not there yet" if exists else GONE
        return Answer.of(row, command, EndResult(txn_id=command.txn_id, error=error))

    def _recover_what_waits(self, database: Database, answers: Answers) -> Answers:
        """Rebuild the partitions that were found without their derived state, so that the next run
        can end there. For one that cannot be rebuilt, the answer says why."""
        waiting = {
            (answer.row.topic_id, answer.row.topic, answer.row.partition)
            for answer in answers.partitions
            if answer.result.error == "recovering"
        }
        faults: dict[tuple[int, int], str] = {}
        for topic_id, topic, number in sorted(waiting):
            try:
                self._recover_partition(database, topic_id, topic, number)
            except Exception as error:
                logger.exception("partition not rebuilt", partition=f"{topic}:{number}")
                faults[topic_id, number] = _reason(error)
        if not faults:
            return answers
        partitions = [
            Answer.failed(answer.row, faults[place])
            if (place := (answer.row.topic_id, answer.row.partition)) in faults
            else answer
            for answer in answers.partitions
        ]
        return Answers(partitions, answers.subscriptions)

    def _recover_partition(
        self, database: Database, topic_id: int, topic: str, number: int
    ) -> None:
        with database.session() as session:
            rows = session.all("partition_ids", topic_ids=[topic_id])
        for row in rows:
            if row.number == number:
                self._recover(
                    Location(database, row.partition_id),
                    PartitionName(TopicName.parse(topic), number),
                )

    def _record(self, orders: _Orders, answers: Sequence[Answers], concluded: list[TxnID]) -> int:
        """Record the answers of brokers, and end transactions that have no broker left to ask;
        answers how many."""
        together = Answers.together(answers)

        def work(session: Session) -> list[TxnID]:
            rows = together.record(session, concluded)
            tally = figures.of_ends(rows, orders.decided_at, together.waiting())
            figures.add(session, tally, shard=min(orders.low_water_marks))
            return [row.txn_id for row in rows if row.kind == "transaction"]

        ended = self._database.retrying(work)
        if ended:
            orders.traces.conclude(ended)
            told = [str(txn_id) for txn_id in ended[:_TOLD]]
            logger.info("transactions ended", transactions=len(ended), txn_ids=told)
        return len(ended)


def _command(row: Row, confirmed: Mapping[TxnID, frozenset[int]]) -> EndCommand:
    return EndCommand(
        txn_id=txn_of(row),
        action=TxnAction.COMMIT if row.status == TxnStatus.COMMITTING else TxnAction.ABORT,
        confirmed=confirmed.get(txn_of(row), frozenset()),
    )


def _failed(groups: _Groups, reason: str) -> list[Answer]:
    """The answers of participants of which nothing is known: they are asked again."""
    return [Answer.failed(row, reason) for _, members in groups for row, _ in members]


def _reason(error: Exception) -> str:
    """What is recorded of an error, and shown to people; the log file has the rest."""
    return error.message if isinstance(error, EngineError) else f"failed: {type(error).__name__}"


def _give_back_orphans(
    topic_id: int, name: str, low_water_marks: Mapping[int, int], session: Session
) -> bool:
    """Give back what some orphans hold of a subscription; answers whether more are left."""
    ended = ending.end_acks(session, topic_id, name, [], low_water_marks)
    return ended is not None and ended.orphans_left


def _of_subscription(
    members: Sequence[_Member], results: Sequence[EndResult] | None
) -> list[Answer]:
    """The answers for a subscription; None: it does not exist."""
    if results is None:
        results = [EndResult(txn_id=command.txn_id, error=GONE) for _, command in members]
    return [
        Answer.of(row, command, result)
        for (row, command), result in zip(members, results, strict=True)
    ]


def _grouped(rows: Iterable[Row], name: str, orders: _Orders) -> _Groups:
    """The commands by participant, in the order of the locks."""
    groups: dict[tuple[int, Any], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.topic_id, getattr(row, name)].append(row)
    return [(place, orders.of(members)) for place, members in sorted(groups.items())]
