"""What clients asked and what they were answered.

One operation is one request. It starts when the client sends it and ends when the client knows the
answer: ``ok`` (with results), ``fail`` (refused for certain: nothing has happened) or ``info`` (no
answer, or one that says "try again": it may have happened, now or later). A retry is an operation
of its own with the same keys. Times are one host's monotonic clock, in nanoseconds.

A message's value is unique in the history; a retry sends the same values. A partition is written
``topic:number``, a subscription ``topic|name``.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

Answer = Literal["ok", "fail", "info"]
Txn = str
Place = str
FOREVER = 2**62


class Op(msgspec.Struct, kw_only=True, tag_field="op", tag=str.lower, omit_defaults=True):
    """One request and its answer.

    Attributes:
        code, status: of a refusal: the error's code, and the transaction's status it named.
    """

    id: int = -1
    process: str = ""
    start: int = 0
    end: int = FOREVER
    answer: Answer = "info"
    code: str | None = None
    status: str | None = None


class Begin(Op):
    timeout_ms: int = 60_000
    txn: Txn | None = None


class Produce(Op):
    """One batch. ``first`` is None where the answer's position is not one of the partition's
    (a transaction's messages in a sidecar)."""

    partition: Place
    values: tuple[str, ...]
    txn: Txn | None = None
    producer: str | None = None
    sequence: int | None = None
    first: int | None = None
    duplicate: bool = False


class End(Op):
    """A decision for one transaction, or by one atomic decision for several (``group``)."""

    commit: tuple[Txn, ...] = ()
    abort: tuple[Txn, ...] = ()
    group: str | None = None
    guard: str = ""
    statuses: dict[Txn, str] = {}


class Extend(Op):
    txn: Txn
    timeout_ms: int


class Overdue(Op):
    """From its start on the clock may have passed the deadline; of every transaction for None."""

    txn: Txn | None = None


class Look(Op):
    """A question for a transaction's status."""

    txn: Txn
    seen: str | None = None
    final: bool = False


class Fetch(Op):
    """``records`` are (offset, value); ``aborted`` are (transaction, first offset).

    ``kept``: the aborted messages are among the records, for the client to filter by the list.
    """

    partition: Place
    from_offset: int = 0
    max_messages: int = 500
    committed: bool = True
    kept: bool = False
    final: bool = False
    records: tuple[tuple[int, str], ...] = ()
    aborted: tuple[tuple[Txn, int], ...] = ()
    next_offset: int = 0
    stable: int = -1
    last: int = -1


class Receive(Op):
    """``messages`` are (partition, offset, value, message id). ``lease_ms``: of the subscription,
    where one consumer is active at a time; ``keyed``: where a key's messages go to one at a time.
    """

    subscription: str
    consumer: str
    max_messages: int = 10
    lease_ms: int = 0
    keyed: bool = False
    final: bool = False
    messages: tuple[tuple[Place, int, str, str], ...] = ()


class Ack(Op):
    """``messages`` as :class:`Receive` gave them, without the value."""

    subscription: str
    consumer: str
    messages: tuple[tuple[Place, int, str], ...]
    txn: Txn | None = None
    cumulative: bool = False
    dropped: tuple[tuple[Place, int], ...] = ()


class Nack(Op):
    subscription: str
    consumer: str
    messages: tuple[tuple[Place, int, str], ...]


class Fault(Op):
    """Something that was broken on purpose, for the record."""

    kind: str
    target: str = ""


AnyOp = Begin | Produce | End | Extend | Overdue | Look | Fetch | Receive | Ack | Nack | Fault
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyOp)


class History:
    """A growing history; any thread may add to it."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock = clock
        self._ids = itertools.count()
        self._ops: list[Op] = []
        self._grown = threading.Condition()

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[Op]:
        with self._grown:
            return iter(list(self._ops))

    def add(self, op: Op) -> Op:
        """Keep an operation whose answer is known, or known never to come."""
        op.id = next(self._ids)
        with self._grown:
            self._ops.append(op)
            self._grown.notify_all()
        return op

    def note(self, op: Op) -> Op:
        """Keep something that happens at once and always succeeds."""
        op.start = op.end = self.clock()
        op.answer = "ok"
        return self.add(op)

    @contextlib.contextmanager
    def during(self, op: Op) -> Iterator[None]:
        """Keep something that goes on as long as the block."""
        op.start = self.clock()
        try:
            yield
        finally:
            op.end = self.clock()
            op.answer = "ok"
            self.add(op)

    def wait_for(self, more: int, seconds: float) -> bool:
        """Until so many more operations have been kept; False when it takes too long."""
        with self._grown:
            until = len(self._ops) + more
            return self._grown.wait_for(lambda: len(self._ops) >= until, timeout=seconds)

    def write(self, path: Path) -> None:
        """Keep it as JSON lines, one operation each."""
        path.write_bytes(b"\n".join(_encoder.encode(op) for op in self))


def read(path: Path) -> list[Op]:
    """Read what :meth:`History.write` wrote."""
    return [_decoder.decode(line) for line in path.read_bytes().splitlines()]
