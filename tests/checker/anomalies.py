"""What can be wrong with a history, and the operations that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from tests.checker.history import Op


class Kind(StrEnum):
    """Each has a mutated history in test_check.py."""

    ABORTED_READ = "aborted read"
    DIRTY_READ = "read before the commit was asked for"
    REFUSED_READ = "read of what was refused"
    UNWRITTEN_READ = "read of what was never written"
    LOST_WRITE = "lost committed write"
    TORN_TRANSACTION = "torn transaction"
    TORN_GROUP = "torn group"
    DUPLICATE = "duplicate"
    REORDERED_LOG = "reordered log"
    OFFSET_REUSED = "offset reused"
    ANSWERS_DISAGREE = "answers to one request disagree"
    SKIPPED_READ = "read that skipped a message"
    READ_PAST_STABLE = "read past the stable position"
    STABLE_WENT_BACK = "stable position went back"
    STABLE_PAST_OPEN = "stable position past an open transaction"
    LOG_SHRANK = "log shrank"
    WRONG_ABORTED_LIST = "wrong list of aborted transactions"
    DECISION_REVERSED = "decision reversed"
    UNASKED_COMMIT = "commit that nobody asked for"
    UNASKED_ABORT = "abort without a cause"
    STATUS_WENT_BACK = "status went back"
    JOINED_AFTER_END = "joined after its end"
    ID_REUSED = "transaction id reused"
    IDS_OUT_OF_ORDER = "transaction ids out of order"
    DOUBLE_ACK = "double acknowledgement"
    HELD_ACKED = "acknowledgement of a message that another transaction held"
    REDELIVERED_HELD = "redelivery of a held message"
    REDELIVERED_ACKED = "redelivery of a committed acknowledgement"
    LOST_ABORTED_ACK = "lost aborted acknowledgement"
    LOST_MESSAGE = "message never delivered"
    DELIVERED_TWICE = "delivered twice at once"
    TWO_ACTIVE = "two active consumers"
    KEY_SHARED_OUT = "messages of a key with two consumers"
    FALSE_CONFLICT = "conflict with nobody"
    STUCK_TRANSACTION = "stuck transaction"
    STUCK_STABLE = "stuck stable position"


class Anomaly(msgspec.Struct, frozen=True):
    """``evidence``: the fewest operations from which a reader sees it."""

    kind: Kind
    what: str
    evidence: tuple[Op, ...] = ()

    def __str__(self) -> str:
        proof = "".join(f"\n    {op}" for op in self.evidence)
        return f"{self.kind}: {self.what}{proof}"


Timed = tuple[int, int, int, Op]


def regressions(items: Iterable[Timed]) -> Iterator[tuple[Op, Op]]:
    """Pairs (earlier, later): the later one began after the earlier one had ended, and yet its
    value is lower. Items are (start, end, value, operation); at most one pair for a later one."""
    by_start = sorted(items, key=lambda item: item[0])
    by_end = sorted(by_start, key=lambda item: item[1])
    ended, highest = 0, None
    for start, _, value, op in by_start:
        while by_end[ended][1] < start:
            if highest is None or by_end[ended][2] > highest[2]:
                highest = by_end[ended]
            ended += 1
        if highest is not None and value < highest[2]:
            yield highest[3], op
