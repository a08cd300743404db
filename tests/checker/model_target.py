"""A small engine in memory: the protocol without storage, threads or time.

It makes clean histories by the thousand for the checker's own tests, the same for the same seed,
and the museum's rarest bugs are planted in it (subclasses in tests/checker/museum). Each request is
carried out in one step; transactions are carried out by :meth:`ModelTarget.work`, one participant a
step, in whatever order the caller's randomness picks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from tests.checker.history import Ack, Begin, End, Extend, Fetch, Look, Nack, Op, Produce, Receive
from tests.checker.network import Refused


@dataclass
class Header:
    """A transaction at its coordinator."""

    status: str = "OPEN"
    deadline: int = 0
    partitions: set[str] = field(default_factory=set)
    subscriptions: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


@dataclass
class Cell:
    """One offset; a marker's value is None."""

    txn: str | None
    value: str | None


@dataclass
class Partition:
    """A log, and how transactions ended in it."""

    log: list[Cell] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    sent: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def ongoing(self) -> dict[str, int]:
        firsts: dict[str, int] = {}
        for offset, cell in enumerate(self.log):
            if cell.txn is not None and cell.txn not in self.ended:
                firsts.setdefault(cell.txn, offset)
        return firsts

    def stable(self) -> int:
        return min(self.ongoing().values(), default=len(self.log)) - 1


@dataclass
class Subscription:
    """Messages by (partition, offset)."""

    acked: set[tuple[str, int]] = field(default_factory=set)
    held: dict[tuple[str, int], str] = field(default_factory=dict)
    flying: dict[tuple[str, int], str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)


class ModelTarget:
    """See :class:`tests.checker.network.Target`. ``now`` is moved on by the caller."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0
        self.coordinator = 0
        self.headers: dict[str, Header] = {}
        self.partitions: dict[str, Partition] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.groups: dict[str, tuple[str, tuple[str, ...]]] = {}

    def perform(self, op: Op) -> Op:
        results = getattr(self, type(op).__name__.lower())(op)
        return msgspec.structs.replace(op, **results)

    # -- coordinator ---------------------------------------------------------

    def begin(self, op: Begin) -> dict[str, Any]:
        txn = f"{self.coordinator}:{len(self.headers)}"
        self.headers[txn] = Header(deadline=self.now + op.timeout_ms * 1_000_000)
        return {"txn": txn}

    def require_open(self, txn: str) -> Header:
        header = self.headers[txn]
        if header.status != "OPEN":
            raise Refused("InvalidTxnStatus", header.status)
        return header

    def decide(self, txn: str, decision: str) -> None:
        header = self.headers[txn]
        if header.status == "OPEN":
            header.status = decision
        elif header.status[:5] != decision[:5]:
            raise Refused("InvalidTxnStatus", header.status)

    def end(self, op: End) -> dict[str, Any]:
        wanted = dict.fromkeys(op.commit, "COMMITTING") | dict.fromkeys(op.abort, "ABORTING")
        if op.group is not None:
            if op.group in self.groups:
                guard, txns = self.groups[op.group]
                if guard != op.guard:
                    raise Refused("ProducerFenced")
                return {"statuses": {txn: self.headers[txn].status for txn in txns}}
            for txn, decision in wanted.items():
                status = self.headers[txn].status
                if status != "OPEN" and status[:5] != decision[:5]:
                    raise Refused("InvalidTxnStatus", status)
            self.groups[op.group] = op.guard, tuple(wanted)
        for txn, decision in wanted.items():
            self.decide(txn, decision)
        return {"statuses": {txn: self.headers[txn].status for txn in wanted}}

    def extend(self, op: Extend) -> dict[str, Any]:
        self.require_open(op.txn).deadline = self.now + op.timeout_ms * 1_000_000
        return {}

    def look(self, op: Look) -> dict[str, Any]:
        return {"seen": self.headers[op.txn].status}

    def expire(self) -> None:
        for header in self.headers.values():
            if header.status == "OPEN" and header.deadline < self.now:
                header.status = "ABORTING"

    def work(self) -> bool:
        """One step of a worker: one end command; False when nothing is due."""
        self.expire()
        due = [t for t, h in self.headers.items() if h.status in ("COMMITTING", "ABORTING")]
        if not due:
            return False
        txn = self.rng.choice(due)
        header = self.headers[txn]
        left = sorted((header.partitions | header.subscriptions) - header.done)
        if not left:
            header.status = "COMMITTED" if header.status == "COMMITTING" else "ABORTED"
            return True
        participant = self.rng.choice(left)
        if participant in header.subscriptions:
            self.end_on_subscription(participant, txn, header.status)
        else:
            self.end_on_partition(participant, txn, header.status)
        header.done.add(participant)
        return True

    # -- partitions ----------------------------------------------------------

    def log(self, name: str) -> Partition:
        return self.partitions.setdefault(name, Partition())

    def produce(self, op: Produce) -> dict[str, Any]:
        if op.txn is not None:
            self.require_open(op.txn).partitions.add(op.partition)
        partition = self.log(op.partition)
        if op.txn in partition.ended:
            raise Refused("InvalidTxnStatus")
        return self.append(partition, op)

    def append(self, partition: Partition, op: Produce) -> dict[str, Any]:
        key = op.txn, op.producer, op.sequence
        if key in partition.sent:
            return {"first": partition.sent[key], "duplicate": True}
        newest = max((k[2] for k in partition.sent if k[:2] == key[:2]), default=-1)
        if op.sequence is not None and op.sequence < newest:
            raise Refused("SequenceOutOfOrder")
        first = partition.sent[key] = len(partition.log)
        partition.log += [Cell(op.txn, value) for value in op.values]
        return {"first": first}

    def end_on_partition(self, name: str, txn: str, decision: str) -> None:
        partition = self.log(name)
        if txn not in partition.ended:
            partition.ended[txn] = decision
            partition.log.append(Cell(txn, None))

    def visible(self, partition: Partition, offset: int) -> bool:
        cell = partition.log[offset]
        return cell.value is not None and (
            cell.txn is None or partition.ended.get(cell.txn) == "COMMITTING"
        )

    def fetch(self, op: Fetch) -> dict[str, Any]:
        partition = self.log(op.partition)
        stable = partition.stable()
        end = stable + 1 if op.committed else len(partition.log)
        upper = max(op.from_offset, min(op.from_offset + op.max_messages, end))
        window = range(op.from_offset, upper)
        shown = [
            offset
            for offset in window
            if partition.log[offset].value is not None
            and (op.kept or not op.committed or self.visible(partition, offset))
        ]
        firsts: dict[str, int] = {}
        for offset, cell in enumerate(partition.log[:upper]):
            if cell.txn is not None and partition.ended.get(cell.txn) == "ABORTING":
                firsts.setdefault(cell.txn, offset)
        return {
            "records": tuple((offset, partition.log[offset].value) for offset in shown),
            "aborted": tuple(firsts.items()) if op.committed else (),
            "next_offset": upper,
            "stable": stable,
            "last": len(partition.log) - 1,
        }

    # -- subscriptions -------------------------------------------------------

    def subscription(self, name: str) -> Subscription:
        return self.subscriptions.setdefault(name, Subscription())

    def receive(self, op: Receive) -> dict[str, Any]:
        subscription = self.subscription(op.subscription)
        topic = op.subscription.partition("|")[0]
        messages = []
        for name in sorted(n for n in self.partitions if n.rpartition(":")[0] == topic):
            partition = self.partitions[name]
            for offset in range(partition.stable() + 1):
                key = name, offset
                busy = (subscription.acked, subscription.held, subscription.flying)
                if self.visible(partition, offset) and not any(key in each for each in busy):
                    messages.append((name, offset, partition.log[offset].value, f"0:{offset}:0:0"))
        messages = messages[: op.max_messages]
        for name, offset, _, _ in messages:
            subscription.flying[name, offset] = op.consumer
        return {"messages": tuple(messages)}

    def time_out(self) -> None:
        """Whatever is in flight may be delivered again."""
        for subscription in self.subscriptions.values():
            subscription.flying.clear()

    def nack(self, op: Nack) -> dict[str, Any]:
        subscription = self.subscription(op.subscription)
        for place, offset, _ in op.messages:
            if subscription.flying.get((place, offset)) == op.consumer:
                del subscription.flying[place, offset]
        return {}

    def ack(self, op: Ack) -> dict[str, Any]:
        subscription = self.subscription(op.subscription)
        keys = [(place, offset) for place, offset, _ in op.messages]
        if op.txn is None:
            dropped = tuple(key for key in keys if key in subscription.held)
            subscription.acked.update(key for key in keys if key not in subscription.held)
            return {"dropped": dropped}
        self.require_open(op.txn).subscriptions.add(op.subscription)
        if op.txn in subscription.ended:
            raise Refused("InvalidTxnStatus")
        for key in keys:
            if key in subscription.acked or subscription.held.get(key, op.txn) != op.txn:
                raise Refused("TransactionConflict")
        for key in keys:
            subscription.held[key] = op.txn
            subscription.flying.pop(key, None)
        return {}

    def end_on_subscription(self, name: str, txn: str, decision: str) -> None:
        subscription = self.subscription(name)
        if txn in subscription.ended:
            return
        subscription.ended[txn] = decision
        for key in [key for key, holder in subscription.held.items() if holder == txn]:
            del subscription.held[key]
            if decision == "COMMITTING":
                subscription.acked.add(key)
