"""What operators ask of an engine, compared with what the reference says.

The reference knows nothing of these questions. It looks at every message, or does on a copy of
itself what is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import islice

from engine import Engine
from engine.inspect.impact import PartitionImpact
from engine.inspect.visibility import ReasonCode
from engine.model.hanging import HangingClass
from engine.model.message import Visibility
from engine.model.read_position import ReadPosition
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.model.coordinators import Participant, Txn
from tests.model.looking import same
from tests.model.partitions import COMMITTED, DATA, MarkerPartition
from tests.model.reference import Reference, Topic
from tests.model.sidecars import SidecarPartition
from tests.model.subscriptions import Cursor, Subscription

_ALL = 1000
_CODES = {
    Visibility.VISIBLE: ReasonCode.VISIBLE,
    Visibility.MARKER: ReasonCode.MARKER,
    Visibility.ABORTED: ReasonCode.ABORTED,
    Visibility.OPEN: ReasonCode.OPEN,
    Visibility.BLOCKED: ReasonCode.BLOCKED,
}
#: Judged by the clock, which tells nothing here.
_TIMED = (HangingClass.OVERDUE, HangingClass.LATE, HangingClass.STUCK_FINALIZE)


def compare_questions(engine: Engine, reference: Reference) -> None:
    """Blockers, reasons, the past, committed order, impacts, holdings and what hangs."""
    for topic in reference.topics.values():
        for number, partition in enumerate(topic.partitions):
            name = PartitionName(topic.name, number)
            _compare_blockers(engine, name, partition)
            _compare_reasons(engine, name, partition, topic)
            if not topic.sidecar:
                _compare_past(engine, name, partition)
            if partition.online:
                _compare_committed_order(engine, name, partition, size=1 + number)
    for txn in reference.coordinators.txns.values():
        for action in TxnAction if txn.action is None else (txn.action,):
            _compare_impact(engine, reference, txn, action)
    _compare_holdings(engine, reference)
    _compare_joint_effect(engine, reference)
    _compare_hanging(engine, reference)


def _compare_blockers(engine: Engine, name: PartitionName, partition: MarkerPartition) -> None:
    """Who holds readers back, one page for each, and what the ends of all up to there would free:
    if they commit, all that has not aborted."""
    ongoing = {} if isinstance(partition, SidecarPartition) else partition.ongoing()
    after = [offsets[0] - 1 for offsets in islice(ongoing.values(), 1, None)] + [partition.end - 1]
    expected = [
        (txn_id, offsets[0], len(offsets), position, sum(map(partition.waits, range(position + 1))))
        for (txn_id, offsets), position in zip(ongoing.items(), after, strict=bool(ongoing))
    ]
    told = []
    while page := engine.inspect.blockers(name, limit=1, above=told[-1][1] if told else -1):
        [one] = page
        span, position = one.ongoing, one.stable_position_after
        told.append((span.txn_id, span.first_offset, span.messages, position, one.messages_freed))
    same(told, expected, f"blockers of {name}")


def _compare_reasons(
    engine: Engine, name: PartitionName, partition: MarkerPartition, topic: Topic
) -> None:
    """Why a reader gets each message or not, and whether each subscription may deliver it next."""
    for offset in range(partition.end + 1):
        code = _code(partition, offset)
        real = engine.inspect.explain(name, offset)
        same(
            (real.reasons[0].code, real.readable),
            (code, code is ReasonCode.VISIBLE),
            (name, offset),
        )
        for each, subscription in topic.subscriptions.items():
            asked = SubscriptionName(name.topic, each)
            told = engine.inspect.explain(name, offset, subscription=asked)
            may = _may_deliver(subscription, subscription.cursors[name.number], offset)
            same(told.deliverable, real.readable and may, f"{name} {offset} for {each}: {told}")


def _code(partition: MarkerPartition, offset: int) -> ReasonCode:
    if not partition.online:
        return ReasonCode.OFFLINE
    if offset < partition.start:
        return ReasonCode.BELOW_LOG_START
    if offset not in partition.log:
        return ReasonCode.BEYOND_END
    return _CODES[partition.visibility(offset)]


def _may_deliver(subscription: Subscription, cursor: Cursor, offset: int) -> bool:
    """To whoever comes next: who takes over gets what its predecessor had."""
    cursor = deepcopy(cursor)
    free = subscription.active is None or subscription.lapsed or subscription.turn > cursor.turn
    cursor.take_overdue()
    if subscription.kind.has_one_consumer and free:
        cursor.give_back([*cursor.in_flight])
    return offset in cursor.due() and offset not in cursor.dying(subscription.max_redeliveries)


def _compare_past(engine: Engine, name: PartitionName, partition: MarkerPartition) -> None:
    """Where the positions stood when each batch was the last one."""
    for offset in range(partition.start, partition.end):
        then = deepcopy(partition)
        then.end = partition.log[offset].batch[1] + 1
        then.log = {o: m for o, m in partition.log.items() if o < then.end}
        # Of what retention has dropped since the index alone tells.
        began = {
            row.first: row.txn_id
            for row in partition.index
            if row.first < partition.start and row.last >= then.end
        } | {offsets[0]: txn_id for txn_id, offsets in then.ongoing().items()}
        first = min(began, default=then.end)
        if first >= partition.start or len(began) == 1:
            real = engine.inspect.position_at_offset(name, offset)
            same(
                (real.stable_position, real.last_offset, real.holder),
                (first - 1, then.end - 1, began.get(first)),
                f"{name} at {offset}",
            )


def _compare_committed_order(
    engine: Engine, name: PartitionName, partition: MarkerPartition, *, size: int
) -> None:
    """Transactions whole, at their commit markers, by cursors."""
    log = sorted(partition.log.items())
    expected = [(o, m.text, o) for o, m in log if m.kind is DATA]
    if not isinstance(partition, SidecarPartition):
        at = {o: partition.owner_marker(o) if m.txn_id else o for o, m in log if m.kind is DATA}
        readable = {
            o: marker
            for o, marker in at.items()
            if marker is not None and partition.log[marker].kind in (DATA, COMMITTED)
        }
        order = sorted(readable, key=lambda offset: (readable[offset], offset))
        expected = [(o, partition.log[o].text, readable[o]) for o in order]
    told: list[tuple[int, str, int | None]] = []
    start = ReadPosition(offset=0)
    while start.offset < partition.end:
        real = engine.log.fetch_in_committed_order(name, start, size)
        told += [(each.offset, each.payload.decode(), each.readable_at) for each in real.messages]
        start = ReadPosition.decode(str(real.next_cursor), name)
    same(told, expected, f"committed order of {name} by {size}")


def _compare_impact(engine: Engine, reference: Reference, txn: Txn, action: TxnAction) -> None:
    """What an end would do is what it does to a copy."""
    real = engine.inspect.impact(txn.txn_id, action)
    expected = [
        _impact(PartitionName(topic.name, number), topic.partitions[number], txn, state, action)
        for (topic, number), state in txn.partitions.items()
        if reference.topics.get(topic.name) is topic
    ]
    by_name = sorted(real.partitions, key=lambda each: each.partition)
    expected.sort(key=lambda each: each.partition)
    same(by_name, expected, f"impact of {action} on {txn.txn_id}")
    held: dict[SubscriptionName, int] = {}
    for topic in reference.topics.values():
        for each, subscription in topic.subscriptions.items():
            cursors = subscription.cursors.values()
            mine = sum([*cursor.held.values()].count(txn.txn_id) for cursor in cursors)
            if mine and any(part[0] == (topic, each) for part in txn.subscriptions):
                held[SubscriptionName(topic.name, each)] = mine
    told = {
        each.subscription: (each.acks_final, each.acks_given_back) for each in real.subscriptions
    }
    commits = action is TxnAction.COMMIT
    same(
        {name: both for name, both in told.items() if any(both)},
        {name: (mine, 0) if commits else (0, mine) for name, mine in held.items()},
        f"acknowledgements that {action} of {txn.txn_id} settles",
    )


def _impact(
    name: PartitionName, partition: MarkerPartition, txn: Txn, state: str, action: TxnAction
) -> PartitionImpact:
    ongoing = partition.ongoing()
    mine = ongoing.pop(txn.txn_id, []) if state == "pending" else []
    after = deepcopy(partition)
    if mine:
        after.end_orphans({txn.txn_id: action})
    is_sidecar = isinstance(partition, SidecarPartition)
    return PartitionImpact(
        partition=name,
        first_offset=mine[0] if mine else None,
        last_offset=mine[-1] if mine else None,
        messages=len(mine),
        stable_position=partition.stable,
        stable_position_after=after.stable if is_sidecar else min(after.stable, partition.end - 1),
        messages_visible=len(after.visible()) - len(partition.visible()),
        messages_discarded=len(mine) if action is TxnAction.ABORT else 0,
        next_blocker=None if is_sidecar else next(iter(ongoing), None),
    )


def _compare_holdings(engine: Engine, reference: Reference) -> None:
    """How much each transaction holds back."""
    txns = reference.coordinators.txns
    real = engine.inspect.transactions.holdings(txns)
    same(
        {txn_id: (held.partitions, held.holds_back) for txn_id, held in real.items()},
        {
            txn_id: (
                len(txn.partitions),
                sum(
                    partition.end - 1 - partition.stable
                    for partition in _written(reference, txn)
                    if next(iter(partition.ongoing())) == txn_id
                ),
            )
            for txn_id, txn in txns.items()
        },
        "holdings",
    )


def _written(reference: Reference, txn: Txn) -> Iterator[MarkerPartition]:
    """The partitions in which it has something open, as its coordinator knows."""
    for (topic, number), state in txn.partitions.items():
        stands = reference.topics.get(topic.name) is topic and state == "pending"
        if stands and txn.txn_id in topic.partitions[number].ongoing():
            yield topic.partitions[number]


def _compare_joint_effect(engine: Engine, reference: Reference) -> None:
    """What the ends of every second transaction would do together."""
    txns = [txn for txn in reference.coordinators.txns.values() if not txn.ended][::2]
    real = engine.inspect.transactions.joint_effect(txn.txn_id for txn in txns)
    expected = {}
    for topic in reference.topics.values():
        for number, partition in enumerate(topic.partitions):
            mine = [t for t in txns if any(p is partition for p in _written(reference, t))]
            if mine:
                after = deepcopy(partition)
                after.end_orphans({txn.txn_id: TxnAction.ABORT for txn in mine})
                stable = min(after.stable, partition.end - 1)
                name = PartitionName(topic.name, number)
                expected[name] = (len(mine), partition.stable, stable)
    same(
        {
            each.partition: (each.transactions, each.stable_position, each.stable_position_after)
            for each in real.partitions
        },
        expected,
        f"joint effect of {[str(txn.txn_id) for txn in txns]}",
    )


def _compare_hanging(engine: Engine, reference: Reference) -> None:
    """What participants hold and should not, page by page."""
    told: list[tuple[str, HangingClass, str]] = []
    cursor = None
    while True:
        page = engine.inspect.hanging(limit=3, cursor=cursor)
        told += [
            (str(one.txn_id), one.verdict.kind, str(one.partition or one.subscription))
            for one in page.items
            if one.verdict.kind not in _TIMED
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    expected = [
        (str(txn_id), kind, holder)
        for txn_id, part, holder, fenced in _held(reference)
        if (kind := _verdict(reference, txn_id, part, fenced=fenced)) is not None
    ]
    same(sorted(told), sorted(expected), "what hangs")


def _held(reference: Reference) -> Iterator[tuple[TxnID, Participant, str, bool]]:
    """What participants hold of transactions, and whether they have recorded the end all the
    same."""
    for topic in reference.topics.values():
        for number, partition in enumerate(topic.partitions):
            for txn_id in partition.ongoing():
                passed = txn_id.sequence <= partition.marks.get(txn_id.tc_id, -1)
                holder = str(PartitionName(topic.name, number))
                yield txn_id, (topic, number), holder, passed or txn_id in partition.ended
        for each, subscription in topic.subscriptions.items():
            for broker in dict.fromkeys(topic.brokers):
                for txn_id in {t for c in subscription.on(broker) for t in c.held.values()}:
                    holder = str(SubscriptionName(topic.name, each))
                    fenced = subscription.has_ended(broker, txn_id)
                    yield txn_id, ((topic, each), broker), holder, fenced


def _verdict(
    reference: Reference, txn_id: TxnID, participant: Participant, *, fenced: bool
) -> HangingClass | None:
    """The class of what a participant holds, by the definitions (engine.model.hanging)."""
    txn = reference.coordinators.txns.get(txn_id)
    if txn is None:
        return HangingClass.ORPHAN
    if fenced:
        return HangingClass.STALE
    state = {**txn.partitions, **txn.subscriptions}.get(participant)
    if txn.action is None:
        return HangingClass.UNREGISTERED if state is None else None
    if state == "pending":
        return None
    aborts = txn.action is TxnAction.ABORT
    return HangingClass.MISSED_ABORT if aborts else HangingClass.MISSED_COMMIT
