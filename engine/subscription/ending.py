"""Ending transactions on subscriptions: PIP-31's EndTxnOnSubscription (semantics §3, §6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.model.cursor import held
from engine.model.subscription import AckOp, AckStep, AckType, PendingAck
from engine.model.transaction import EndCommand, EndResult
from engine.model.txn_id import TxnID, id_lists
from engine.model.txn_status import TxnAction
from engine.postgres.database import Row, Session
from engine.subscription import state
from engine.subscription.state import Change, State


def end_acks(
    session: Session,
    subscription_id: int,
    commands: Sequence[EndCommand],
    low_water_marks: Mapping[int, int],
) -> list[EndResult]:
    """End many transactions on one subscription's share of a broker, exactly once each.

    A commit makes exactly the transaction's acks final; an abort gives exactly those messages back
    for redelivery. What transactions at or below a low water mark still hold is given back as well.
    Results carry ``opposite`` when a transaction has been ended the other way.
    """
    session.all("lock_cursors", subscription_id=subscription_id)
    before = {
        TxnID(row.tc_id, row.sequence): row
        for row in session.all(
            "ended_acks", subscription_id=subscription_id, **id_lists([c.txn_id for c in commands])
        )
    }
    new = [command for command in commands if command.txn_id not in before]
    messages = _apply(session, subscription_id, new)
    session.run(
        "raise_ack_low_water_marks",
        subscription_id=subscription_id,
        mark_tcs=list(low_water_marks),
        marks=list(low_water_marks.values()),
    )
    orphans = [
        EndCommand(txn_id=TxnID(row.tc_id, row.sequence), action=TxnAction.ABORT)
        for row in session.all("pending_orphans", subscription_id=subscription_id)
    ]
    _apply(session, subscription_id, orphans)
    session.run("forget_ended_acks", subscription_id=subscription_id)
    return [_result(command, before.get(command.txn_id), messages) for command in commands]


def end_held(session: Session, subscription_id: int, command: EndCommand) -> int:
    """End what a transaction still holds of a subscription's share of a broker, whatever has been
    recorded of it: an orphan's, or a decision that was missed. Answers how many messages."""
    session.all("lock_cursors", subscription_id=subscription_id)
    return sum(_apply(session, subscription_id, [command]).values())


def _result(command: EndCommand, before: Row | None, messages: Mapping[TxnID, int]) -> EndResult:
    if before is None:
        return EndResult(txn_id=command.txn_id, messages=messages.get(command.txn_id, 0))
    opposite = before.aborted != (command.action is TxnAction.ABORT)
    return EndResult(
        txn_id=command.txn_id, messages=before.messages, error="opposite" if opposite else None
    )


def _apply(
    session: Session, subscription_id: int, commands: Sequence[EndCommand]
) -> dict[TxnID, int]:
    """Carry out first ends; answers how many messages each transaction held."""
    if not commands:
        return {}
    ids = id_lists([command.txn_id for command in commands])
    actions = {command.txn_id: command.action for command in commands}
    messages: dict[TxnID, int] = defaultdict(int)
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in session.all("pending_acks_of", subscription_id=subscription_id, **ids):
        by_partition[row.partition_id].append(row)
        messages[TxnID(row.tc_id, row.sequence)] += len(row.ranges)
    if by_partition:
        states = state.read(session, subscription_id, list(by_partition), lock=True)
        changes = [_ended(each, by_partition[each.partition_id], actions) for each in states]
        state.store(session, subscription_id, changes, durable=True)
    session.run(
        "remember_ended_acks",
        subscription_id=subscription_id,
        **ids,
        aborts=[command.action is TxnAction.ABORT for command in commands],
        messages=[messages.get(command.txn_id, 0) for command in commands],
    )
    return messages


def _ended(before: State, rows: Sequence[Row], actions: Mapping[TxnID, TxnAction]) -> Change:
    """What transactions hold in one partition becomes final, or is given back."""
    steps = [
        AckStep(
            txn_id=TxnID(row.tc_id, row.sequence),
            op=AckOp(actions[TxnID(row.tc_id, row.sequence)]),
            ack_type=AckType(row.ack_type),
            ranges=row.ranges,
        )
        for row in rows
    ]
    ended = {step.txn_id for step in steps}
    final = held(_as_pending(step) for step in steps if step.op is AckOp.COMMIT)
    back = held(_as_pending(step) for step in steps if step.op is AckOp.ABORT)
    left = tuple(ack for ack in before.pending if ack.txn_id not in ended)
    after = replace(before, pending=left).delete(final).give_back(back)
    return Change(before=before, after=after, steps=steps)


def _as_pending(step: AckStep) -> PendingAck:
    return PendingAck(txn_id=step.txn_id, ack_type=step.ack_type, ranges=step.ranges)
