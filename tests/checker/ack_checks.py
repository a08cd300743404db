"""Subscriptions: what was delivered, held, acknowledged and given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.checker.anomalies import Anomaly, Kind
from tests.checker.fates import Fates
from tests.checker.history import FOREVER, Ack, Op, Place, Receive
from tests.checker.log_checks import Logs

Message = tuple[Place, int]


@dataclass(slots=True)
class Track:
    """One message on one subscription.

    Attributes:
        claims: transactional acknowledgements that may have succeeded.
        plain: acknowledgements outside transactions that may have succeeded.
    """

    claims: list[Ack] = field(default_factory=list)
    plain: list[Ack] = field(default_factory=list)
    deliveries: list[Receive] = field(default_factory=list)


@dataclass(slots=True)
class Subscribed:
    """One subscription as the history shows it."""

    tracks: dict[Message, Track] = field(default_factory=lambda: defaultdict(Track))
    refusals: list[Ack] = field(default_factory=list)
    drained: bool = False
    cumulative: bool = False
    #: Up to where cumulative acknowledgements may go, over deliveries that nobody heard of.
    reached: dict[Place, int] = field(default_factory=dict)


def subscriptions_of(ops: Iterable[Op]) -> dict[str, Subscribed]:
    """Read what a history says about subscriptions, in one pass.

    A cumulative acknowledgement counts for every message of the partition that has been delivered
    up to it: whatever was never delivered cannot contradict it.
    """
    found: dict[str, Subscribed] = defaultdict(Subscribed)
    known: dict[tuple[str, Place], set[int]] = defaultdict(set)
    for op in ops:
        match op:
            case Receive():
                subscribed = found[op.subscription]
                subscribed.drained |= op.final
                for place, offset, _, _ in op.messages:
                    subscribed.tracks[place, offset].deliveries.append(op)
                    known[op.subscription, place].add(offset)
            case Ack():
                _take_ack(found[op.subscription], op, known)
    return found


def _take_ack(subscribed: Subscribed, op: Ack, known: dict[tuple[str, Place], set[int]]) -> None:
    if op.answer == "fail":
        subscribed.refusals.append(op)
        return
    dropped = set(op.dropped)
    subscribed.cumulative |= op.cumulative
    for place, offset, _ in op.messages:
        offsets: Iterable[int] = (offset,)
        if op.cumulative:
            subscribed.reached[place] = max(offset, subscribed.reached.get(place, -1))
            offsets = (o for o in known[op.subscription, place] if o <= offset)
        for each in offsets:
            if (place, each) not in dropped:
                track = subscribed.tracks[place, each]
                (track.plain if op.txn is None else track.claims).append(op)


def check_subscriptions(
    subscriptions: dict[str, Subscribed], logs: Logs, fates: Fates
) -> Iterator[Anomaly]:
    """Everything that can be said of subscriptions, given the transactions' fates."""
    for name, subscribed in subscriptions.items():
        for message, track in subscribed.tracks.items():
            what = f"{name}: {message[0]} at {message[1]}"
            yield from _check_claims(what, track, fates)
            yield from _check_deliveries(what, track, fates)
        yield from _check_refusals(subscribed, fates)
        if subscribed.drained:
            yield from _check_drained(name, subscribed, logs, fates)


def _released(ack: Ack, fates: Fates) -> int:
    return fates[ack.txn].released if ack.txn else FOREVER


def _check_claims(what: str, track: Track, fates: Fates) -> Iterator[Anomaly]:
    """At most one transaction holds a message, and none after it has been acknowledged."""
    claims = sorted((op for op in track.claims if op.answer == "ok"), key=lambda op: op.start)
    singles = [op for op in claims if not op.cumulative]
    committed = {op.txn: op for op in singles if fates[op.txn].has_committed}
    if len(committed) > 1:
        yield Anomaly(Kind.DOUBLE_ACK, what, tuple(committed.values()))
        return
    for later in singles:
        for earlier in claims:
            waited = earlier.end < later.start and earlier.txn != later.txn
            if waited and later.end < _released(earlier, fates):
                yield Anomaly(Kind.DOUBLE_ACK, what, (earlier, later))
                return
    yield from _check_plain(what, track, singles, fates)


def _check_plain(what: str, track: Track, claims: list[Ack], fates: Fates) -> Iterator[Anomaly]:
    """Outside transactions: not what one holds; and what is acknowledged so, none can hold."""
    for plain in track.plain:
        if plain.answer != "ok" or plain.cumulative:
            continue
        for claim in claims:
            if plain.end < claim.start:
                yield Anomaly(Kind.DOUBLE_ACK, what, (plain, claim))
                return
            if claim.end < plain.start and plain.end < fates[claim.txn].end_asked:
                yield Anomaly(Kind.HELD_ACKED, what, (claim, plain))
                return


def _check_deliveries(what: str, track: Track, fates: Fates) -> Iterator[Anomaly]:
    """A message is not delivered while it is held, nor once it has been acknowledged."""
    if not track.deliveries or not (track.claims or track.plain):
        yield from _check_final_deliveries(what, track)
        return
    holds = [op for op in (*track.claims, *track.plain) if op.answer == "ok"]
    for delivery in track.deliveries:
        for hold in holds:
            if hold.end < delivery.start and delivery.end < _released(hold, fates):
                lasting = hold.txn is None or fates[hold.txn].has_committed
                kind = Kind.REDELIVERED_ACKED if lasting else Kind.REDELIVERED_HELD
                if hold.cumulative and hold.txn is None and _held_then(track, hold, fates):
                    continue
                yield Anomaly(kind, what, (hold, delivery))
                return
    yield from _check_final_deliveries(what, track)


def _held_then(track: Track, plain: Ack, fates: Fates) -> bool:
    """A plain cumulative acknowledgement leaves alone what a transaction may have held then."""
    return any(
        claim.start < plain.end and plain.start < max(fates[claim.txn].let_go, claim.end)
        for claim in track.claims
    )


def _check_final_deliveries(what: str, track: Track) -> Iterator[Anomaly]:
    """One answer names a message once; the last drain gives nothing back, so it does as well."""
    final = [op for op in track.deliveries if op.final]
    if len(final) > 1:
        yield Anomaly(Kind.DELIVERED_TWICE, what, tuple(final[:2]))
    elif len({op.id for op in track.deliveries}) < len(track.deliveries):
        yield Anomaly(Kind.DELIVERED_TWICE, what, tuple(track.deliveries[:1]))


def _check_refusals(subscribed: Subscribed, fates: Fates) -> Iterator[Anomaly]:
    """A conflict has somebody to conflict with."""
    if subscribed.cumulative:
        return
    for op in subscribed.refusals:
        if op.code != "TransactionConflict" or op.cumulative:
            continue
        others = (
            other
            for place, offset, _ in op.messages
            for track in [subscribed.tracks[place, offset]]
            for other in (*track.plain, *track.claims)
        )
        if not any(other.start < op.end and other.txn != op.txn for other in others) and not any(
            _may_have_met(op, other, fates) for other in subscribed.refusals
        ):
            yield Anomaly(Kind.FALSE_CONFLICT, f"by {op.txn}", (op,))


def _may_have_met(op: Ack, other: Ack, fates: Fates) -> bool:
    """A refused call over several partitions may have held some of it meanwhile, at the latest
    until its transaction's end."""
    if other.txn in (None, op.txn) or len({place for place, _, _ in other.messages}) == 1:
        return False
    shared = {message[:2] for message in op.messages} & {message[:2] for message in other.messages}
    until = max(other.end, fates[other.txn].let_go)
    return bool(shared) and other.start < op.end and op.start < until


def _check_drained(
    name: str, subscribed: Subscribed, logs: Logs, fates: Fates
) -> Iterator[Anomaly]:
    """After the last drain, what nobody may have acknowledged for good has been delivered."""
    topic = name.partition("|")[0]
    for place, log in logs.logs.items():
        if log.final is None or place.rpartition(":")[0] != topic:
            continue
        for offset, (value, _) in log.visible.items():
            track = subscribed.tracks[place, offset]
            if any(op.final for op in track.deliveries):
                continue
            if track.plain or any(
                not fates[op.txn].has_aborted or fates[op.txn].has_committed for op in track.claims
            ):
                continue
            what = f"{name}: {value} at {offset} of {place}"
            if track.claims:
                yield Anomaly(Kind.LOST_ABORTED_ACK, what, (track.claims[0],))
            elif offset > subscribed.reached.get(place, -1):
                yield Anomaly(Kind.LOST_MESSAGE, what, tuple(track.deliveries[-1:]))
