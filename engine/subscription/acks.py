"""Acknowledging messages, at once or within a transaction (semantics §6)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.cursor import claim_individual, held
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    PartitionUnavailable,
    SubscriptionNotFound,
    TransactionConflict,
)
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.subscription import AckAnswer, AckType
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.database import Row, Session
from engine.subscription import state
from engine.subscription.records import Recover
from engine.subscription.shares import Share, Shares
from engine.subscription.state import Locked, Place

MAX_MESSAGE_IDS = 10_000


class Acknowledgements:
    """Individual acknowledgements; all of a call or none of it.

    Args:
        recover: rebuilds a partition that is found without its derived state.
    """

    def __init__(self, shares: Shares, recover: Recover) -> None:
        self._shares = shares
        self._recover = recover

    def acknowledge(
        self,
        name: SubscriptionName,
        message_ids: Sequence[MessageID],
        *,
        ack_type: AckType = AckType.INDIVIDUAL,
        txn_id: TxnID | None = None,
    ) -> AckAnswer:
        """Acknowledge messages.

        Without a transaction at once; a message that a transaction holds is dropped and named.
        With one they become PENDING_ACK; by the same transaction again it is success without a
        change. This is the brokers' side only: the coordinator has been asked before
        (:meth:`engine.Engine.acknowledge`).

        Raises:
            InvalidRequest: none or too many ids, or cumulative on a shared subscription.
            MessageNotFound: an offset beyond what readers may see.
            TransactionConflict: names the conflicts; nothing was recorded.
            InvalidTxnStatus: the transaction has ended for this subscription.
        """
        if ack_type is AckType.CUMULATIVE:
            raise InvalidRequest("A SHARED subscription takes INDIVIDUAL acknowledgements only.")
        if not 1 <= len(message_ids) <= MAX_MESSAGE_IDS:
            raise InvalidRequest(f"message_ids must name 1 to {MAX_MESSAGE_IDS} messages.")
        shares = self._shares.of(name, message_ids)
        for share in shares:
            self._require_visible(share)
        if txn_id is not None:
            _claim_all(shares, txn_id)
            return AckAnswer(pending=tuple(message_ids))
        dropped = {share.partition.number: _acknowledge(share) for share in shares}
        gone = {
            message_id
            for message_id in message_ids
            if message_id.offset in dropped[message_id.partition]
        }
        return AckAnswer(
            acked=tuple(message_id for message_id in message_ids if message_id not in gone),
            dropped=tuple(message_id for message_id in message_ids if message_id in gone),
        )

    def _require_visible(self, share: Share) -> None:
        """Check before anything is recorded; the stable position never moves back."""
        head = _head(share)
        if head is None:
            self._recover(share.location, share.partition)
            head = _head(share)
        if head is None or not head.online:
            raise PartitionUnavailable(f"{share.partition} cannot take this now; try again.")
        last = share.offsets.last
        if last is not None and last > head.stable_position:
            raise MessageNotFound(
                f"{share.partition} has no message at offset {last} that a reader may see."
            )


def _head(share: Share) -> Row | None:
    with share.database.session() as session:
        return session.one("head", partition_id=share.place.partition_id)


def _acknowledge(share: Share) -> Ranges:
    """Delete messages for good; answers those that a transaction holds and that were dropped."""
    place = share.place

    def work(session: Session) -> Ranges:
        locked = _locked(session, place)
        dropped = held(locked.pending) & share.offsets
        done = share.offsets - dropped
        state.delete(session, locked, done)
        session.run("shrink_deliveries", **place.key(), ranges=done)
        return dropped

    return share.database.retrying(work)


def _claim_all(shares: Sequence[Share], txn_id: TxnID) -> None:
    """Claim everywhere. The shares of one broker are one SQL transaction; when a later broker
    refuses, what the earlier ones newly hold is given back. When that fails, or after a crash in
    between, it stays with the transaction: the answer is PartitionUnavailable or none at all, never
    a conflict, and the client retries or aborts."""
    claims: list[tuple[Share, Ranges]] = []
    try:
        for database in dict.fromkeys(share.database for share in shares):
            mine = [share for share in shares if share.database is database]

            def work(session: Session, mine: Sequence[Share] = mine) -> list[tuple[Share, Ranges]]:
                return [(share, _claim(session, share, txn_id)) for share in mine]

            claims += database.retrying(work)
    except Exception:
        _release_all(claims, txn_id)
        raise


def _claim(session: Session, share: Share, txn_id: TxnID) -> Ranges:
    """Hold messages for a transaction; answers what it newly holds."""
    place = share.place
    locked = _locked(session, place)
    ids = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
    fence = session.one("ack_fence", subscription_id=place.subscription_id, **ids)
    if fence is not None and fence.ended:
        raise InvalidTxnStatus(f"{txn_id} has ended for this subscription; nothing was recorded.")
    try:
        new = claim_individual(locked.cursor, locked.pending, txn_id, share.offsets)
    except TransactionConflict as conflict:
        conflict.data["partition"] = locked.number
        raise
    if new:
        own = held(ack for ack in locked.pending if ack.txn_id == txn_id)
        _log(session, place, txn_id, "ACK", new)
        session.run(
            "write_pending_ack",
            **place.key(),
            **ids,
            ack_type=AckType.INDIVIDUAL,
            ranges=own | new,
        )
        session.run("shrink_deliveries", **place.key(), ranges=new)
    return new


def _release_all(claims: Sequence[tuple[Share, Ranges]], txn_id: TxnID) -> None:
    """Give back what a refused call had claimed, as much of it as can be.

    Raises:
        PartitionUnavailable: some of it could not be given back.
    """
    failure: EngineError | None = None
    for share, claimed in claims:
        try:
            _release(share, claimed, txn_id)
        except EngineError as error:
            failure = error
    if failure is not None:
        raise failure


def _release(share: Share, claimed: Ranges, txn_id: TxnID) -> None:
    if not claimed:
        return
    place = share.place

    def work(session: Session) -> None:
        locked = state.lock(session, place)
        if locked is None:
            return
        session.run(
            "shrink_pending_acks",
            **place.key(),
            tc_id=txn_id.tc_id,
            sequence=txn_id.sequence,
            ack_type=AckType.INDIVIDUAL,
            ranges=claimed,
        )
        _log(session, place, txn_id, "ABORT", claimed)
        state.give_back(session, locked, claimed)

    share.database.retrying(work)


def _locked(session: Session, place: Place) -> Locked:
    locked = state.lock(session, place)
    if locked is None:
        raise SubscriptionNotFound("The subscription has been deleted.")
    return locked


def _log(session: Session, place: Place, txn_id: TxnID, op: str, ranges: Ranges) -> None:
    session.run(
        "log_pending_ack",
        **place.key(),
        tc_id=txn_id.tc_id,
        sequence=txn_id.sequence,
        op=op,
        ack_type=AckType.INDIVIDUAL,
        ranges=ranges,
    )
