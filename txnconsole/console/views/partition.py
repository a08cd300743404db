"""A partition's summary: its positions, what holds it back, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.inspect.blockers import Blocker
from engine.inspect.topics import Readers
from engine.model.partition import OngoingTxn, PartitionStatus
from engine.model.topic import Topic
from engine.model.topic_name import PartitionName, TopicName
from engine.model.transaction import Transaction
from engine.model.txn_status import TxnStatus
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.partition_frame import frame
from txnconsole.console.readers import is_held_long, of_partition
from txnconsole.console.reads import region
from txnconsole.console.shapes import position_chart
from txnconsole.enginedb.wiring import engine

#: How many blockers, or transactions in the sidecar's queue, a page lists.
STACK_ROWS = 50
#: How many producers are named.
PRODUCERS = 20
_CHART = timedelta(minutes=15)
#: How many segments are looked at, and how many runs of offloaded ones are named.
MANY, _RUNS = 500, 5

#: A transaction in a sidecar log, with what its coordinator knows of it.
Queued = tuple[OngoingTxn, Transaction | None]


@require_safe
@page(Permission.TOPIC_READ)
def summary(request: ConsoleRequest, topic: TopicName, number: int) -> HttpResponse:
    """Positions, the stack of blockers or the queue of the commit order, and the operations."""
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    context = frame(partition, "partition", status)
    is_sidecar = context["is_sidecar"]
    stack = region(lambda: _stack(status))
    samples = region(lambda: engine().log.history(partition, since=_CHART))
    readers = region(lambda: _readers(context["topic"], status))
    context |= {
        "verdict": of_partition(status, readers.value),
        "channel": f"part:{partition}",
        "stack": stack,
        "blocker": stack.value[0] if stack.value else None,
        "more": len(stack.value or ()) == STACK_ROWS,
        "segments": region(lambda: _segments(partition)),
        "producers": region(lambda: engine().log.producers(partition, PRODUCERS + 1)),
        "most_producers": PRODUCERS,
        "queue": region(lambda: _queue(partition)) if is_sidecar and status.ongoing_txns else None,
        "chart": position_chart(
            samples.value or (),
            last=status.last_offset,
            stable=status.stable_position,
            now=status.now,
            back=_CHART,
        ),
        "many_segments": MANY,
    }
    return show(
        request, "console/partition.html", context, region="console/partials/partition.html"
    )


def _readers(topic: Topic, status: PartitionStatus) -> Readers | None:
    number = status.partition.number
    return (
        engine().inspect.lists.readers(topic, [number]).get(number)
        if is_held_long(status)
        else None
    )


@dataclass(frozen=True, slots=True)
class Segments:
    """How many segments the log has, counted up to :data:`MANY`, and which offsets are in files:
    the newest runs, each with its first and last offset."""

    count: int
    offloaded: int
    runs: tuple[tuple[int, int], ...]


def _segments(partition: PartitionName) -> Segments:
    found = engine().log.segments(partition)
    offloaded = [(one.first_offset, one.last_offset) for one in found if one.offloaded_at]
    runs: list[tuple[int, int]] = []
    for first, last in reversed(offloaded):
        if runs and runs[-1][1] + 1 == first:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return Segments(len(found), len(offloaded), tuple(runs[-_RUNS:]))


def _stack(status: PartitionStatus) -> tuple[Blocker, ...]:
    if status.blocker is None:
        return ()
    return engine().inspect.blockers(status.partition, STACK_ROWS)


def _queue(partition: PartitionName) -> list[Queued]:
    """Transactions whose messages wait in the sidecar log. First those that will commit next, in
    the order of their decisions, then the undecided ones by their first message."""
    waiting = engine().log.ongoing(partition, STACK_ROWS)
    known = engine().coordinator.get_many(one.txn_id for one in waiting)
    queue = [(one, known.get(one.txn_id)) for one in waiting]
    return sorted(queue, key=_turn)


def _turn(queued: Queued) -> tuple[bool, float, int]:
    ongoing, txn = queued
    committing = txn is not None and txn.status is TxnStatus.COMMITTING
    decided = txn.decided_at.timestamp() if txn and committing and txn.decided_at else 0.0
    return not committing, decided, ongoing.first_offset
