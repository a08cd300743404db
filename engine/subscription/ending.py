"""Ending transactions on subscriptions: PIP-31's EndTxnOnSubscription (semantics §3, §6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.cursor import held, unconfirmed
from engine.model.subscription import AckOp, AckStep, PendingAck
from engine.model.transaction import EndCommand, Ended, EndFault, EndResult
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import TxnAction
from engine.postgres.session import Session
from engine.subscription import backlog, state
from engine.subscription.state import Change, State
from engine.subscription.statements import CONCLUDE_ACK_ENDS, END_ACKS, OPEN_ACK_ENDS

#: Columns of ``open_ack_ends`` that tell of the subscription; those of a partition's state follow.
_BEFORE = 5


class Changed(Exception):
    """What was decided on without a lock is not as it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A subscription on one broker, with its cursors locked or not.

    Attributes:
        before: the transactions among those asked for that have ended here before, with whether
            they aborted and their number of messages.
        states: of the partitions in which the transactions hold something.
    """

    subscription_id: int
    before: Mapping[TxnID, tuple[bool, int]]
    states: Sequence[State]


def end_acks(
    session: Session,
    topic_id: int,
    name: str,
    commands: Sequence[EndCommand],
    low_water_marks: Mapping[int, int],
) -> Ended | None:
    """End many transactions on one subscription on one broker. Repeating a command changes nothing.

    A commit makes the transaction's acknowledgements final, except those of unconfirmed calls over
    several brokers: these are given back for redelivery, because other brokers may not have them.
    An abort gives all of them back. A low water mark stays where it would pass what still holds
    something (``orphans_left``).

    Returns:
        A result for each command, in their order, with error ``opposite`` when the transaction has
        been ended the other way. None when there is no such subscription.
    """
    opened = _open(session, topic_id, name, [command.txn_id for command in commands])
    if opened is None:
        return None
    new = _new(commands, opened)
    messages = _apply(session, opened, new)
    left = _conclude(session, opened.subscription_id, new, messages, low_water_marks)
    return Ended(_results(commands, opened, messages), left)


def end_acks_apart(
    session: Session,
    topic_id: int,
    name: str,
    commands: Sequence[EndCommand],
    low_water_marks: Mapping[int, int],
) -> Ended | None:
    """As :func:`end_acks`, in two SQL transactions of one statement each: it reads and decides
    without a lock, and stores if nothing has changed since. So who acknowledges waits for one
    statement and its commit. The session must be in no SQL transaction.

    Raises:
        Changed: something has; nothing has been done.
    """
    txn_ids = [command.txn_id for command in commands]
    opened = _open(session, topic_id, name, txn_ids, lock=False)
    if opened is None:
        return None
    new = _new(commands, opened)
    changes, messages = _decided(session, opened, new)
    concluded = _concluded(opened.subscription_id, new, messages, low_water_marks)
    [(result,)] = session.ask(END_ACKS, *concluded, *state.stored(changes))
    if result == "changed":
        raise Changed
    return Ended(_results(commands, opened, messages), result == "orphans")


def end_held(session: Session, topic_id: int, name: str, commands: Sequence[EndCommand]) -> int:
    """End what transactions still hold of a subscription on one broker, even if their ends have
    been recorded there: for orphans, and for decisions that were missed. Answers how many messages.

    A fence that says the opposite is put right: nothing carried that out, since something is held.
    """
    opened = _open(session, topic_id, name, [command.txn_id for command in commands])
    if opened is None:
        return 0
    held = {ack.txn_id for each in opened.states for ack in each.pending}
    for txn_id in (command.txn_id for command in commands if _is_opposite(command, opened.before)):
        if txn_id in held:
            key = {"subscription_id": opened.subscription_id, "sequence": txn_id.sequence}
            session.run("forget_ack_end", tc_id=txn_id.tc_id, **key)
    messages = _apply(session, opened, commands)
    _conclude(session, opened.subscription_id, commands, messages, {})
    return sum(messages.values())


def _open(
    session: Session, topic_id: int, name: str, txn_ids: Sequence[TxnID], *, lock: bool = True
) -> _Opened | None:
    rows = session.ask(OPEN_ACK_ENDS, topic_id, name, *id_lists(txn_ids).values(), lock)
    if not rows:
        return None
    subscription_id, tcs, sequences, aborted, messages, *_ = rows[0]
    ended = zip(tcs or (), sequences or (), aborted or (), messages or (), strict=True)
    places = [row[_BEFORE:] for row in rows]
    return _Opened(
        subscription_id=subscription_id,
        before={TxnID(tc, seq): (is_abort, count) for tc, seq, is_abort, count in ended},
        states=state.of_rows(place for place in places if place[0] is not None),
    )


def _apply(session: Session, opened: _Opened, commands: Iterable[EndCommand]) -> dict[TxnID, int]:
    """Carry out commands for transactions that have not ended here yet; answers how many messages
    of each became final or, for an abort, were given back."""
    changes, messages = _decided(session, opened, commands)
    if changes:
        state.store(session, opened.subscription_id, changes, durable=True)
    return messages


def _decided(
    session: Session, opened: _Opened, commands: Iterable[EndCommand]
) -> tuple[list[Change], dict[TxnID, int]]:
    """The changes that :func:`_apply` stores, and what it answers."""
    orders = {command.txn_id: command for command in commands}
    messages: dict[TxnID, int] = defaultdict(int)
    changes = [_ended(each, orders) for each in opened.states]
    for place, step in ((change.before, step) for change in changes for step in change.steps):
        if step.op is AckOp(orders[step.txn_id].action):
            messages[step.txn_id] += backlog.acknowledged(
                session, place.partition_id, step.ack_type, step.ranges
            )
    return changes, messages


def _new(commands: Iterable[EndCommand], opened: _Opened) -> list[EndCommand]:
    return [command for command in commands if command.txn_id not in opened.before]


def _ended(before: State, orders: Mapping[TxnID, EndCommand]) -> Change:
    """The change that ends transactions in one partition: what they hold becomes final, or is given
    back."""
    mine = sorted(
        (ack for ack in before.pending if ack.txn_id in orders), key=lambda ack: ack.txn_id
    )
    steps = [step for ack in mine for step in _steps(before, ack, orders[ack.txn_id])]
    ended = {step.txn_id for step in steps}
    final = held(_as_pending(step) for step in steps if step.op is AckOp.COMMIT)
    back = held(_as_pending(step) for step in steps if step.op is AckOp.ABORT)
    after = before.changed(
        pending=tuple(ack for ack in before.pending if ack.txn_id not in ended),
        tentative=tuple(ack for ack in before.tentative if ack.txn_id not in ended),
    )
    return Change(before=before, after=after.delete(final).give_back(back), steps=steps)


def _steps(before: State, ack: PendingAck, command: EndCommand) -> Iterator[AckStep]:
    back = ack.ranges
    if command.action is TxnAction.COMMIT:
        back = ack.ranges & unconfirmed(before.tentative, ack.txn_id, command.confirmed)
    for op, ranges in ((AckOp.COMMIT, ack.ranges - back), (AckOp.ABORT, back)):
        if ranges:
            yield AckStep(txn_id=ack.txn_id, op=op, ack_type=ack.ack_type, ranges=ranges)


def _as_pending(step: AckStep) -> PendingAck:
    return PendingAck(txn_id=step.txn_id, ack_type=step.ack_type, ranges=step.ranges)


def _conclude(
    session: Session,
    subscription_id: int,
    commands: Sequence[EndCommand],
    messages: Mapping[TxnID, int],
    low_water_marks: Mapping[int, int],
) -> bool:
    """Record ends in the fence, raise the low water marks, and let the fence forget what these
    cover; answers whether a mark has stayed, because of transactions that still hold something."""
    concluded = _concluded(subscription_id, commands, messages, low_water_marks)
    [(orphans_left,)] = session.ask(CONCLUDE_ACK_ENDS, *concluded)
    return bool(orphans_left)


def _concluded(
    subscription_id: int,
    commands: Sequence[EndCommand],
    messages: Mapping[TxnID, int],
    low_water_marks: Mapping[int, int],
) -> tuple[Any, ...]:
    """What :func:`_conclude` gives its statement."""
    marks = sorted(low_water_marks.items())
    return (
        subscription_id,
        *id_lists(command.txn_id for command in commands).values(),
        [command.action is TxnAction.ABORT for command in commands],
        [messages.get(command.txn_id, 0) for command in commands],
        [tc_id for tc_id, _ in marks],
        [mark for _, mark in marks],
    )


def _results(
    commands: Iterable[EndCommand], opened: _Opened, messages: Mapping[TxnID, int]
) -> list[EndResult]:
    return [_result(command, opened.before, messages) for command in commands]


def _result(
    command: EndCommand, before: Mapping[TxnID, tuple[bool, int]], messages: Mapping[TxnID, int]
) -> EndResult:
    _, recorded = before.get(command.txn_id, (None, messages.get(command.txn_id, 0)))
    error = EndFault.OPPOSITE if _is_opposite(command, before) else None
    return EndResult(txn_id=command.txn_id, messages=recorded, error=error)


def _is_opposite(command: EndCommand, before: Mapping[TxnID, tuple[bool, int]]) -> bool:
    """Whether the transaction has been ended the other way."""
    is_abort = command.action is TxnAction.ABORT
    return before.get(command.txn_id, (is_abort, 0))[0] != is_abort
