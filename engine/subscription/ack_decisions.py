"""What an acknowledgement makes of the state of a partition: decisions about values, without IO
(semantics §6). :mod:`engine.subscription.acks` reads the states, and stores what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from engine.model.cursor import (
    claim_cumulative,
    claim_individual,
    held,
    over_partitions,
    unconfirmed,
)
from engine.model.dispatch import Dispatch
from engine.model.errors import TransactionConflict
from engine.model.ranges import NOTHING, Ranges
from engine.model.subscription import AckOp, AckStep, AckType, PendingAck
from engine.model.txn_id import TxnID
from engine.subscription.ids_by_broker import BrokerIds
from engine.subscription.state import Change, State

#: The type of a call over several brokers: a cumulative one names one message, hence one broker.
_OVER_BROKERS = AckType.INDIVIDUAL


class Acked(NamedTuple):
    """What an acknowledgement makes of a partition's state: the state after it, its steps in the
    pending-ack log, and those of its offsets that it leaves alone because a transaction holds
    them."""

    after: State
    steps: Sequence[AckStep] = ()
    dropped: Ranges = NOTHING


#: Decides an acknowledgement, given a state and the offsets that the call names in it; raises
#: TransactionConflict when other transactions hold some of these.
Ack = Callable[[State, Ranges], Acked]


@dataclass(frozen=True, slots=True)
class Claim:
    """A call in a transaction. ``call_id`` is 0 for a call on one broker, which needs no
    confirmation. ``confirmed``: earlier calls of the transaction that are known to be confirmed."""

    txn_id: TxnID
    ack_type: AckType
    call_id: int
    confirmed: Collection[int]


def acknowledging(ack_type: AckType) -> Ack:
    """An acknowledgement without a transaction: it deletes the messages that no transaction
    holds."""

    def ack(state: State, offsets: Ranges) -> Acked:
        wanted = state.cursor.undeleted(_reach(state, offsets, ack_type))
        kept = state.held
        return Acked(state.delete(wanted - kept), dropped=wanted & kept)

    return ack


def claiming(claim: Claim) -> Ack:
    """An acknowledgement in a transaction: it holds messages for it."""
    txn_id = claim.txn_id

    def ack(state: State, offsets: Ranges) -> Acked:
        unsure = unconfirmed(state.tentative, txn_id, claim.confirmed)
        if claim.ack_type is AckType.CUMULATIVE:
            until = offsets.runs[-1][1] - 1
            new = claim_cumulative(state.cursor, state.pending, txn_id, until, unsure) - state.dead
        else:
            new = claim_individual(
                state.cursor, state.pending, txn_id, offsets, unsure, dead=state.dead
            )
        if not new:
            return Acked(state)
        own = held(ack for ack in state.pending if ack.txn_id == txn_id)
        claimed = PendingAck(txn_id=txn_id, ack_type=claim.ack_type, ranges=new - own)
        after = state.hold(new - own).changed(pending=(*state.pending, claimed))
        return Acked(after, _claim_steps(state, claim, new, own))

    return ack


def released(state: State, claim: Claim, before: Dispatch | None) -> Change | None:
    """Let go what is claimed by one call and by no other of its transaction, so that it is as it
    was ``before`` or, without that, given back; None when the call claims nothing here."""
    calls = {ack.call_id: ack for ack in state.tentative if ack.txn_id == claim.txn_id}
    own = calls.pop(claim.call_id, None)
    if own is None:
        return None
    freed = own.ranges - Ranges.union(ack.ranges for ack in calls.values())
    left = tuple(
        msgspec.structs.replace(ack, ranges=ack.ranges - freed)
        if (ack.txn_id, ack.ack_type) == (claim.txn_id, claim.ack_type)
        else ack
        for ack in state.pending
    )
    others = tuple(ack for ack in state.tentative if ack is not own)
    after = state.changed(pending=left, tentative=others)
    again = after.cursor.undeleted(freed) - after.held
    after = after.changed(dispatch=after.dispatch.restored(again, before))
    step = AckStep(
        txn_id=claim.txn_id,
        op=AckOp.ABORT,
        ack_type=claim.ack_type,
        ranges=freed,
        call_id=claim.call_id,
    )
    return Change(before=state, after=after, steps=[step])


def refusal(ack: Ack, states: Iterable[State], ids: BrokerIds) -> TransactionConflict:
    """Why one broker's part of a call is refused, in all of its partitions."""
    refused: dict[int, TransactionConflict] = {}
    for state in states:
        try:
            ack(state, ids.offsets[state.partition_id])
        except TransactionConflict as conflict:
            refused[state.number] = conflict
    return over_partitions(refused)


def _claim_steps(state: State, claim: Claim, new: Ranges, own: Ranges) -> list[AckStep]:
    """The steps of a claim in the pending-ack log: messages that are newly held; messages that the
    transaction held tentatively already, which keep the type under which they are held; and what
    confirmed calls have claimed, which is tentative no longer."""
    settled = Ranges.union(
        ack.ranges
        for ack in state.tentative
        if ack.txn_id == claim.txn_id and ack.call_id in claim.confirmed
    )
    parts = [(claim.ack_type, new - own, claim.call_id), (_OVER_BROKERS, new & own, claim.call_id)]
    parts.append((_OVER_BROKERS, settled, 0))
    return [
        AckStep(txn_id=claim.txn_id, op=AckOp.ACK, ack_type=kind, ranges=ranges, call_id=call_id)
        for kind, ranges, call_id in parts
        if ranges
    ]


def _reach(state: State, offsets: Ranges, ack_type: AckType) -> Ranges:
    """The offsets that an acknowledgement is about: those named or, for a cumulative one, every
    undeleted one up to there."""
    last = offsets.last
    if ack_type is AckType.INDIVIDUAL or last is None:
        return offsets
    return state.cursor.undeleted_until(last)
