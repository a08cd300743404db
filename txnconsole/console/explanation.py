"""An explanation of visibility in words: what each reason means, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.inspect.visibility import Explanation, Reason, ReasonCode
from engine.model.txn_id import TxnID
from engine.model.txn_status import DECIDED, TxnStatus

#: A short name for each reason.
_TITLES: Mapping[ReasonCode, str] = {
    ReasonCode.VISIBLE: "Readable",
    ReasonCode.OPEN: "Its own transaction is undecided",
    ReasonCode.BLOCKED: "Held back by another transaction",
    ReasonCode.ABORTED: "Aborted",
    ReasonCode.MARKER: "A marker, not a message",
    ReasonCode.BELOW_LOG_START: "Dropped by retention",
    ReasonCode.BEYOND_END: "Not written yet",
    ReasonCode.OFFLINE: "The partition is offline",
    ReasonCode.UNAVAILABLE: "The broker does not answer",
    ReasonCode.ACKNOWLEDGED: "Already acknowledged",
    ReasonCode.PENDING_ACK: "Acknowledged in a transaction that is undecided",
    ReasonCode.DEAD_LETTER: "On its way to the dead-letter topic",
    ReasonCode.IN_FLIGHT: "With a consumer",
    ReasonCode.ACTIVE_CONSUMER: "Another consumer is the active one",
    ReasonCode.KEY_WITH_CONSUMER: "Its key is with another consumer",
    ReasonCode.TO_REDELIVER: "To be delivered again",
    ReasonCode.UNREAD: "To be delivered",
}
#: What would change it; left out where nothing needs to change.
_ENDS: Mapping[ReasonCode, str] = {
    ReasonCode.OPEN: "Its commit makes it readable. After its abort nobody ever gets it.",
    ReasonCode.BLOCKED: "That transaction's end, however it ends; the next in the stack may hold.",
    ReasonCode.ABORTED: "Nothing: an aborted message is never delivered.",
    ReasonCode.MARKER: "Nothing: markers are the log's own.",
    ReasonCode.BELOW_LOG_START: "Nothing: it is gone.",
    ReasonCode.BEYOND_END: "A producer that appends as far.",
    ReasonCode.OFFLINE: "Bringing the partition online.",
    ReasonCode.UNAVAILABLE: "The broker's return.",
    ReasonCode.ACKNOWLEDGED: "A seek of the subscription to a place before it.",
    ReasonCode.PENDING_ACK: "That transaction's abort gives it back; its commit deletes it.",
    ReasonCode.DEAD_LETTER: "Nothing here: read it in the dead-letter topic.",
    ReasonCode.IN_FLIGHT: "Its acknowledgement deletes it; its return or the timeout frees it.",
    ReasonCode.ACTIVE_CONSUMER: "That consumer's departure, or the end of its lease.",
    ReasonCode.KEY_WITH_CONSUMER: "That consumer's acknowledgement of what it has of this key.",
    ReasonCode.TO_REDELIVER: "The next receive.",
    ReasonCode.UNREAD: "The next receive that comes as far.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WordedReason:
    """A reason as a page shows it. ``ends``: what would change it. ``consumer``: whom its text
    names. ``to_end``: the transaction whose abort would change it."""

    code: ReasonCode
    title: str
    text: str
    ends: str | None
    txn_id: TxnID | None
    status: str | None
    owner: str | None
    consumer: str | None
    deadline: str | None
    to_end: TxnID | None


def in_words(explanation: Explanation) -> list[WordedReason]:
    """All reasons, in the order in which they were found."""
    return [_in_words(reason) for reason in explanation.reasons]


def verdict(explanation: Explanation) -> tuple[bool, str]:
    """Whether the reader gets the message, and a sentence that says so."""
    reader = explanation.isolation.value.upper()
    if not explanation.readable:
        return False, f"No: a {reader} reader does not get it now."
    if explanation.deliverable is None:
        return True, f"Yes: a {reader} reader gets it now."
    name = explanation.subscription.name if explanation.subscription else ""
    if explanation.deliverable:
        return True, f"Yes: the next receive on {name} may get it."
    return False, f"No: readers may see it, but the next receive on {name} does not get it."


def _in_words(reason: Reason) -> WordedReason:
    ends = _ENDS.get(reason.code)
    named = reason.evidence.get("txn_id")
    txn_id = None if named is None else TxnID.parse(str(named))
    status = reason.evidence.get("status")
    is_open = status == TxnStatus.OPEN
    if status in DECIDED:
        ends = "It is decided; the workers are carrying it out. Nothing needs to be done."
    return WordedReason(
        code=reason.code,
        title=_TITLES[reason.code],
        text=reason.text,
        ends=ends,
        txn_id=txn_id,
        status=None if status is None else str(status),
        owner=_text(reason.evidence.get("owner")),
        consumer=_text(reason.evidence.get("consumer")),
        deadline=_text(reason.evidence.get("deadline")) if is_open else None,
        to_end=txn_id if is_open and reason.code is not ReasonCode.ABORTED else None,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
