"""Acknowledging messages, at once or within a transaction (semantics §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.log.brokers import Brokers
from engine.log.topics import Topics
from engine.model.cursor import claim_individual, held
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    SubscriptionNotFound,
    TransactionConflict,
)
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.subscription import AckAnswer, AckType
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.database import Database, Session
from engine.subscription import state
from engine.subscription.delivery import Delivery
from engine.subscription.state import Place

MAX_MESSAGE_IDS = 10_000


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one call newly holds in one place, for giving it back when the call is refused."""

    database: Database
    place: Place
    offsets: Ranges


class Acknowledgements:
    """Individual acknowledgements; all of a call or none of it."""

    def __init__(self, topics: Topics, brokers: Brokers, delivery: Delivery) -> None:
        self._topics = topics
        self._brokers = brokers
        self._delivery = delivery

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
        places = self._delivery.places(name, message_ids)
        if txn_id is None:
            return self._acknowledge_at_once(places, message_ids, name)
        self._claim_all(places, txn_id)
        return AckAnswer(pending=tuple(message_ids))

    def _acknowledge_at_once(
        self,
        places: Sequence[tuple[Database, Place, Ranges]],
        message_ids: Sequence[MessageID],
        name: SubscriptionName,
    ) -> AckAnswer:
        topic = self._topics.get(name.topic)
        dropped: dict[tuple[str, int], Ranges] = {}
        for database, place, offsets in places:

            def work(session: Session, place: Place = place, offsets: Ranges = offsets) -> Ranges:
                return _acknowledge(session, place, offsets)

            dropped[database.name, place.partition_id] = database.retrying(work)
        gone: set[MessageID] = set()
        for message_id in message_ids:
            location = self._brokers.locate(topic, message_id.partition)
            key = (location.database.name, location.partition_id)
            if message_id.offset in dropped[key]:
                gone.add(message_id)
        return AckAnswer(
            acked=tuple(message_id for message_id in message_ids if message_id not in gone),
            dropped=tuple(message_id for message_id in message_ids if message_id in gone),
        )

    def _claim_all(self, places: Sequence[tuple[Database, Place, Ranges]], txn_id: TxnID) -> None:
        """Claim everywhere. The parts of one broker are one SQL transaction; when a later broker
        refuses, what the earlier ones newly hold is given back. After a crash in between it stays
        with the transaction, whose client has no answer and retries or aborts."""
        claims: list[_Claim] = []
        try:
            for database in dict.fromkeys(database for database, _, _ in places):
                mine = [(place, offsets) for other, place, offsets in places if other is database]

                def work(
                    session: Session, mine: Sequence[tuple[Place, Ranges]] = mine
                ) -> list[tuple[Place, Ranges]]:
                    return [
                        (place, _claim(session, place, offsets, txn_id)) for place, offsets in mine
                    ]

                for place, offsets in database.retrying(work):
                    claims.append(_Claim(database, place, offsets))
        except EngineError:
            for claim in claims:
                self._release(claim, txn_id)
            raise

    def _release(self, claim: _Claim, txn_id: TxnID) -> None:
        if not claim.offsets:
            return

        def work(session: Session) -> None:
            locked = state.lock_cursor(session, claim.place)
            if locked is None:
                return
            session.run(
                "shrink_pending_acks",
                **claim.place.key(),
                tc_id=txn_id.tc_id,
                sequence=txn_id.sequence,
                ack_type=AckType.INDIVIDUAL,
                ranges=claim.offsets,
            )
            _log(session, claim.place, txn_id, "ABORT", claim.offsets)
            state.give_back(session, claim.place, locked[0], claim.offsets)

        claim.database.retrying(work)


def _acknowledge(session: Session, place: Place, offsets: Ranges) -> Ranges:
    """Delete messages for good; answers those that a transaction holds and that were dropped."""
    locked = state.lock_cursor(session, place)
    if locked is None:
        raise SubscriptionNotFound("The subscription has been deleted.")
    cursor, _ = locked
    _require_visible(session, place, offsets)
    pending = held(state.read_pending(session, place)) & offsets
    done = offsets - pending
    after = cursor.delete(done)
    state.write_cursor(session, place, cursor, after)
    session.run("shrink_deliveries", **place.key(), ranges=done)
    state.forget_redelivery(session, place, done)
    return pending


def _claim(session: Session, place: Place, offsets: Ranges, txn_id: TxnID) -> Ranges:
    """Hold messages for a transaction; answers what it newly holds."""
    locked = state.lock_cursor(session, place)
    if locked is None:
        raise SubscriptionNotFound("The subscription has been deleted.")
    ids = {"tc_id": txn_id.tc_id, "sequence": txn_id.sequence}
    fence = session.one("ack_fence", subscription_id=place.subscription_id, **ids)
    if fence is not None and fence.ended:
        raise InvalidTxnStatus(f"{txn_id} has ended for this subscription; nothing was recorded.")
    _require_visible(session, place, offsets)
    cursor, number = locked
    pending = state.read_pending(session, place)
    try:
        new = claim_individual(cursor, pending, txn_id, offsets)
    except TransactionConflict as conflict:
        conflict.data["partition"] = number
        raise
    if new:
        own = held(ack for ack in pending if ack.txn_id == txn_id)
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


def _require_visible(session: Session, place: Place, offsets: Ranges) -> None:
    head = session.one("head", partition_id=place.partition_id)
    last = offsets.last
    if head is not None and last is not None and last > head.stable_position:
        raise MessageNotFound(f"There is no message at offset {last} that a reader may see.")


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
