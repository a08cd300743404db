"""Conflicts on a subscription as a drawing: who holds which messages, and who was refused them.

It has three columns: the refused transactions, the messages, and the transactions that hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.model.subscription import PendingAck
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from txnconsole.refusals.models import Refusal
from txnconsole.refusals.recording import newest

#: How many holdings, and how many refusals, the drawing shows; the tables have the rest.
_MOST = 12
#: How many refusals are read.
_LISTED = 50
_ROW = 32
#: The right edge of the first column, the edges of the second, the left edge of the third.
_LEFT, _FROM, _TO, _RIGHT = 170, 330, 560, 720


@dataclass(frozen=True, slots=True)
class Node:
    """A box of the drawing; ``txn_id`` is set when it is a transaction."""

    y: int
    text: str
    txn_id: TxnID | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from one column to the next; ``refused`` when it stands for a refusal."""

    x1: int
    y1: int
    x2: int
    y2: int
    refused: bool


@dataclass(slots=True)
class ConflictGraph:
    """The drawing, and the refusals that are listed beside it."""

    refused: list[Node] = field(default_factory=list)
    messages: list[Node] = field(default_factory=list)
    holders: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    refusals: Sequence[Refusal] = ()

    @property
    def height(self) -> int:
        return _ROW * max(len(self.refused), len(self.messages), len(self.holders), 1)


def conflict_graph(name: SubscriptionName, held: Iterable[tuple[int, PendingAck]]) -> ConflictGraph:
    """Read a subscription's refusals and draw them beside what is held now."""
    return drawn(list(held), newest(name, _LISTED))


def drawn(held: Sequence[tuple[int, PendingAck]], refusals: Sequence[Refusal]) -> ConflictGraph:
    """Put holdings and refusals into three columns."""
    graph = ConflictGraph(refusals=refusals)
    boxes: list[tuple[int, PendingAck, Node]] = []
    for partition, ack in held[:_MOST]:
        holder = _node(graph.holders, str(ack.txn_id), ack.txn_id)
        box = _node(graph.messages, f"{partition}: {_named(ack)}")
        boxes.append((partition, ack, box))
        graph.edges.append(_edge(box, holder, _TO, _RIGHT))
    for refusal in refusals[:_MOST]:
        box = _box(graph, boxes, refusal)
        refused = _node(graph.refused, refusal.refused, TxnID.parse(refusal.refused))
        graph.edges.append(_edge(refused, box, _LEFT, _FROM, refused=True))
    return graph


def _box(
    graph: ConflictGraph, boxes: Sequence[tuple[int, PendingAck, Node]], refusal: Refusal
) -> Node:
    """The box of the messages that a refusal was about: of those still held, or a new one."""
    for partition, ack, box in boxes:
        if (
            partition == refusal.partition
            and str(ack.txn_id) == refusal.holder
            and refusal.first_offset in ack.ranges
        ):
            return box
    box = _node(graph.messages, f"{refusal.partition}: {refusal.first_offset:,}, let go")
    if refusal.holder:
        holder = _node(graph.holders, refusal.holder, TxnID.parse(refusal.holder))
    else:
        holder = _node(graph.holders, "acknowledged already")
    edge = _edge(box, holder, _TO, _RIGHT, refused=True)
    if edge not in graph.edges:
        graph.edges.append(edge)
    return box


def _node(column: list[Node], text: str, txn_id: TxnID | None = None) -> Node:
    """The column's box of that text; a new one below the others when there is none."""
    for node in column:
        if node.text == text:
            return node
    column.append(Node(len(column) * _ROW + _ROW // 2, text, txn_id))
    return column[-1]


def _edge(start: Node, end: Node, x1: int, x2: int, *, refused: bool = False) -> Edge:
    return Edge(x1, start.y, x2, end.y, refused)


def _named(ack: PendingAck) -> str:
    lower, upper = ack.ranges.runs[0]
    text = f"{lower:,}" if upper == lower + 1 else f"{lower:,} to {upper - 1:,}"
    more = len(ack.ranges.runs) - 1
    return f"{text}, {more} more" if more else text
