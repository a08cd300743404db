"""Invariants of a coordinator, compared with the brokers. The databases have no common snapshot, so
the order of reading has to make sure that nothing healthy looks broken:

- Low water marks: first the brokers', then the coordinator's. What a mark covers had ended before
  the mark was handed out, and stays ended.
- Outcomes: first the coordinator's, then the participants'. What the coordinator records as ended,
  its participants had carried out before. What looks wrong is asked for a second time.
- Ids: from the coordinators' database alone, in one statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.coordinator import rows
from engine.inspect.checks import Check, check
from engine.inspect.participants import ParticipantAudit, audit
from engine.inspect.reading import Reading
from engine.model.agreement import Says
from engine.model.transaction import PartitionParticipant, SubscriptionParticipant, Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import ENDED
from engine.postgres.database import Database

#: How many chunks of the archive one step looks at, and how many sequences a chunk has.
_CHUNKS = 16
_CHUNK = 1 << 14


def subject_of(tc_id: int) -> str:
    """The name of a coordinator as the subject of a check."""
    return f"coordinator:{tc_id}"


@dataclass(frozen=True, slots=True)
class Marks:
    """The highest low water mark that is known on each broker, by coordinator and broker."""

    of: Mapping[int, Mapping[str, int]]
    unavailable: Sequence[str]


def highest_marks(reading: Reading) -> Marks:
    """Ask every broker for the marks of all coordinators, which costs the same as for one."""
    found, unavailable = reading.on_each("highest_marks")
    marks: dict[int, dict[str, int]] = defaultdict(dict)
    for broker, known in found.items():
        for row in known:
            marks[row.tc_id][broker.name] = row.low_water_mark
    return Marks(marks, sorted(unavailable))


def check_marks(marks: Marks, database: Database, tc_id: int) -> Check:
    """Check that no broker knows a low water mark at or above a sequence that has not ended."""
    with database.session() as session:
        live = session.one("lowest_live", tc_id=tc_id)
    lowest = None if live is None else live.next_sequence if live.lowest is None else live.lowest
    unavailable = marks.unavailable
    too_high: list[dict[str, object]] = [
        {"broker": broker, "low_water_mark": mark, "lowest_live_sequence": lowest}
        for broker, mark in sorted(marks.of.get(tc_id, {}).items())
        if lowest is not None and mark >= lowest
    ]
    skipped = f"{', '.join(unavailable)} cannot be asked" if unavailable else None
    return check(5, "low_water_mark", subject_of(tc_id), too_high, skipped=skipped)


def check_ids(database: Database, tc_id: int, position: int) -> Check:
    """Check that every id that was issued has either a header or a bit in the archive, and not both
    (semantics §2). ``position``: a sequence; the check begins with its chunk of the archive."""
    first = position // _CHUNK
    beyond = first + _CHUNKS
    with database.session() as session:
        issued = session.one("lowest_live", tc_id=tc_id)
        astray = session.all("ids_astray", tc_id=tc_id, first=first, last=beyond - 1)
    more = issued is not None and issued.next_sequence > beyond * _CHUNK
    resume = beyond * _CHUNK if more else None
    return check(5, "ids_answer", subject_of(tc_id), astray, position=resume)


def check_transactions(
    reading: Reading, database: Database, tc_id: int, position: int, budget: int
) -> tuple[list[Check], int | None]:
    """Check ``budget`` transactions from a sequence on: that ids increase, that a transaction lists
    everything that has joined it, and that every participant of an ended transaction has its
    outcome. Also answers where to go on, None at the end."""
    with database.reading() as session:
        headers = session.all("headers_from", tc_id=tc_id, sequence=position, limit=budget)
        span = {"tc_id": tc_id, "first": position, "last": headers[-1].sequence if headers else -1}
        disorder = session.all("ids_out_of_order", **span)
        astray = session.all("participants_astray", **span)
        issued = session.one("lowest_live", tc_id=tc_id)
        partitions: dict[int, list[PartitionParticipant]] = defaultdict(list)
        for row in session.all("participants_from", **span):
            partitions[row.sequence].append(rows.partition_participant(row))
        subscriptions: dict[int, list[SubscriptionParticipant]] = defaultdict(list)
        for row in session.all("acknowledgers_from", **span):
            subscriptions[row.sequence].append(rows.subscription_participant(row))
    transactions = [
        rows.transaction(row, tuple(partitions[row.sequence]), tuple(subscriptions[row.sequence]))
        for row in headers
    ]
    resume = headers[-1].sequence + 1 if len(headers) == budget else None
    odd_ids = [
        *disorder,
        *(
            {"sequence": row.sequence, "next_sequence": issued.next_sequence}
            for row in headers
            if issued is not None and row.sequence >= issued.next_sequence
        ),
    ]
    subject = subject_of(tc_id)
    discords, unasked = _outcomes(reading, transactions)
    evidence = map(_evidence_of, discords)
    skipped = f"{', '.join(sorted(unasked))} cannot be asked" if unasked else None
    return [
        check(5, "ids_increase", subject, odd_ids, position=resume),
        check(2, "participants_named", subject, astray, position=resume),
        check(2, "one_outcome", subject, evidence, position=resume, skipped=skipped),
    ], resume


def _outcomes(
    reading: Reading, transactions: list[Transaction]
) -> tuple[list[ParticipantAudit], set[str]]:
    ended = {one.txn_id: one for one in transactions if one.status in ENDED}
    said = audit(reading, list(ended.values()))
    unasked = {part.broker for part in said if part.says is Says.UNAVAILABLE}
    suspects: set[TxnID] = {part.txn_id for part in said if part.discords}
    if suspects:
        said = audit(reading, [ended[txn_id] for txn_id in sorted(suspects)])
    return [part for part in said if part.discords], unasked


def _evidence_of(part: ParticipantAudit) -> dict[str, object]:
    return {
        "txn_id": str(part.txn_id),
        "participant": str(part.partition or part.subscription),
        "recorded": None if part.recorded is None else part.recorded.value,
        "says": part.says.value,
        "discords": ", ".join(part.discords),
        "marker_offset": part.marker_offset,
    }
