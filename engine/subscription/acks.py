"""Acknowledging messages, at once or within a transaction (semantics §6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.model.cursor import claim_cumulative, claim_individual
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    MessageNotFound,
    SubscriptionNotFound,
    TransactionConflict,
)
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.subscription import (
    AckAnswer,
    AckOp,
    AckStep,
    AckType,
    PendingAck,
    SubscriptionType,
)
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.database import Session
from engine.subscription.cursors import Cursors, Place, once_more_when_replaced
from engine.subscription.leases import Leases, Turn
from engine.subscription.shares import Share, Shares
from engine.subscription.state import Change, State

MAX_MESSAGE_IDS = 10_000

#: Given a state and the offsets named in it, answers what changes (None: nothing does), and the
#: offsets to tell: those that were dropped, or that are newly held.
_Ack = Callable[[State, Ranges], tuple[Change | None, Ranges]]


class Acknowledgements:
    """All of a call or none of it."""

    def __init__(self, shares: Shares, cursors: Cursors, leases: Leases) -> None:
        self._shares = shares
        self._cursors = cursors
        self._leases = leases

    @once_more_when_replaced
    def acknowledge(
        self,
        name: SubscriptionName,
        consumer: str,
        message_ids: Sequence[MessageID],
        *,
        ack_type: AckType = AckType.INDIVIDUAL,
        txn_id: TxnID | None = None,
    ) -> AckAnswer:
        """Acknowledge messages.

        Without a transaction at once; a message that a transaction holds, or that is on its way to
        the dead-letter topic, is dropped and named. With one they become PENDING_ACK; by the same
        transaction again it is success without a change. CUMULATIVE: one message, and every
        undeleted one of its partition before it; a plain one leaves what transactions hold to them.
        This is the brokers' side only: the coordinator has been asked before
        (:meth:`engine.Engine.acknowledge`).

        Raises:
            InvalidRequest: none or too many ids; a cumulative one on a type that has none.
            ConsumerBusy: another consumer is the active one.
            MessageNotFound: an offset beyond what readers may see.
            TransactionConflict: names the conflicts; nothing was recorded.
            InvalidTxnStatus: the transaction has ended for this subscription.
        """
        most = 1 if ack_type is AckType.CUMULATIVE else MAX_MESSAGE_IDS
        if not 1 <= len(message_ids) <= most:
            raise InvalidRequest(f"message_ids must name 1 to {most} messages for {ack_type}.")
        shares = self._shares.of(name.topic, message_ids)
        places = [self._cursors.place(share.database, share.topic, name) for share in shares]
        kind = SubscriptionType(places[0].record.type)
        if ack_type is AckType.CUMULATIVE and not kind.has_one_consumer:
            raise InvalidRequest(
                f"A {kind} subscription takes INDIVIDUAL acknowledgements only; CUMULATIVE ones"
                " need an EXCLUSIVE or FAILOVER subscription."
            )
        turn = self._leases.require(places[0], consumer)
        if len(shares) > 1:
            for place, share in zip(places, shares, strict=True):
                self._check_visible(place, share)
        if txn_id is not None:
            self._claim_all(list(zip(places, shares, strict=True)), txn_id, ack_type, turn)
            return AckAnswer(pending=tuple(message_ids))
        dropped: dict[int, Ranges] = {}
        for place, share in zip(places, shares, strict=True):
            for state, ranges in self._on(place, share, _acknowledge(ack_type), turn):
                dropped[state.number] = ranges
        if not any(dropped.values()):
            return AckAnswer(acked=tuple(message_ids))
        gone = {each for each in message_ids if each.offset in dropped[each.partition]}
        return AckAnswer(
            acked=tuple(each for each in message_ids if each not in gone),
            dropped=tuple(each for each in message_ids if each in gone),
        )

    def _on(self, place: Place, share: Share, ack: _Ack, turn: Turn) -> list[tuple[State, Ranges]]:
        """Do one broker's share in one SQL transaction; answers what to tell of each partition."""

        def decide(
            session: Session, states: Sequence[State]
        ) -> tuple[list[Change], list[tuple[State, Ranges]]]:
            del session
            changes, told = [], []
            for state in states:
                offsets = share.offsets[state.partition_id]
                _require_visible(place, state, offsets)
                entered = self._leases.enter(place, state, turn)
                change, ranges = ack(entered, offsets)
                told.append((state, ranges))
                if change is not None or entered is not state:
                    change = change or Change(before=state, after=entered)
                    changes.append(replace(change, before=state))
            return changes, told

        return self._cursors.change(place, list(share.offsets), decide)

    def _check_visible(self, place: Place, share: Share) -> None:
        """Before anything is recorded on any broker; the stable position never moves back."""

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            del session
            for state in states:
                _require_visible(place, state, share.offsets[state.partition_id])
            return [], None

        self._cursors.change(place, list(share.offsets), decide)

    def _claim_all(
        self,
        parts: Sequence[tuple[Place, Share]],
        txn_id: TxnID,
        ack_type: AckType,
        turn: Turn,
    ) -> None:
        """Claim everywhere. The shares of one broker are one SQL transaction; when a later broker
        refuses, what the earlier ones newly hold is given back. When that fails, or after a crash
        in between, it stays with the transaction: the answer is PartitionUnavailable or none at
        all, never a conflict, and the client retries or aborts."""
        claimed: list[tuple[Place, dict[int, Ranges]]] = []
        try:
            for place, share in parts:
                told = self._on(place, share, _claim(txn_id, ack_type), turn)
                claimed.append((place, {state.partition_id: new for state, new in told if new}))
        except Exception:
            self._release_all(claimed, txn_id, ack_type)
            raise

    def _release_all(
        self, claimed: Sequence[tuple[Place, dict[int, Ranges]]], txn_id: TxnID, ack_type: AckType
    ) -> None:
        """Give back what a refused call had claimed, as much of it as can be.

        Raises:
            PartitionUnavailable: some of it could not be given back.
        """
        failure: EngineError | None = None
        for place, new in claimed:
            try:
                self._release(place, new, txn_id, ack_type)
            except SubscriptionNotFound:
                continue  # and with it all that was claimed
            except EngineError as error:
                failure = error
        if failure is not None:
            raise failure

    def _release(
        self, place: Place, new: dict[int, Ranges], txn_id: TxnID, ack_type: AckType
    ) -> None:
        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            del session
            return [_released(state, new[state.partition_id]) for state in states], None

        def _released(state: State, ranges: Ranges) -> Change:
            left = tuple(
                replace(ack, ranges=ack.ranges - ranges) if ack.txn_id == txn_id else ack
                for ack in state.pending
            )
            step = AckStep(txn_id=txn_id, op=AckOp.ABORT, ack_type=ack_type, ranges=ranges)
            after = replace(state, pending=left).give_back(ranges)
            return Change(before=state, after=after, steps=[step])

        if new:
            self._cursors.change(place, list(new), decide)


def _acknowledge(ack_type: AckType) -> _Ack:
    """Delete messages for good, those that nobody holds."""

    def ack(state: State, offsets: Ranges) -> tuple[Change | None, Ranges]:
        wanted = state.cursor.undeleted(_reach(state, offsets, ack_type))
        held = state.held
        after = state.delete(wanted - held)
        return Change(before=state, after=after), offsets & held

    return ack


def _claim(txn_id: TxnID, ack_type: AckType) -> _Ack:
    """Hold messages for a transaction."""

    def ack(state: State, offsets: Ranges) -> tuple[Change | None, Ranges]:
        try:
            _refuse_dead(state, _reach(state, offsets, ack_type))
            if ack_type is AckType.CUMULATIVE:
                until = offsets.runs[-1][1] - 1
                new = claim_cumulative(state.cursor, state.pending, txn_id, until)
            else:
                new = claim_individual(state.cursor, state.pending, txn_id, offsets)
        except TransactionConflict as conflict:
            conflict.data["partition"] = state.number
            raise
        if not new:
            return None, new
        claimed = PendingAck(txn_id=txn_id, ack_type=ack_type, ranges=new)
        after = replace(state.withdraw(new), pending=(*state.pending, claimed))
        step = AckStep(txn_id=txn_id, op=AckOp.ACK, ack_type=ack_type, ranges=new)
        return Change(before=state, after=after, steps=[step]), new

    return ack


def _reach(state: State, offsets: Ranges, ack_type: AckType) -> Ranges:
    """What an acknowledgement is about."""
    last = offsets.last
    if ack_type is AckType.INDIVIDUAL or last is None:
        return offsets
    return state.cursor.undeleted_until(last)


def _refuse_dead(state: State, wanted: Ranges) -> None:
    dead = wanted & state.dead
    if dead:
        raise TransactionConflict(
            f"Offset {dead.first} is on its way to the dead-letter topic; nothing was recorded.",
            conflicts=[{"offset": offset, "txn_id": None} for offset in dead],
        )


def _require_visible(place: Place, state: State, offsets: Ranges) -> None:
    last = offsets.last
    if last is not None and state.stable_position is not None and last > state.stable_position:
        raise MessageNotFound(
            f"{place.topic.name}:{state.number} has no message at offset {last} that a reader may"
            " see."
        )
