"""Bugs that a running PostgreSQL makes impossible, or too rare, planted in the model."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.checker.history import Ack, Begin, End, Fetch, Produce, Receive
from tests.checker.model_target import Cell, Header, ModelTarget, Partition
from tests.checker.network import Refused


class OffsetsFromASequence(ModelTarget):
    """An offset is taken first and filled later: readers pass over the hole."""

    def append(self, partition: Partition, op: Produce) -> dict[str, Any]:
        held = getattr(partition, "held", None)
        if held is not None:
            offset, late = held
            partition.log[offset : offset + len(late)] = late
            partition.held = None  # type: ignore[attr-defined]
        results = super().append(partition, op)
        if self.rng.random() < 0.1 and not results.get("duplicate"):
            first = results["first"]
            late = partition.log[first:]
            partition.log[first:] = [Cell(None, None) for _ in late]
            partition.held = first, late  # type: ignore[attr-defined]
        return results


class AnIdIssuedTwice(ModelTarget):
    """max() + 1 over what is left after a crash."""

    def begin(self, op: Begin) -> dict[str, Any]:
        if self.rng.random() < 0.05 and self.headers:
            last = list(self.headers)[-1]
            self.headers[last] = Header(deadline=self.now + op.timeout_ms * 1_000_000)
            return {"txn": last}
        return super().begin(op)


class ReplayUnfiltered(ModelTarget):
    """apache/pulsar #19814: a delivery from the replay queue does not look at outcomes."""

    def receive(self, op: Receive) -> dict[str, Any]:
        results = super().receive(op)
        topic = op.subscription.partition("|")[0]
        aborted = [
            (name, offset, cell.value, f"0:{offset}:0:0")
            for name, partition in self.partitions.items()
            for offset, cell in enumerate(partition.log)
            if name.startswith(f"{topic}:") and cell.value is not None
            if partition.ended.get(cell.txn or "") == "ABORTING"
        ]
        if aborted and not op.final and self.rng.random() < 0.05:
            results["messages"] = (*results["messages"], self.rng.choice(aborted))
        return results


class RefusalNotKept(ModelTarget):
    """A group that was refused is carried out when it comes again."""

    def end(self, op: End) -> dict[str, Any]:
        try:
            return super().end(op)
        except Refused:
            if op.group is not None or self.rng.random() < 0.9:
                raise
            wanted = "COMMITTING" if op.commit else "ABORTING"
            return {"statuses": dict.fromkeys((*op.commit, *op.abort), wanted)}


class PendingInMemory(ModelTarget):
    """What transactions hold is gone after a crash."""

    def time_out(self) -> None:
        super().time_out()
        for subscription in self.subscriptions.values():
            subscription.held.clear()


class LostOnCrash(ModelTarget):
    """NATS #7564: the tail of the log was acknowledged and never synced."""

    def time_out(self) -> None:
        super().time_out()
        for partition in self.partitions.values():
            del partition.log[-2:]


class EndedDifferently(ModelTarget):
    """A participant takes a commit for an abort: the transaction is torn for ever."""

    def end_on_partition(self, name: str, txn: str, decision: str) -> None:
        if self.rng.random() < 0.1:
            decision = "ABORTING"
        super().end_on_partition(name, txn, decision)


class AcksOfOneCallHalfKept(ModelTarget):
    """An acknowledgement of several messages holds the first only; the others are given again."""

    def ack(self, op: Ack) -> dict[str, Any]:
        results = super().ack(op)
        if op.txn is not None and self.rng.random() < 0.2:
            for place, offset, _ in op.messages[1:]:
                self.subscription(op.subscription).held.pop((place, offset), None)
        return results


class ListWithCommitted(ModelTarget):
    """The list of aborted transactions names one that committed."""

    def fetch(self, op: Fetch) -> dict[str, Any]:
        results = super().fetch(op)
        ended = self.log(op.partition).ended
        for txn, decision in ended.items():
            if decision == "COMMITTING" and op.committed and self.rng.random() < 0.05:
                results["aborted"] = (*results["aborted"], (txn, 0))
                break
        return results


class AnswersFromSeveralSnapshots(ModelTarget):
    """An abort lands between the list of aborted transactions and the records it is to filter."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.known: dict[str, set[str]] = {}

    def fetch(self, op: Fetch) -> dict[str, Any]:
        partition = self.log(op.partition)
        aborted = {txn for txn, how in partition.ended.items() if how == "ABORTING"}
        late = aborted - self.known.get(op.partition, set())
        self.known[op.partition] = aborted
        ended = partition.ended
        partition.ended = ended | dict.fromkeys(late, "COMMITTING")
        results = super().fetch(op)
        partition.ended = ended
        return results


class LowWaterMarkOverWhatIsCommitting(ModelTarget):
    """Only OPEN transactions hold it back: what is being committed is aborted as an orphan."""

    def end_on_partition(self, name: str, txn: str, decision: str) -> None:
        super().end_on_partition(name, txn, decision)
        for other in self.log(name).ongoing():
            if self.headers[other].status == "COMMITTING":
                super().end_on_partition(name, other, "ABORTING")


SIMULATED: tuple[type[ModelTarget], ...] = (
    OffsetsFromASequence,
    AnIdIssuedTwice,
    ReplayUnfiltered,
    RefusalNotKept,
    PendingInMemory,
    LostOnCrash,
    EndedDifferently,
    AcksOfOneCallHalfKept,
    ListWithCommitted,
    AnswersFromSeveralSnapshots,
    LowWaterMarkOverWhatIsCommitting,
)
