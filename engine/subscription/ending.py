"""Ending transactions on subscriptions: PIP-31's EndTxnOnSubscription (semantics §3, §6)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from engine.model.cursor import held, unconfirmed
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

    A commit makes exactly the transaction's acks final, but for those of calls over several brokers
    that are not confirmed, of which some broker may know nothing: these, and with an abort all, are
    given back for redelivery. So is what transactions at or below a low water mark still hold.
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
    _raise_marks(session, subscription_id, low_water_marks)
    return [_result(command, before.get(command.txn_id), messages) for command in commands]


def _raise_marks(
    session: Session, subscription_id: int, low_water_marks: Mapping[int, int]
) -> None:
    """Let the fence forget what low water marks pass, and give back what that still holds."""
    moved = session.all(
        "raise_ack_low_water_marks",
        subscription_id=subscription_id,
        mark_tcs=list(low_water_marks),
        marks=list(low_water_marks.values()),
    )
    if not moved:
        return
    passed_now = {
        "subscription_id": subscription_id,
        "mark_tcs": [row.tc_id for row in moved],
        "passed": [row.passed for row in moved],
        "reached": [row.reached for row in moved],
    }
    orphans = [
        EndCommand(txn_id=TxnID(row.tc_id, row.sequence), action=TxnAction.ABORT)
        for row in session.all("pending_orphans", **passed_now)
    ]
    _apply(session, subscription_id, orphans)
    session.run("forget_ended_acks", **passed_now)


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
    """Carry out first ends; answers how many messages became final, or were given back by an
    abort."""
    if not commands:
        return {}
    ids = id_lists([command.txn_id for command in commands])
    orders = {command.txn_id: command for command in commands}
    messages: dict[TxnID, int] = defaultdict(int)
    by_partition: dict[int, list[Row]] = defaultdict(list)
    for row in session.all("pending_acks_of", subscription_id=subscription_id, **ids):
        by_partition[row.partition_id].append(row)
    if by_partition:
        states = state.read(session, subscription_id, list(by_partition), lock=True)
        changes = [_ended(each, by_partition[each.partition_id], orders) for each in states]
        for step in (step for change in changes for step in change.steps):
            if step.op is AckOp(orders[step.txn_id].action):
                messages[step.txn_id] += len(step.ranges)
        state.store(session, subscription_id, changes, durable=True)
    session.run(
        "remember_ended_acks",
        subscription_id=subscription_id,
        **ids,
        aborts=[command.action is TxnAction.ABORT for command in commands],
        messages=[messages.get(command.txn_id, 0) for command in commands],
    )
    return messages


def _ended(before: State, rows: Sequence[Row], orders: Mapping[TxnID, EndCommand]) -> Change:
    """What transactions hold in one partition becomes final, or is given back."""
    steps = [step for row in rows for step in _steps(before, row, orders)]
    ended = {step.txn_id for step in steps}
    final = held(_as_pending(step) for step in steps if step.op is AckOp.COMMIT)
    back = held(_as_pending(step) for step in steps if step.op is AckOp.ABORT)
    after = before.changed(
        pending=tuple(ack for ack in before.pending if ack.txn_id not in ended),
        tentative=tuple(ack for ack in before.tentative if ack.txn_id not in ended),
    )
    return Change(before=before, after=after.delete(final).give_back(back), steps=steps)


def _steps(before: State, row: Row, orders: Mapping[TxnID, EndCommand]) -> Iterator[AckStep]:
    txn_id, ack_type = TxnID(row.tc_id, row.sequence), AckType(row.ack_type)
    command = orders[txn_id]
    back = row.ranges
    if command.action is TxnAction.COMMIT:
        back = row.ranges & unconfirmed(before.tentative, txn_id, command.confirmed)
    for op, ranges in ((AckOp.COMMIT, row.ranges - back), (AckOp.ABORT, back)):
        if ranges:
            yield AckStep(txn_id=txn_id, op=op, ack_type=ack_type, ranges=ranges)


def _as_pending(step: AckStep) -> PendingAck:
    return PendingAck(txn_id=step.txn_id, ack_type=step.ack_type, ranges=step.ranges)
