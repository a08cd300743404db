"""The answers of participants to their end commands, and how they are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from engine.coordinator.due import Participant
from engine.coordinator.statements import RECORD_ENDS, RecordedRow
from engine.model.transaction import EndCommand, EndFault, EndResult
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import TxnAction
from engine.postgres.session import Row, Session


@dataclass(frozen=True, slots=True)
class Answer:
    """One participant's answer. ``state``: what is recorded, None when the participant has to be
    asked again."""

    participant: Participant
    state: str | None
    result: EndResult

    @classmethod
    def of(cls, participant: Participant, command: EndCommand, result: EndResult) -> Self:
        """The answer with the result of a command."""
        done = "committed" if command.action is TxnAction.COMMIT else "aborted"
        return cls(participant, done if result.error in (None, EndFault.GONE) else None, result)

    @classmethod
    def failed(cls, participant: Participant, message: str) -> Self:
        """The answer when nothing is known of the result: the participant is asked again."""
        return cls(participant, None, EndResult(txn_id=participant.txn_id, error=message))


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one broker, or of several."""

    partitions: Sequence[Answer] = field(default_factory=tuple)
    subscriptions: Sequence[Answer] = field(default_factory=tuple)

    @classmethod
    def together(cls, all_of_them: Iterable[Answers]) -> Self:
        """The answers of several brokers in one, in their order."""
        each = list(all_of_them)
        return cls(
            [answer for one in each for answer in one.partitions],
            [answer for one in each for answer in one.subscriptions],
        )

    def waiting(self) -> dict[str, int]:
        """How many participants have to be asked again, by kind."""
        return {
            "partition": sum(answer.state is None for answer in self.partitions),
            "subscription": sum(answer.state is None for answer in self.subscriptions),
        }

    def torn(self, session: Session) -> list[Row]:
        """The participants that have carried out the opposite end; to be asked once the answers are
        recorded. One that was deleted by force after it was read does not count: the subscription
        that has its name by now, and refused the end, is another (docs/decisions/0054)."""
        every = (*self.partitions, *self.subscriptions)
        suspects = {
            answer.result.txn_id for answer in every if answer.result.error == EndFault.OPPOSITE
        }
        if not suspects:
            return []
        return session.all("torn_participants", **id_lists(sorted(suspects)))

    def record(self, session: Session, concluded: Iterable[TxnID]) -> list[RecordedRow]:
        """Record the answers; a participant that is recorded as done stays so.

        Args:
            concluded: transactions with nobody left to ask. Those whose participants are all done
                end now; the others are tried again after a back-off.

        Returns:
            The partitions recorded, and the transactions ended.
        """
        partitions, subscriptions = self.partitions, self.subscriptions
        rows = session.ask(
            RECORD_ENDS,
            *_keys(partitions),
            [answer.participant.key[1] for answer in partitions],
            [answer.state for answer in partitions],
            [answer.result.first_offset for answer in partitions],
            [answer.result.last_offset for answer in partitions],
            *_results(partitions),
            *_keys(subscriptions),
            [answer.participant.key[1] for answer in subscriptions],
            [answer.participant.broker for answer in subscriptions],
            [answer.state for answer in subscriptions],
            *_results(subscriptions),
            *id_lists(sorted(concluded)).values(),
        )
        return list(map(RecordedRow._make, rows))


def _keys(answers: Sequence[Answer]) -> list[list[Any]]:
    asked = [answer.participant for answer in answers]
    txn_ids = id_lists(participant.txn_id for participant in asked)
    return [*txn_ids.values(), [participant.key[0] for participant in asked]]


def _results(answers: Sequence[Answer]) -> list[list[Any]]:
    results = [answer.result for answer in answers]
    return [[getattr(result, name) for result in results] for name in ("messages", "error")]
