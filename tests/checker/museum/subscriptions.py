"""Bugs in delivery and acknowledgement."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import random
from typing import Any

from engine.log.entries import AbortedSpans
from engine.log.windows import Window
from engine.model.cursor import Cursor
from engine.model.dispatch import Dispatch
from engine.model.errors import PartitionUnavailable
from engine.model.ranges import NOTHING, Ranges
from engine.postgres.prepared import Prepared
from engine.subscription import ack_decisions, acks, key_selection, state
from engine.subscription.leases import LeaseHolder, Leases
from engine.subscription.state import State
from tests.checker.museum.planting import Bug, function, python, together


def _only_dead(_right: Any) -> Any:
    """What transactions hold is overlooked."""
    return property(lambda self: self.dead)


def _no_conflict(_right: Callable[..., Any]) -> Callable[..., Any]:
    """Every claim succeeds; what somebody else holds is held twice."""

    def claim(
        _cursor: Any,
        pending: Any,
        txn_id: Any,
        wanted: Ranges,
        unsure: Ranges = NOTHING,
        **_others: Any,
    ) -> Ranges:
        own = [run for ack in pending if ack.txn_id == txn_id for run in ack.ranges.runs]
        return wanted - (Ranges.of(own) - unsure)

    return claim


def _blind_to_deleted(right: Callable[..., Any]) -> Callable[..., Any]:
    """What has been acknowledged can be acknowledged again."""

    def claim(
        _cursor: Cursor,
        pending: Any,
        txn_id: Any,
        wanted: Ranges,
        unsure: Ranges = NOTHING,
        **others: Any,
    ) -> Any:
        return right(Cursor(mark_delete=-1), pending, txn_id, wanted, unsure, **others)

    return claim


def _does_nothing(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, _offsets: self


def _held_wins_nothing(right: Callable[..., Any]) -> Callable[..., Any]:
    """A plain acknowledgement deletes what a transaction holds."""

    def acknowledge(ack_type: Any) -> Any:
        def ack(before: State, offsets: Ranges) -> Any:
            return right(ack_type)(before, offsets)._replace(after=before.delete(offsets))

        return ack

    return acknowledge


def _eager(_right: Callable[..., Any]) -> Callable[..., Any]:
    """The mark-delete position jumps to the highest acknowledged message."""

    def delete(self: Cursor, offsets: Ranges) -> Cursor:
        last = offsets.last
        return self if last is None else Cursor(mark_delete=max(self.mark_delete, last))

    return delete


def _only_new(right: Callable[..., Any]) -> Callable[..., Any]:
    """Without a dispatch state, what was in flight is taken for delivered."""

    def made(row: Any) -> State:
        found = right(row)
        if row.state is None and found.stable_position is not None:
            return found.changed(dispatch=Dispatch(found.stable_position + 1))
        return found

    return made


def _whatever_stands(right: Prepared) -> Prepared:
    """The versions are not compared."""
    wrong = copy.copy(right)
    wrong._name = f"engine_whatever_stands_{right.name}".encode()
    for place in (b"WHERE s.version = ", b"AND d.xmin::text::bigint = "):
        assert place in wrong._text, f"{right.name} has changed: this piece must follow"
        wrong._text = wrong._text.replace(place, place.split()[0] + b" 0 <> ")
    return wrong


def _for_ever(right: Callable[..., Any]) -> Callable[..., Any]:
    """A consumer that was the active one once takes itself for it from then on."""
    holders: dict[tuple[Any, str], LeaseHolder] = {}

    def hold(self: Leases, place: Any, consumer: str) -> LeaseHolder | None:
        holder = holders.get((place.name, consumer)) or right(self, place, consumer)
        if holder is not None and holder.epoch:
            holders[place.name, consumer] = holder
        return holder

    return hold


def _unfenced(right: Callable[..., Any]) -> Callable[..., Any]:
    """A partition does not mind that it has seen a later consumer."""

    def enter(self: Leases, place: Any, before: State, holder: LeaseHolder) -> State:
        if holder.epoch < before.dispatch.epoch:
            return before
        return right(self, place, before, holder)

    return enter


def _whoever_weighs_most(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _slots, slot, _outstanding, assigned: assigned[slot]


def _blind_to_rebuilding(right: Callable[..., Any]) -> Callable[..., Any]:
    """A stretch of a partition that has to be rebuilt is taken for an empty one. Clients seldom
    read in that moment: here it often comes just before they do."""

    def read(session: Any, partition_id: int, lower: int, upper: int, **named: Any) -> Window:
        if random() < 0.1:
            session.run("drop_head", partition_id=partition_id)
        try:
            return right(session, partition_id, lower, upper, **named)
        except PartitionUnavailable:
            return Window(lower, upper, (), AbortedSpans(()))

    return read


SUBSCRIPTIONS = (
    Bug(
        "acknowledgement without a conflict",
        "two transactions hold one message",
        python(lambda _: ack_decisions, "claim_individual", _no_conflict),
    ),
    Bug(
        "acknowledgement of what is acknowledged",
        "a transaction takes a message that is gone",
        python(lambda _: ack_decisions, "claim_individual", _blind_to_deleted),
    ),
    Bug(
        "acknowledgements race",
        "what is stored was decided on a state that has changed meanwhile",
        together(
            function("store_cursors", ("IF versions IS DISTINCT FROM", "IF false AND versions <>")),
            function(
                "store_claim",
                ("AND c.xmin::text::bigint = p_cursor_version\n", "\n"),
                ("AND d.xmin::text::bigint = p_dispatch_version\n", "\n"),
            ),
            python(lambda _: state, "STORE_ONE", _whatever_stands),
            python(lambda _: state, "STORE_DISPATCH", _whatever_stands),
        ),
    ),
    Bug(
        "a plain acknowledgement wins",
        "PIP-31 footnote 7: it must be dropped while a transaction holds the message",
        python(lambda _: acks, "acknowledging", _held_wins_nothing),
    ),
    Bug(
        "held messages are given again",
        "a nack or a timeout gives back pending acknowledgements",
        together(
            python(lambda _: State, "held", _only_dead),
            python(lambda _: State, "withdraw", _does_nothing),
        ),
    ),
    Bug(
        "an abort frees what others hold",
        "apache/pulsar #14327, #19451",
        function(
            "step_pending_acks",
            (
                (
                    "AND a.tc_id = p_tcs[i] AND a.sequence = p_sequences[i]\n"
                    "                AND a.ack_type = p_types[i]\n"
                ),
                "\n",
            ),
            ("SET ranges = a.ranges - p_ranges[i]", "SET ranges = '{}'"),
            (
                (
                    "AND a.tc_id = p_tcs[i] AND a.sequence = p_sequences[i]\n"
                    "                    AND a.ack_type = p_types[i];"
                ),
                ";",
            ),
        ),
    ),
    Bug(
        "an abort gives nothing back",
        "messages stay pending for ever, apache/pulsar #26489",
        python(lambda _: State, "give_back", _does_nothing),
    ),
    Bug(
        "a commit makes nothing final",
        "the participant answers before it has acted",
        python(lambda _: State, "delete", _does_nothing),
    ),
    Bug(
        "the mark-delete position is eager",
        "apache/pulsar #10431, #14371: messages below it are lost",
        python(lambda _: Cursor, "delete", _eager),
    ),
    Bug(
        "the queue for redelivery is forgotten",
        "what was given back is never delivered",
        python(lambda _: Dispatch, "give_back", _does_nothing),
    ),
    Bug(
        "no fence for acknowledgements",
        "an acknowledgement joins a transaction that has ended",
        together(
            function(
                "store_cursors",
                ("IF FOUND THEN result := 'ended'; RETURN NEXT; RETURN; END IF;", ""),
            ),
            function(
                "store_claim",
                ("WHERE e.subscription_id", "WHERE false AND e.subscription_id"),
                ("WHERE w.subscription_id", "WHERE false AND w.subscription_id"),
            ),
            function("conclude_ack_ends", ("WHERE a.", "WHERE false AND a.")),
        ),
    ),
    Bug(
        "a deposed consumer goes on",
        "a process believes in a lease that has passed to somebody else, and nobody refuses it",
        together(
            python(lambda _: Leases, "hold", _for_ever),
            python(lambda _: Leases, "enter", _unfenced),
        ),
    ),
    Bug(
        "a key moves while its messages are outstanding",
        "consumers that come and go take a key from one another",
        python(lambda _: key_selection, "owner", _whoever_weighs_most),
    ),
    Bug(
        "after a crash only new messages are delivered",
        "what was in flight is lost",
        python(lambda _: state, "_state", _only_new),
    ),
    Bug(
        "a partition that is being rebuilt is read as an empty one",
        "a receive beside an operator's recover passes over messages, which come to nobody",
        python(lambda _: Window, "read", _blind_to_rebuilding),
    ),
)
