"""What a case is made of: rows of a copy of logs that agree with one another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests.pipeline.audit.conftest import Row
from txnconsole.pipeline.audit.log_copy import TABLES

SIDECAR, COMPACTED = "/sidecar", "/compacted"
LAYOUTS = {SIDECAR: "sidecar", COMPACTED: "compacted"}
#: How many transactions the archive keeps in one row.
CHUNK = 16_384
#: What a case's other coordinator has more than its own.
ANOTHER = 1000
_STEPS = itertools.count()

#: What a case is to find: the rule, the log (``""``, ``":1"``, ``"/sidecar"``), the transaction
#: (None: no certain one).
Found = set[tuple[str, str, int | None]]


class Case:
    """A topic, whose rows agree with one another until a case changes some; its transactions have a
    coordinator of their own. What is added is of partition 0 until :meth:`turn_to`."""

    def __init__(self, name: str, tc_id: int) -> None:
        self.topic = f"public/default/{name}"
        self.turn_to(0)
        self.tables: dict[str, list[Row]] = {table: [] for table in TABLES}
        self.own = tc_id
        self.let_be_of(tc_id)

    def let_be_of(self, tc_id: int) -> None:
        """Let what is added be of this coordinator, whose transactions begin with the first."""
        self.tc_id, self._sequences = tc_id, itertools.count()
        self.add("issued", next_sequence=2 * CHUNK)

    @property
    def another(self) -> int:
        """A coordinator whose transactions have the same numbers."""
        return self.own + ANOTHER

    def turn_to(self, number: int, broker: str = "broker-1") -> None:
        self.number = number
        self.place = {"broker": broker, "log_id": f"{self.topic}:{number}"}

    def add(self, table: str, log: str = "", **row: Any) -> Row:
        found = self.place | {"log_id": self.place["log_id"] + log, "tc_id": self.tc_id} | row
        self.tables[table].append(found)
        return found

    def log(self, *, end: int, log: str = "", layout: str = "marker", **row: Any) -> Row:
        place = {"topic": self.topic, "number": self.number, "home_id": self.place["log_id"]}
        state = {"log_start": 0, "next_offset": end, "deduplication": True, "online": True}
        state |= {"head_start": row.get("log_start", 0)}
        return self.add("logs", log, layout=LAYOUTS.get(log, layout), **place | state | row)

    def plain(self, first: int, last: int | None = None, **row: Any) -> Row:
        last = first if last is None else last
        at = {"first_offset": first, "last_offset": last, "kind": "D"}
        return self.add("entries", **at | no_txn() | row)

    def data(self, txn: int, first: int, last: int, log: str = "", **row: Any) -> Row:
        at = {"first_offset": first, "last_offset": last}
        return self.add("entries", log, sequence=txn, kind="D", **at | row)

    def marker(self, txn: int, at: int, kind: str = "C", log: str = "", **row: Any) -> Row:
        at_once = {"first_offset": at, "last_offset": at}
        return self.add("entries", log, sequence=txn, kind=kind, **at_once | row)

    def txn(self, status: str = "COMMITTED", *, told: tuple[int, int, int] | None = None) -> int:
        """A transaction that its coordinator knows; ``told``: first, last, number of messages."""
        txn = next(self._sequences)
        before = status in ("COMMITTED", "ABORTED")
        self.add("headers", sequence=txn, status=status, ended_before=before)
        first, last, messages = told or (None, None, None)
        what = {"first_offset": first, "last_offset": last, "messages": messages}
        self.add("participants", sequence=txn, home_id=self.place["log_id"], **what)
        return txn

    def archive(self, ended: Sequence[int], aborted: Sequence[int]) -> None:
        """Leave of transactions, instead of their headers, what the archive keeps of them."""
        self.tables["headers"] = [
            row for row in self.tables["headers"] if row["sequence"] not in ended
        ]
        for chunk in {txn // CHUNK for txn in ended}:
            kept = {"ended": bits(ended, chunk), "aborted": bits(aborted, chunk)}
            for table in ("archive", "archived_before"):
                self.add(table, chunk=chunk, **kept)

    def index(self, txn: int, first: int, last: int, stable: int, log: str = "", **row: Any) -> Row:
        at = {"first_offset": first, "last_offset": last, "last_stable_offset": stable}
        return self.add("index", log, sequence=txn, **at | {"aborted": False} | row)

    def ended(self, first: int, last: int, at: int, kind: str = "C", status: str = "") -> int:
        """A transaction with a batch and a marker, and all that follows from them."""
        status = status or {"C": "COMMITTED", "A": "ABORTED"}[kind]
        txn = self.txn(status, told=(first, last, last - first + 1))
        self.data(txn, first, last)
        self.marker(txn, at, kind)
        self.fence(txn, at, first, last, aborted=kind == "A")
        self.index(txn, first, at, at + 1, aborted=kind == "A")
        return txn

    def committed(self, txn: int, first: int, last: int, at: int) -> None:
        """As :meth:`ended`, of a transaction that is known already."""
        told = {"first_offset": first, "last_offset": last, "messages": last - first + 1}
        self.add("participants", sequence=txn, home_id=self.place["log_id"], **told)
        self.data(txn, first, last)
        self.marker(txn, at)
        self.fence(txn, at, first, last)
        self.index(txn, first, at, at + 1)

    def still_open(self, txn: int, first: int, last: int) -> None:
        """As :meth:`ongoing`, of a transaction that is known already."""
        self.add("participants", sequence=txn, home_id=self.place["log_id"], messages=None)
        self.data(txn, first, last)
        at = {"first_offset": first, "last_offset": last, "messages": last - first + 1}
        self.add("ongoing", sequence=txn, **at)

    def ongoing(self, first: int, last: int, *, status: str = "OPEN", log: str = "") -> int:
        txn = self.txn(status)
        self.data(txn, first, last, log, txn_messages=last - first + 1 if log else None)
        at = {"first_offset": first, "last_offset": last, "messages": last - first + 1}
        self.add("ongoing", log, sequence=txn, **at)
        return txn

    def sidecar(self, *, home: int, side: int, **row: Any) -> Row:
        """The logs of a sidecar-buffered partition; answers the sidecar's."""
        self.log(end=home, layout="home")
        self.log(end=0, log=COMPACTED)["next_offset"] = None
        return self.log(end=side, log=SIDECAR, **row)

    def committed_in_sidecar(self, first: int, last: int, at: int, commit: int) -> int:
        """A transaction that waits for compaction: a batch and a marker in the sidecar log, and in
        the partition the marker that stands for its messages."""
        messages = last - first + 1
        told = (commit, commit + messages - 1, messages)
        txn = self.txn(told=told)
        self.data(txn, first, last, SIDECAR, txn_messages=messages)
        self.marker(txn, at, log=SIDECAR)
        self.index(txn, first, at, at + 1, SIDECAR, commit_offset=commit)
        self.marker(txn, commit, last_offset=commit + messages - 1, txn_messages=messages)
        self.fence(txn, commit, commit, commit + messages - 1)
        return txn

    def compacted_in_part(
        self, txn: int, messages: int, moved: int, *, commit: int, waits_at: int
    ) -> None:
        """A committed transaction in a sidecar-buffered partition, the first of whose messages
        compaction has moved."""
        last, marker = commit + messages - 1, waits_at + messages
        told = {"first_offset": commit, "last_offset": last, "messages": messages}
        self.add("participants", sequence=txn, home_id=self.place["log_id"], **told)
        self.marker(txn, commit, last_offset=last, txn_messages=messages)
        self.fence(txn, commit, commit, last)
        if moved:
            self.data(txn, commit, commit + moved - 1, COMPACTED)
        self.data(txn, waits_at + moved, marker - 1, SIDECAR, txn_messages=messages)
        self.marker(txn, marker, log=SIDECAR)
        self.index(txn, waits_at, marker, marker + 1, SIDECAR, commit_offset=commit)

    def fence(
        self, txn: int, at: int, first: int | None, last: int | None, *, aborted: bool = False
    ) -> Row:
        """An end as the partition remembers it."""
        messages = 0 if first is None or last is None else last - first + 1
        where = {"marker_offset": at, "first_offset": first, "last_offset": last}
        return self.add("fence", sequence=txn, aborted=aborted, messages=messages, **where)

    def subscribed(self, mark_delete: int = -1, subscription: str = "s") -> None:
        self.add("subscriptions", subscription=subscription)
        self.add("cursors", subscription=subscription, mark_delete=mark_delete)

    def holds(self, txn: int, lower: int, upper: int, subscription: str = "s") -> None:
        """A transaction has acknowledged messages; its coordinator knows."""
        what = {"sequence": txn, "subscription": subscription}
        kind = {"ack_type": "INDIVIDUAL", "lower": lower, "upper": upper}
        self.add("pending_acks", **what | kind)
        self.add("ack_steps", **what | kind, step=next(_STEPS), op="ACK", call_id=0)
        self.add("acknowledgers", **what, topic=self.topic)

    def step(self, txn: int, op: str, lower: int, upper: int, **row: Any) -> None:
        """A record of the pending-ack log."""
        what = {"subscription": "s", "ack_type": "INDIVIDUAL", "step": next(_STEPS)}
        span = {"lower": lower, "upper": upper, "call_id": 0}
        self.add("ack_steps", sequence=txn, op=op, **what | span | row)

    def given_back(self, txn: int) -> None:
        """An abort of an acknowledgement of the first message."""
        self.step(txn, "ACK", 0, 1)
        self.step(txn, "ABORT", 0, 1)
        self.ended_ack(txn, aborted=True)

    def ended_ack(self, txn: int, *, aborted: bool, messages: int = 1) -> None:
        fence = {"subscription": "s", "topic": self.topic, "sequence": txn}
        self.add("ended_acks", **fence, aborted=aborted, messages=messages)


def no_txn() -> Row:
    return {"tc_id": None, "sequence": None}


def bits(txns: Sequence[int], chunk: int) -> bytes:
    own = sum(1 << txn % CHUNK for txn in txns if txn // CHUNK == chunk)
    return own.to_bytes(CHUNK // 8, "little")
