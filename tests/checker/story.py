"""A short history in which everything is right, with a name for each operation.

The tests change one thing and ask the checker what is wrong.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.checker.history import (
    Ack,
    Begin,
    End,
    Fetch,
    Look,
    Op,
    Produce,
    Receive,
)

P = "t/n/orders:0"
S = "t/n/orders|work"
A, B, C, D = "0:0", "0:1", "0:2", "0:3"
#: The log: a0 a1 b0 x | commit of A, abort of B, c0, commit of C, y
VISIBLE = ((0, "a0"), (1, "a1"), (3, "x"), (6, "c0"), (8, "y"))


class Story(dict[str, Op]):
    """Operations by name, each after the one before."""

    def change(self, name: str, **fields: Any) -> None:
        self[name] = msgspec.structs.replace(self[name], **fields)

    def refuse(self, name: str, code: str = "InvalidTxnStatus", **fields: Any) -> None:
        self.change(name, answer="fail", code=code, **fields)

    def forget(self, name: str) -> None:
        """The client never heard the answer."""
        self.change(name, answer="info", end=2**62)

    def insert(self, after: str, name: str, op: Op) -> None:
        """One more operation, which ends before the next one begins."""
        op.start, op.end = self[after].end + 1, self[after].end + 2
        op.answer = "ok" if op.code is None else "fail"
        op.id = len(self)
        self[name] = op

    def during(self, name: str, fetch: Op) -> None:
        op = self[name]
        fetch.start, fetch.end = op.start, op.end


def produce(value: str, first: int, txn: str | None = None, sequence: int = 0, **more: Any) -> Op:
    return Produce(
        partition=P, values=(value,), txn=txn, producer="p", sequence=sequence, first=first, **more
    )


def fetch(records: Any, next_offset: int, stable: int, last: int, **more: Any) -> Op:
    return Fetch(
        partition=P, records=records, next_offset=next_offset, stable=stable, last=last, **more
    )


def receive(*messages: tuple[int, str], **more: Any) -> Op:
    given = tuple((P, offset, value, f"1:{offset}:0:0") for offset, value in messages)
    return Receive(subscription=S, consumer="c", messages=given, **more)


def ack(*offsets: int, txn: str | None = None, **more: Any) -> Op:
    given = tuple((P, offset, f"1:{offset}:0:0") for offset in offsets)
    return Ack(subscription=S, consumer="c", messages=given, txn=txn, **more)


def story() -> Story:
    """A commits, B aborts, C and D are ended by one group (C committed, D aborted)."""
    told = Story(
        begin_a=Begin(txn=A),
        a0=produce("a0", 0, A, 0),
        a1=produce("a1", 1, A, 1),
        begin_b=Begin(txn=B),
        b0=produce("b0", 2, B, 0),
        x=produce("x", 3, sequence=0),
        early=fetch((), 0, -1, 3),
        commit_a=End(commit=(A,), statuses={A: "COMMITTING"}),
        committed_a=Look(txn=A, seen="COMMITTED"),
        between=fetch(((0, "a0"), (1, "a1")), 2, 1, 4),
        abort_b=End(abort=(B,), statuses={B: "ABORTING"}),
        aborted_b=Look(txn=B, seen="ABORTED"),
        read=fetch(((0, "a0"), (1, "a1"), (3, "x")), 6, 5, 5, aborted=((B, 2),)),
        kept=fetch(
            ((0, "a0"), (1, "a1"), (2, "b0"), (3, "x")), 6, 5, 5, kept=True, aborted=((B, 2),)
        ),
        begin_c=Begin(txn=C),
        begin_d=Begin(txn=D),
        receive=receive((0, "a0"), (1, "a1"), (3, "x")),
        ack_c=ack(0, txn=C),
        ack_d=ack(1, txn=D),
        conflict=ack(0, txn=D, answer="fail", code="TransactionConflict"),
        ack_x=ack(3),
        c0=produce("c0", 6, C, 0),
        group=End(commit=(C,), abort=(D,), group="g", statuses={C: "COMMITTING", D: "ABORTING"}),
        y=produce("y", 8, sequence=1),
        looked=Look(txn=A, seen="COMMITTED", final=True),
        last=fetch(VISIBLE, 9, 8, 8, final=True, aborted=((B, 2),)),
        drain=receive((1, "a1"), (6, "c0"), (8, "y"), final=True),
    )
    for number, op in enumerate(told.values()):
        op.id = number
        op.start, op.end = 1000 * number, 1000 * number + 500
        op.answer = "ok" if op.code is None else "fail"
    return told
