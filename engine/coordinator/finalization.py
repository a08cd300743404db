"""Carrying out decisions: every participant gets its end command, then the transaction ends
(semantics §3).

Many transactions take few SQL transactions: all that are due for a coordinator are grouped by
broker, and each broker does its part of all of them in one SQL transaction. The brokers are asked
at once, so that one that does not answer holds up nobody else's end. Two workers on the same
work are harmless: ends are exactly-once on the broker, and results are compare-and-set here.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from engine.buffer.ending import end_txns
from engine.coordinator import figures
from engine.coordinator.end_traces import EndTraces
from engine.log.brokers import Brokers, Location
from engine.log.topics import Topics
from engine.model.errors import EngineError, TopicNotFound
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from engine.postgres.database import Database, Row, Session
from engine.subscription import ending

logger = structlog.get_logger(__name__)

#: How often a process says that it finalizes a coordinator.
_NOTE_SECONDS = 1.0
#: Brokers that the runs of a process ask at a time.
_ASKERS = 32
#: Transactions that one line of the log names.
_TOLD = 20
_GONE = "deleted; counts as done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalized:
    """How many transactions one run ended, and how many still wait for a participant."""

    ended: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orders:
    """What a run has to carry out, by sequence in the order of decision."""

    tc_id: int
    commands: Mapping[int, EndCommand]
    decided_at: Mapping[int, datetime]
    low_water_marks: Mapping[int, int]
    traces: EndTraces

    def of(self, rows: Iterable[Row]) -> list[tuple[Row, EndCommand]]:
        """The participants' commands, in the order of decision."""
        by_sequence = {row.sequence: row for row in rows}
        return [
            (by_sequence[sequence], command)
            for sequence, command in self.commands.items()
            if sequence in by_sequence
        ]


@dataclass(frozen=True, slots=True)
class _Answer:
    """One participant's result; ``state`` is None while it is still to be done."""

    row: Row
    state: str | None
    result: EndResult

    @classmethod
    def of(cls, row: Row, command: EndCommand, result: EndResult) -> _Answer:
        done = "committed" if command.action is TxnAction.COMMIT else "aborted"
        return cls(row, done if result.error in (None, _GONE) else None, result)


@dataclass(frozen=True, slots=True)
class _Answers:
    """One broker's results."""

    partitions: list[_Answer] = field(default_factory=list)
    subscriptions: list[_Answer] = field(default_factory=list)


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
        #: Threads that ask brokers stay: to make them for each run costs as much as a short one.
        self._askers = ThreadPoolExecutor(_ASKERS, "finalizer")

    def close(self) -> None:
        """Let the threads go that ask brokers."""
        self._askers.shutdown()

    def due(self) -> tuple[int, ...]:
        """Coordinators with something to finalize now."""
        with self._database.session() as session:
            return tuple(row.tc_id for row in session.adhoc("due_coordinators"))

    def is_due(self, tc_id: int) -> bool:
        """Whether a coordinator has something to finalize now."""
        with self._database.session() as session:
            return session.one("is_due", tc_id=tc_id) is not None

    def finalize(self, tc_id: int, limit: int = 1000, *, worker: str | None = None) -> Finalized:
        """Drive on up to ``limit`` transactions of a coordinator, in the order of decision.

        A participant that cannot be reached keeps its own part waiting and is tried again after a
        back-off; the others are finished and readable. ``worker`` is shown as who did it.
        """
        with self._database.session() as session:
            due = session.adhoc("due_txns", tc_id=tc_id, limit=limit)
            if not due:
                return Finalized(ended=0, waiting=0)
            self._note(session, tc_id, worker)
            key = {"tc_id": tc_id}
            of_due = {**key, "sequences": [row.sequence for row in due]}
            partitions, subscriptions, acks, marks = session.batch(
                ("due_partitions", of_due),
                ("due_subscriptions", of_due),
                ("confirmed_acks", of_due),
                ("low_water_mark", key),
            )
        confirmed = _calls(acks)
        commands = {row.sequence: _command(tc_id, row, confirmed) for row in due}
        orders = _Orders(
            tc_id=tc_id,
            commands=commands,
            decided_at={row.sequence: row.decided_at for row in due},
            low_water_marks={tc_id: marks[0].low_water_mark if marks else -1},
            traces=EndTraces(due, commands),
        )
        try:
            ended = sum(
                self._record(orders, answers, concluded)
                for answers, concluded in self._end_everywhere(partitions, subscriptions, orders)
            )
        finally:
            orders.traces.close()
        return Finalized(ended=ended, waiting=len(due) - ended)

    def _note(self, session: Session, tc_id: int, worker: str | None) -> None:
        """Say who finalizes a coordinator, at most once in a while."""
        now = time.monotonic()
        if worker is not None and now >= self._noted.get(tc_id, 0.0) + _NOTE_SECONDS:
            self._noted[tc_id] = now
            session.run("note_finalizer", tc_id=tc_id, worker=worker)

    def _end_everywhere(
        self, partitions: list[Row], subscriptions: list[Row], orders: _Orders
    ) -> Iterator[tuple[_Answers, list[int]]]:
        """Ask all brokers at once; yields each one's answers as they come, with the transactions
        for which no other broker is still being asked."""
        members: dict[int, set[str]] = {sequence: set() for sequence in orders.commands}
        for row in (*partitions, *subscriptions):
            members[row.sequence].add(row.broker)
        alone = [sequence for sequence, brokers in members.items() if not brokers]
        if alone:
            yield _Answers(), alone
        names = sorted(set().union(*members.values()))

        def end_on(name: str) -> _Answers:
            return self._end_on_broker(
                name,
                [row for row in partitions if row.broker == name],
                [row for row in subscriptions if row.broker == name],
                orders,
            )

        if len(names) == 1:  # The common case; a thread would be one more to wait for.
            yield end_on(names[0]), sorted(set(members) - set(alone))
            return
        # Its log lines name what this run does.
        asked = {self._askers.submit(copy_context().run, end_on, name): name for name in names}
        try:
            for answered in as_completed(asked):
                name = asked[answered]
                mine = [sequence for sequence, brokers in members.items() if name in brokers]
                for sequence in mine:
                    members[sequence].remove(name)
                yield answered.result(), [s for s in mine if not members[s]]
        finally:
            wait(asked)  # Whatever happened: nothing goes on behind a run that is over.

    def _end_on_broker(
        self, broker: str, partitions: list[Row], subscriptions: list[Row], orders: _Orders
    ) -> _Answers:
        """One SQL transaction on the broker; partition heads are locked before cursors."""

        def work(session: Session) -> _Answers:
            ended = [
                answer
                for (topic_id, number), rows in _grouped(partitions, "partition")
                for answer in self._end_partition(
                    session, topic_id, number, orders.of(rows), orders
                )
            ]
            acked = [
                answer
                for (topic_id, name), rows in _grouped(subscriptions, "subscription")
                for answer in self._end_subscription(
                    session, topic_id, name, orders.of(rows), orders
                )
            ]
            return _Answers(ended, acked)

        asked = orders.traces.ask(broker, partitions, subscriptions)
        try:
            database = self._brokers.get(broker)
            answers = database.retrying(work)
            self._recover_what_waits(database, answers.partitions)
        except EngineError as error:
            logger.warning(
                "broker not finalized", broker=broker, code=error.code, reason=error.message
            )
            answers = _Answers(
                [_failed(row, orders, error.message) for row in partitions],
                [_failed(row, orders, error.message) for row in subscriptions],
            )
        for answer in (*answers.partitions, *answers.subscriptions):
            asked.answer(answer.row, answer.result, waiting=answer.state is None)
        return answers

    def _end_partition(
        self,
        session: Session,
        topic_id: int,
        number: int,
        members: list[tuple[Row, EndCommand]],
        orders: _Orders,
    ) -> list[_Answer]:
        found = session.all("partition_ids", topic_id=topic_id)
        partition_id = next((row.partition_id for row in found if row.number == number), None)
        if partition_id is None:
            return [self._missing(row, command) for row, command in members]
        results = end_txns(
            session, partition_id, [command for _, command in members], orders.low_water_marks
        )
        return _answers(members, results)

    def _end_subscription(
        self,
        session: Session,
        topic_id: int,
        name: str,
        members: list[tuple[Row, EndCommand]],
        orders: _Orders,
    ) -> list[_Answer]:
        subscription = session.one("get_subscription", topic_id=topic_id, name=name)
        if subscription is None:
            return [
                _Answer.of(row, command, EndResult(txn_id=command.txn_id, error=_GONE))
                for row, command in members
            ]
        results = ending.end_acks(
            session,
            subscription.subscription_id,
            [command for _, command in members],
            orders.low_water_marks,
        )
        return _answers(members, results)

    def _missing(self, row: Row, command: EndCommand) -> _Answer:
        """A partition that is not there: done when its topic was deleted, else tried again."""
        try:
            exists = (
                self._topics.get(TopicName.parse(row.topic), fresh=True).topic_id == row.topic_id
            )
        except TopicNotFound:
            exists = False
        error = "not there yet" if exists else _GONE
        return _Answer.of(row, command, EndResult(txn_id=command.txn_id, error=error))

    def _recover_what_waits(self, database: Database, answers: list[_Answer]) -> None:
        waiting = {
            (answer.row.topic_id, answer.row.topic, answer.row.partition)
            for answer in answers
            if answer.result.error == "recovering"
        }
        for topic_id, topic, number in sorted(waiting):
            with database.session() as session:
                rows = session.all("partition_ids", topic_id=topic_id)
            for row in rows:
                if row.number == number:
                    self._recover(
                        Location(database, row.partition_id),
                        PartitionName(TopicName.parse(topic), number),
                    )

    def _record(self, orders: _Orders, answers: _Answers, concluded: list[int]) -> int:
        """Record what a broker did, and end the transactions that have nobody left to ask."""
        partitions, subscriptions = answers.partitions, answers.subscriptions

        def work(session: Session) -> list[int]:
            recorded: list[Row] = []
            if partitions:
                recorded = session.all(
                    "record_partitions",
                    tc_id=orders.tc_id,
                    **_columns(partitions),
                    partitions=[answer.row.partition for answer in partitions],
                    first_offsets=[answer.result.first_offset for answer in partitions],
                    last_offsets=[answer.result.last_offset for answer in partitions],
                )
            if subscriptions:
                session.run(
                    "record_subscriptions",
                    tc_id=orders.tc_id,
                    **_columns(subscriptions),
                    subscriptions=[answer.row.subscription for answer in subscriptions],
                    brokers=[answer.row.broker for answer in subscriptions],
                )
            ended = session.all("conclude", tc_id=orders.tc_id, sequences=sorted(concluded))
            waiting = {"partition": _waiting(partitions), "subscription": _waiting(subscriptions)}
            tally = figures.of_ends(ended, recorded, orders.decided_at, waiting)
            figures.add(session, tally, shard=orders.tc_id)
            return [row.sequence for row in ended]

        ended = self._database.retrying(work)
        if ended:
            orders.traces.conclude(ended)
            _tell(orders.tc_id, ended)
        return len(ended)


def _tell(tc_id: int, ended: Sequence[int]) -> None:
    told = [str(TxnID(tc_id, sequence)) for sequence in ended[:_TOLD]]
    logger.info("transactions ended", tc_id=tc_id, transactions=len(ended), txn_ids=told)


def confirmed_acks(
    session: Session, tc_id: int, sequences: Collection[int]
) -> dict[int, frozenset[int]]:
    """The confirmed acknowledgement calls over several brokers of decided transactions."""
    return _calls(session.all("confirmed_acks", tc_id=tc_id, sequences=list(sequences)))


def _calls(rows: Iterable[Row]) -> dict[int, frozenset[int]]:
    calls: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        calls[row.sequence].add(row.call_id)
    return {sequence: frozenset(found) for sequence, found in calls.items()}


def _command(tc_id: int, row: Row, confirmed: Mapping[int, frozenset[int]]) -> EndCommand:
    return EndCommand(
        txn_id=TxnID(tc_id, row.sequence),
        action=TxnAction.COMMIT if row.status == TxnStatus.COMMITTING else TxnAction.ABORT,
        confirmed=confirmed.get(row.sequence, frozenset()),
    )


def _answers(
    members: Sequence[tuple[Row, EndCommand]], results: Sequence[EndResult]
) -> list[_Answer]:
    for (row, _), result in zip(members, results, strict=True):
        if result.error == "opposite":
            logger.error(
                "a participant has carried out the opposite end",
                txn_id=str(result.txn_id),
                topic=row.topic,
            )
    return [
        _Answer.of(row, command, result)
        for (row, command), result in zip(members, results, strict=True)
    ]


def _failed(row: Row, orders: _Orders, message: str) -> _Answer:
    txn_id = orders.commands[row.sequence].txn_id
    return _Answer(row, None, EndResult(txn_id=txn_id, error=message))


def _waiting(answers: Sequence[_Answer]) -> int:
    return sum(answer.state is None for answer in answers)


def _columns(answers: Sequence[_Answer]) -> dict[str, object]:
    """What ``record_partitions`` and ``record_subscriptions`` have in common."""
    return {
        "sequences": [answer.row.sequence for answer in answers],
        "topic_ids": [answer.row.topic_id for answer in answers],
        "states": [answer.state for answer in answers],
        "messages": [answer.result.messages for answer in answers],
        "errors": [answer.result.error for answer in answers],
    }


def _grouped(rows: Iterable[Row], name: str) -> list[tuple[tuple[int, Any], list[Row]]]:
    groups: dict[tuple[int, Any], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.topic_id, getattr(row, name)].append(row)
    return sorted(groups.items())
