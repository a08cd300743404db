"""Acknowledging messages, at once or within a transaction (semantics §6).

An acknowledgement in a transaction claims messages for it. A call over several brokers claims on
one broker after the other. These claims are tentative, and carry an id of the call. When it has
claimed on all of them, the coordinator confirms the call, if the transaction is OPEN. A commit
makes the tentative claims of confirmed calls final and gives the others back. So a crash, a refusal
or a lost answer at any point leaves all of the call or none of it (docs/decisions/0022). The next
call of the transaction turns claims of confirmed calls into ordinary ones.

The coordinator is asked whether the transaction is OPEN only after the subscription's records have
been found, and messages are claimed of these records alone. So the transaction's end comes after
they were found. Either it still finds a record, whose fence refuses claims from then on; or the
record is gone, and nobody claims anything of it. A record that was made later could have missed the
end, and its fence would not know of it. A call that finds such a record in the place of one that is
gone is therefore made once more from its start, and asks the coordinator again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import cast

import structlog

from engine.log.retry import require_joined, retry_once_on
from engine.model.dispatch import Dispatch
from engine.model.errors import (
    EngineError,
    InvalidRequest,
    InvalidTxnStatus,
    MessageNotFound,
    TransactionConflict,
    TransactionNotFound,
)
from engine.model.message import MessageID
from engine.model.ranges import Ranges
from engine.model.subscription import (
    AckAnswer,
    AckType,
)
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres.session import Session
from engine.subscription.ack_decisions import (
    Ack,
    Acked,
    Claim,
    acknowledging,
    claiming,
    refusal,
    released,
)
from engine.subscription.cursors import Cursors, Share, SubscriptionReplaced
from engine.subscription.ids_by_broker import BrokerIds, IdsByBroker
from engine.subscription.leases import Fenced, LeaseHolder, Leases
from engine.subscription.ledgers import Ledgers
from engine.subscription.state import Change, State

logger = structlog.get_logger(__name__)

MAX_MESSAGE_IDS = 10_000
_KEPT_CALLS = 10_000
#: How many messages that a cumulative acknowledgement has left alone its answer names.
_NAMED_LEFT = 1000


@dataclass(frozen=True, slots=True)
class _Part:
    """One broker's part of a call. ``before``: by partition what was in flight before the call,
    once that is known."""

    share: Share
    ids: BrokerIds
    before: dict[int, Dispatch] = field(default_factory=dict)


class Acknowledgements:
    """Acknowledges messages; in a transaction all that a call names, or none.

    Args:
        confirm: records with the transaction's coordinator that a call has claimed everything.
    """

    def __init__(
        self,
        ids_by_broker: IdsByBroker,
        cursors: Cursors,
        leases: Leases,
        ledgers: Ledgers,
        confirm: Callable[[TxnID, int], None],
    ) -> None:
        self._ids_by_broker = ids_by_broker
        self._cursors = cursors
        self._leases = leases
        self._ledgers = ledgers
        self._confirm = confirm
        # Confirmed calls that this process does not know of are settled by the transaction's end.
        self._confirmed: dict[TxnID, set[int]] = {}

    @retry_once_on(SubscriptionReplaced)
    @retry_once_on(Fenced)
    def acknowledge(
        self,
        name: SubscriptionName,
        consumer: str,
        message_ids: Sequence[MessageID],
        *,
        ack_type: AckType = AckType.INDIVIDUAL,
        txn_id: TxnID | None = None,
        join: Callable[[], int] | None = None,
    ) -> AckAnswer:
        """Acknowledge messages.

        Without a transaction, messages are deleted at once. One that a transaction holds, or that
        is on its way to the dead-letter topic, is left alone and named in ``dropped``. In a
        transaction, messages become PENDING_ACK; repeating that in the same transaction succeeds
        without a change.

        CUMULATIVE is about one message and every undeleted one before it in its partition. It
        leaves alone what is on its way to the dead-letter topic and, without a transaction, what
        transactions hold; ``dropped`` names at most a thousand of those before the one that the
        call names.

        Args:
            join: asks the transaction's coordinator, which must say OPEN and have the subscription;
                answers the id of the topic of which it has it. Without it this is the brokers' side
                only.

        Raises:
            TopicReplaced: that topic is not the one in which the messages were looked for.
            InvalidRequest: none or too many ids; CUMULATIVE on a type that does not support it.
            ConsumerBusy: another consumer is the active one.
            MessageNotFound: an offset beyond what readers may see, or an id whose offset has
                another message by now.
            TransactionConflict: names the conflicts in all partitions of the first broker on which
                there are any; nothing was recorded.
            InvalidTxnStatus: the transaction has ended for this subscription.
        """
        most = 1 if ack_type is AckType.CUMULATIVE else MAX_MESSAGE_IDS
        if not 1 <= len(message_ids) <= most:
            raise InvalidRequest(
                f"message_ids must name 1 to {most} messages for {ack_type}.", field="message_ids"
            )
        parts = [
            _Part(self._cursors.share(ids.database, ids.topic, name), ids)
            for ids in self._ids_by_broker.of(name.topic, message_ids)
        ]
        share = parts[0].share
        if join is not None:
            require_joined(share.topic, join())
        if ack_type is AckType.CUMULATIVE and not share.has_one_consumer:
            self._cursors.refreshed(share)  # which may be gone by now, or another
            raise InvalidRequest(
                f"A {share.record.type} subscription takes INDIVIDUAL acknowledgements only;"
                " CUMULATIVE ones need an EXCLUSIVE or FAILOVER subscription.",
                field="ack_type",
            )
        holder = self._leases.require(share, consumer)
        if len(parts) > 1:
            for part in parts:
                self._check_there(part)
        if txn_id is not None:
            try:
                self._claim_all(parts, txn_id, ack_type, holder)
            except TransactionConflict as conflict:
                _name(conflict, message_ids)
                raise
            return AckAnswer(pending=tuple(message_ids))
        return self._delete(parts, message_ids, ack_type, holder)

    def _delete(
        self,
        parts: Sequence[_Part],
        message_ids: Sequence[MessageID],
        ack_type: AckType,
        holder: LeaseHolder,
    ) -> AckAnswer:
        """Acknowledge without a transaction, on one broker after the other."""
        dropped: dict[int, Ranges] = {}
        for part in parts:
            for state, acked in self._acknowledge_on(part, acknowledging(ack_type), holder):
                dropped[state.number] = acked.dropped
        if not any(dropped.values()):
            return AckAnswer(acked=tuple(message_ids))
        gone = {each for each in message_ids if each.offset in dropped[each.partition]}
        before: list[MessageID] = []
        if ack_type is AckType.CUMULATIVE:
            before = _before(parts[0], message_ids[0], dropped)
        return AckAnswer(
            acked=tuple(each for each in message_ids if each not in gone),
            dropped=(*before, *(each for each in message_ids if each in gone)),
        )

    def _acknowledge_on(
        self, part: _Part, ack: Ack, holder: LeaseHolder, txn_id: TxnID | None = None
    ) -> list[tuple[State, Acked]]:
        """Do one broker's part of a call in one SQL transaction; answers for each partition the
        state before ``ack``, and what it answered."""
        share, ids = part.share, part.ids

        def decide(
            session: Session, states: Sequence[State]
        ) -> tuple[list[Change], list[tuple[State, Acked]]]:
            changes, decided = [], []
            for state in states:
                offsets = ids.offsets[state.partition_id]
                self._require_there(share, session, state, ids)
                entered = self._leases.enter(share, state, holder)
                try:
                    acked = ack(entered, offsets)
                except TransactionConflict:
                    # After its own end a transaction's messages look like a conflict; say that it
                    # has ended instead.
                    if txn_id is not None:
                        _require_not_ended(session, share, txn_id)
                    raise refusal(ack, states, ids) from None
                decided.append((entered, acked))
                if acked.after is not state:
                    changes.append(Change(before=state, after=acked.after, steps=acked.steps))
            return changes, decided

        return self._cursors.change(share, list(ids.offsets), decide)

    def _check_there(self, part: _Part) -> None:
        """Check one broker's part of a call before anything is recorded on any broker. What is
        there now will be there later, because the stable position never moves back."""

        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            for state in states:
                self._require_there(part.share, session, state, part.ids)
            return [], None

        self._cursors.change(part.share, list(part.ids.offsets), decide)

    def _require_there(self, share: Share, session: Session, state: State, ids: BrokerIds) -> None:
        last = ids.offsets[state.partition_id].last
        if last is not None and state.stable_position is not None and last > state.stable_position:
            raise MessageNotFound(
                f"{share.topic.name}:{state.number} has no message at offset {last} that a reader"
                " may see."
            )
        named = ids.ledgers[state.partition_id]
        stranger = self._ledgers.stranger(share.database, session, state, named)
        if stranger is not None:
            ledger_id, offset = stranger
            raise MessageNotFound(
                f"{share.topic.name}:{state.number} has no message at offset {offset} in ledger"
                f" {ledger_id}: the id is of before its topic was made anew or its log was cut."
                " Nothing was recorded; receive again."
            )

    def _claim_all(
        self,
        parts: Sequence[_Part],
        txn_id: TxnID,
        ack_type: AckType,
        holder: LeaseHolder,
    ) -> None:
        """Claim on every broker, each in one SQL transaction. With several brokers the claims are
        tentative until the call is confirmed."""
        call_id = secrets.randbits(63) if len(parts) > 1 else 0
        claim = Claim(txn_id, ack_type, call_id, self._confirmed.get(txn_id, ()))
        asked: list[_Part] = []
        try:
            for part in parts:
                asked.append(part)
                claimed = self._acknowledge_on(part, claiming(claim), holder, txn_id)
                part.before.update((state.partition_id, state.dispatch) for state, _ in claimed)
        except Exception:
            if call_id:
                self._release_all(asked, claim)
            raise
        if call_id:
            # Any other error may mean that the call was confirmed and the answer was lost: then
            # nothing may be given back here.
            try:
                self._confirm(txn_id, call_id)
            except (InvalidTxnStatus, TransactionNotFound):
                self._release_all(parts, claim)
                raise
            self._remember(txn_id, call_id)

    def _remember(self, txn_id: TxnID, call_id: int) -> None:
        if len(self._confirmed) >= _KEPT_CALLS:
            self._confirmed = {}
        self._confirmed[txn_id] = {*self._confirmed.get(txn_id, ()), call_id}

    def _release_all(self, asked: Sequence[_Part], claim: Claim) -> None:
        """Let go at once what a refused call has claimed, or may have claimed. Where that fails,
        the transaction's end gives it back, since the call is not confirmed."""
        for part in asked:
            try:
                self._release(part, claim)
            except EngineError as error:
                logger.warning(
                    "refused acknowledgement waits for its transaction's end",
                    subscription=str(part.share.name),
                    broker=part.share.database.name,
                    txn_id=str(claim.txn_id),
                    code=error.code,
                    reason=error.message,
                )

    def _release(self, part: _Part, claim: Claim) -> None:
        def decide(session: Session, states: Sequence[State]) -> tuple[list[Change], None]:
            del session
            found = (released(each, claim, part.before.get(each.partition_id)) for each in states)
            return [change for change in found if change is not None], None

        self._cursors.change(part.share, list(part.ids.offsets), decide)


def _before(part: _Part, until: MessageID, dropped: Mapping[int, Ranges]) -> list[MessageID]:
    """The messages that a cumulative acknowledgement has left alone before its own. Their ids are
    read: of most calls there are none."""
    offsets = list(
        islice(dropped[until.partition] - Ranges.of_offsets([until.offset]), _NAMED_LEFT)
    )
    if not offsets:
        return []
    [partition_id] = part.ids.offsets
    with part.share.database.session() as session:
        rows = session.all("named_by", partition_id=partition_id, offsets=offsets)
    left = (
        MessageID(row.ledger_id, row.entry_id, until.partition, row.message_offset - row.entry_id)
        for row in rows
    )
    return sorted(left, key=attrgetter("offset"))


def _name(conflict: TransactionConflict, message_ids: Iterable[MessageID]) -> None:
    """Name the messages that a call's conflicts are about, as the call names them; null for one
    that a cumulative acknowledgement only reaches."""
    ids = {(each.partition, each.offset): str(each) for each in message_ids}
    for each in cast("list[dict[str, object]]", conflict.data["conflicts"]):
        each["message_id"] = ids.get(cast("tuple[int, int]", (each["partition"], each["offset"])))


def _require_not_ended(session: Session, share: Share, txn_id: TxnID) -> None:
    fence = session.one(
        "ack_fence",
        subscription_id=share.subscription_id,
        tc_id=txn_id.tc_id,
        sequence=txn_id.sequence,
    )
    if fence is not None and fence.ended:
        raise InvalidTxnStatus(f"{txn_id} has ended for this subscription; nothing was recorded.")
