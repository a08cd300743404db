"""One broker's part of a run of the finalizer: its partitions and subscriptions get their end
commands (semantics §3).

All partitions go in one SQL transaction, then all subscriptions in another. When one of these
fails, each of its participants gets an SQL transaction of its own. Ends are exactly-once on the
broker, so what a crash or a lost connection leaves in doubt is asked for again.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

import structlog

from engine.buffer.ending import PartitionEnds, end_txns_on
from engine.buffer.recovery import recover
from engine.coordinator.answers import Answer, Answers
from engine.coordinator.due import Participant, ParticipantKey
from engine.coordinator.end_traces import EndTraces
from engine.log.brokers import Brokers, Location
from engine.log.catalog import Catalog
from engine.model.errors import BrokerUnavailable, EngineError, TimeLimitExceeded
from engine.model.topic_name import PartitionName
from engine.model.transaction import EndCommand, Ended, EndFault, EndResult
from engine.model.txn_id import TxnID
from engine.postgres.database import Database
from engine.postgres.session import Session
from engine.subscription import ending

logger = structlog.get_logger(__name__)

#: After so many participants, asked one by one, that ran out of time, the others are not asked.
_SLOW = 2
#: A participant of a transaction, with the command for it.
_Member = tuple[Participant, EndCommand]
#: Partitions or subscriptions, each with all that is due there.
_Groups = list[tuple[ParticipantKey, list[_Member]]]
#: A way to end transactions on one subscription (engine.subscription.ending).
_EndAcks = Callable[[Session, int, str, Sequence[EndCommand], Mapping[int, int]], Ended | None]


class _Ended(NamedTuple):
    """Answers of participants of one broker, and whether low water marks have stayed below orphans
    there (engine.coordinator.orphans)."""

    answers: list[Answer]
    orphans_left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a run has to carry out: the commands, in the order of decision, and what goes with
    them."""

    commands: Mapping[TxnID, EndCommand]
    decided_at: Mapping[TxnID, datetime]
    low_water_marks: Mapping[int, int]
    traces: EndTraces

    def of(self, participants: Iterable[Participant]) -> list[_Member]:
        """The participants of one key, each with its command, in the order of decision."""
        members = {participant.txn_id: participant for participant in participants}
        return [
            (members[txn_id], command)
            for txn_id, command in self.commands.items()
            if txn_id in members
        ]


class BrokerEnds:
    """Carries out end commands on brokers."""

    def __init__(self, topics: Catalog, brokers: Brokers) -> None:
        self._topics = topics
        self._brokers = brokers

    def end(
        self,
        broker: str,
        partitions: Sequence[Participant],
        subscriptions: Sequence[Participant],
        orders: Orders,
    ) -> tuple[Answers, bool]:
        """Do a broker's part: all partitions in one SQL transaction, then all subscriptions in
        another. Gives whether orphans are left, too (:class:`_Ended`)."""
        asked = orders.traces.ask(broker, (*partitions, *subscriptions))
        parts = (
            (_grouped(partitions, orders), self._end_partitions),
            (_grouped(subscriptions, orders), self._end_subscriptions),
        )
        ended: list[_Ended] = []
        fault: EngineError | None = None
        for groups, end in parts:
            try:
                if fault is not None:
                    raise fault  # It is not asked again; what it has answered before stays so.
                database = self._brokers.get(broker)
                ended.append(self._end_all(database, groups, partial(end, database, orders)))
            except EngineError as error:
                fault = error
                ended.append(_Ended(_failed(groups, error.message)))
        if fault is not None:
            logger.warning(
                "broker not finalized", broker=broker, code=fault.code, reason=fault.message
            )
        answers = self._recover_what_waits(broker, Answers(*(part.answers for part in ended)))
        for answer in (*answers.partitions, *answers.subscriptions):
            asked.answer(answer.participant, answer.result, waiting=answer.state is None)
        return answers, any(part.orphans_left for part in ended)

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

    def _end_partitions(self, database: Database, orders: Orders, groups: _Groups) -> _Ended:
        """Appends wait for the heads, so they are held for one statement and its commit."""
        ends = [
            PartitionEnds(
                topic_id=topic_id, number=number, commands=[command for _, command in members]
            )
            for (topic_id, number), members in groups
        ]
        ended = database.retrying(
            lambda session: end_txns_on(session, ends, orders.low_water_marks), one_statement=True
        )
        members = [member for _, members in groups for member in members]
        answers = [
            self._missing(participant, command)
            if result.error == EndFault.MISSING
            else Answer.of(participant, command, result)
            for (participant, command), result in zip(members, ended.results, strict=True)
        ]
        return _Ended(answers, ended.orphans_left)

    def _end_subscriptions(self, database: Database, orders: Orders, groups: _Groups) -> _Ended:
        """Acknowledgements wait for the cursors' locks. A single subscription, which is common, is
        decided on without these locks, and under them only when something has changed meanwhile."""

        def work(session: Session, end: _EndAcks = ending.end_acks) -> _Ended:
            answers: list[Answer] = []
            orphans_left = False
            for (topic_id, name), members in groups:
                commands = [command for _, command in members]
                ended = end(session, topic_id, name, commands, orders.low_water_marks)
                answers += _of_subscription(members, None if ended is None else ended.results)
                orphans_left |= ended is not None and ended.orphans_left
            return _Ended(answers, orphans_left)

        if len(groups) == 1:
            with contextlib.suppress(ending.Changed):
                return database.retrying(
                    partial(work, end=ending.end_acks_apart), one_statement=True
                )
        return database.retrying(work)

    def _missing(self, participant: Participant, command: EndCommand) -> Answer:
        """The answer for a partition that does not exist: done when its topic was deleted, else the
        partition is not made yet and is asked again."""
        exists = self._topics.has(participant.topic, participant.key[0])
        error = "not there yet" if exists else EndFault.GONE
        return Answer.of(participant, command, EndResult(txn_id=command.txn_id, error=error))

    def _recover_what_waits(self, broker: str, answers: Answers) -> Answers:
        """Rebuild the partitions that were found without their derived state, so that the next run
        can end there. For one that cannot be rebuilt, the answer says why."""
        waiting = {
            (*answer.participant.key, answer.participant.topic)
            for answer in answers.partitions
            if answer.result.error == EndFault.RECOVERING
        }
        faults: dict[ParticipantKey, str] = {}
        for topic_id, number, topic in sorted(waiting):
            try:
                _recover(self._brokers.get(broker), topic_id, PartitionName(topic, number))
            except Exception as error:
                logger.exception("partition not rebuilt", partition=f"{topic}:{number}")
                faults[topic_id, number] = _reason(error)
        if not faults:
            return answers
        partitions = [
            Answer.failed(answer.participant, faults[key])
            if (key := answer.participant.key) in faults
            else answer
            for answer in answers.partitions
        ]
        return Answers(partitions, answers.subscriptions)


def _recover(database: Database, topic_id: int, partition: PartitionName) -> None:
    with database.session() as session:
        rows = session.all("partition_ids", topic_ids=[topic_id])
    for row in rows:
        if row.number == partition.number:
            recover(Location(database, row.partition_id), partition)


def _failed(groups: _Groups, reason: str) -> list[Answer]:
    """The answers of participants of which nothing is known: they are asked again."""
    return [
        Answer.failed(participant, reason) for _, members in groups for participant, _ in members
    ]


def _reason(error: Exception) -> str:
    """What is recorded of an error, and shown to people; the log file has the rest."""
    return error.message if isinstance(error, EngineError) else f"failed: {type(error).__name__}"


def _of_subscription(
    members: Sequence[_Member], results: Sequence[EndResult] | None
) -> list[Answer]:
    """The answers for a subscription; None: it does not exist."""
    if results is None:
        results = [EndResult(txn_id=command.txn_id, error=EndFault.GONE) for _, command in members]
    return [
        Answer.of(participant, command, result)
        for (participant, command), result in zip(members, results, strict=True)
    ]


def _grouped(participants: Iterable[Participant], orders: Orders) -> _Groups:
    """The commands by key, in the order of the locks."""
    groups: dict[ParticipantKey, list[Participant]] = defaultdict(list)
    for participant in participants:
        groups[participant.key].append(participant)
    return [(key, orders.of(members)) for key, members in sorted(groups.items())]
