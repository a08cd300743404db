"""Subscriptions that promise more than that nothing is lost: one consumer at a time, a key's order.

Both are judged by deliveries alone, and only where nothing was broken meanwhile: a fault may give
messages back, or end a lease, without anybody's asking for it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.checker.anomalies import Anomaly, Kind
from tests.checker.history import Ack, Fault, Nack, Op, Place, Receive

#: The fault that ends every lease, and every delivery's time.
LEASES_END = "consumers time out"
#: What an operator does beside clients is kept as a fault of this kind, and excuses nothing.
OPERATOR = "operator: "
#: Faults that take nothing back that has been delivered.
_ONLY_IN_THE_WAY = ("broker out of reach", "connections cut", OPERATOR)
_SECOND = 1_000_000_000
#: For how long after a fault that was noted as it began it may still be going on.
_LINGERS = 30 * _SECOND
#: Within that, no delivery times out (the shortest timeout is 30 s).
_IN_FLIGHT = 20 * _SECOND
#: A process relies on a lease for a third of it without asking; the rest is sure, less some doubt.
_SURE = 0.5
#: Of a key's deliveries, those before.
_LOOKED_AT = 20
#: A message of a subscription, by its place and offset.
Held = tuple[str, Place, int]


class Faults:
    """When something was broken, of what ``counts``."""

    def __init__(self, ops: Iterable[Op], counts: Callable[[str], bool]) -> None:
        spans = sorted(
            (op.start, op.end if op.end > op.start else op.end + _LINGERS)
            for op in ops
            if isinstance(op, Fault) and counts(op.kind)
        )
        self._starts = [start for start, _ in spans]
        self._ends: list[int] = []
        for _, end in spans:
            self._ends.append(max(end, self._ends[-1]) if self._ends else end)

    def met(self, start: int, end: int) -> bool:
        """Whether any was under way at a moment between the two."""
        begun = bisect_right(self._starts, end)
        return begun > 0 and self._ends[begun - 1] >= start


def check_deliveries(ops: Sequence[Op]) -> Iterator[Anomaly]:
    """What can be said of who was given what when."""
    faults = Faults(ops, lambda kind: not kind.startswith(_ONLY_IN_THE_WAY))
    lapses = Faults(ops, lambda kind: kind == LEASES_END)
    alone: dict[str, list[Receive]] = defaultdict(list)
    keyed: dict[str, list[Receive]] = defaultdict(list)
    for op in ops:
        if isinstance(op, Receive) and op.answer == "ok" and op.messages and not op.final:
            if op.lease_ms:
                alone[op.subscription].append(op)
            if op.keyed:
                keyed[op.subscription].append(op)
    for name, receives in alone.items():
        yield from _check_alone(name, sorted(receives, key=lambda op: op.end), lapses)
    for name, receives in keyed.items():
        given_up = _given_up(op for op in ops if isinstance(op, Ack | Nack))
        yield from _check_keys(name, sorted(receives, key=lambda op: op.end), given_up, faults)


def _given_up(ops: Iterable[Ack | Nack]) -> dict[Held, int]:
    """From when on a message may not be with whoever was given it."""
    found: dict[Held, int] = {}
    for op in ops:
        for place, offset, _ in op.messages:
            message = op.subscription, place, offset
            found[message] = min(op.start, found.get(message, op.start))
    return found


def _check_alone(name: str, receives: Sequence[Receive], lapses: Faults) -> Iterator[Anomaly]:
    """Who was the active consumer a moment ago still is: a lease does not end by itself so soon,
    and outlives a crash.

    When all leases have been ended by force, a process may rely on one for a while yet.
    """
    for earlier, later in pairwise(receives):
        lease = earlier.lease_ms * 1_000_000
        if (
            earlier.consumer != later.consumer
            and earlier.end < later.start
            and later.end < earlier.start + _SURE * lease
            and not lapses.met(earlier.start - lease, later.end)
        ):
            yield Anomaly(Kind.TWO_ACTIVE, name, (earlier, later))


def _check_keys(
    name: str,
    receives: Sequence[Receive],
    given_up: dict[Held, int],
    faults: Faults,
) -> Iterator[Anomaly]:
    """Nobody is given messages of a key while somebody else has earlier ones of it."""
    last: dict[tuple[Place, str], deque[tuple[int, Receive]]] = defaultdict(
        lambda: deque(maxlen=_LOOKED_AT)
    )
    for op in receives:
        for place, offset, value, _ in op.messages:
            key = place, key_of(value)
            for before, earlier in last[key]:
                if (
                    earlier.consumer != op.consumer
                    and before < offset
                    and earlier.end < op.start
                    and op.end <= given_up.get((name, place, before), op.end)
                    and op.end < earlier.start + _IN_FLIGHT
                    and not faults.met(earlier.start, op.end)
                ):
                    what = f"{name}: {key[1]} in {place}, {before} and {offset}"
                    yield Anomaly(Kind.KEY_SHARED_OUT, what, (earlier, op))
                    break
            last[key].append((offset, op))


def key_of(value: str) -> str:
    """The key that a message is produced with: one for all that a client writes."""
    return value.partition(".")[0]


def properties_of(value: str) -> dict[str, str]:
    """What a message is produced with beside its value: enough that does not compress for its batch
    to go into the file when its segment is offloaded."""
    return {"filler": hashlib.shake_256(value.encode()).hexdigest(160)}


def value_of(payload: str, properties: Mapping[str, str]) -> str:
    """The value of a message that has come back, with all that it was produced with."""
    assert properties == properties_of(payload)
    return payload
