"""Bugs in delivery and acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.model.cursor import Cursor
from engine.model.ranges import Ranges
from engine.subscription import acks, ending, reading, state
from tests.checker.museum.planting import Bug, python, query, together


def _nobody_holds(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _pending: Ranges()


def _no_conflict(_right: Callable[..., Any]) -> Callable[..., Any]:
    """Every claim succeeds; what somebody else holds is held twice."""

    def claim(_cursor: Any, pending: Any, txn_id: Any, wanted: Ranges) -> Ranges:
        own = [run for ack in pending if ack.txn_id == txn_id for run in ack.ranges.runs]
        return wanted - Ranges.of(own)

    return claim


def _blind_to_deleted(right: Callable[..., Any]) -> Callable[..., Any]:
    """What has been acknowledged can be acknowledged again."""

    def claim(_cursor: Cursor, pending: Any, txn_id: Any, wanted: Ranges) -> Any:
        return right(Cursor(mark_delete=-1), pending, txn_id, wanted)

    return claim


def _keeps_what_aborted(right: Callable[..., Any]) -> Callable[..., Any]:
    del right

    def give_back(_session: Any, locked: Any, _offsets: Ranges) -> Any:
        return locked

    return give_back


def _commits_nothing(right: Callable[..., Any]) -> Callable[..., Any]:
    del right

    def delete(_session: Any, locked: Any, _offsets: Ranges) -> Any:
        return locked

    return delete


def _eager(_right: Callable[..., Any]) -> Callable[..., Any]:
    """The mark-delete position jumps to the highest acknowledged message."""

    def delete(self: Cursor, offsets: Ranges) -> Cursor:
        last = offsets.last
        return self if last is None else Cursor(mark_delete=max(self.mark_delete, last))

    return delete


class _Ending:
    """``engine.subscription.state`` as the ending of transactions sees it, with one fault."""

    def __init__(self, **wrong: Any) -> None:
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        return self._wrong.get(name) or getattr(state, name)


SUBSCRIPTIONS = (
    Bug(
        "acknowledgement without a conflict",
        "two transactions hold one message",
        python(lambda _: acks, "claim_individual", _no_conflict),
    ),
    Bug(
        "acknowledgement of what is acknowledged",
        "a transaction takes a message that is gone",
        python(lambda _: acks, "claim_individual", _blind_to_deleted),
    ),
    Bug(
        "acknowledgements race",
        "the cursor is read without its lock",
        together(
            query("lock_cursor", ("FOR UPDATE OF c", "")),
            query("pending_acks", ("SELECT tc_id", "SELECT pg_sleep(0.003)::text, tc_id")),
        ),
    ),
    Bug(
        "a plain acknowledgement wins",
        "PIP-31 footnote 7: it must be dropped while a transaction holds the message",
        python(lambda _: acks, "held", _nobody_holds),
    ),
    Bug(
        "held messages are given again",
        "a nack gives back pending acknowledgements",
        together(
            python(lambda _: reading, "held", _nobody_holds),
            python(lambda _: state, "held", _nobody_holds),
            query("shrink_deliveries", ("%(ranges)s::int8multirange", "'{}'::int8multirange")),
        ),
    ),
    Bug(
        "an abort frees what others hold",
        "apache/pulsar #14327, #19451",
        query(
            "drop_pending_acks",
            (
                (
                    "AND (tc_id, sequence) IN (\n    SELECT * FROM"
                    " unnest(%(tc_ids)s::integer[], %(sequences)s::bigint[])\n)"
                ),
                "AND %(tc_ids)s::integer[] IS NOT NULL AND %(sequences)s::bigint[] IS NOT NULL",
            ),
        ),
    ),
    Bug(
        "an abort gives nothing back",
        "messages stay pending for ever, apache/pulsar #26489",
        python(lambda _: ending, "state", lambda _: _Ending(give_back=_keeps_what_aborted(None))),
    ),
    Bug(
        "a commit makes nothing final",
        "the participant answers before it has acted",
        python(lambda _: ending, "state", lambda _: _Ending(delete=_commits_nothing(None))),
    ),
    Bug(
        "the mark-delete position is eager",
        "apache/pulsar #10431, #14371: messages below it are lost",
        python(lambda _: Cursor, "delete", _eager),
    ),
    Bug(
        "the queue for redelivery is forgotten",
        "what was given back is never delivered",
        query(
            "write_dispatch",
            ("%(redeliver)s::int8multirange", "'{}'::int8multirange"),
        ),
    ),
    Bug(
        "no fence for acknowledgements",
        "an acknowledgement joins a transaction that has ended",
        together(
            query("ack_fence", ("EXISTS (", "false AND EXISTS (")),
            query("pending_orphans", ("WHERE a.", "WHERE false AND a.")),
        ),
    ),
    Bug(
        "after a crash only new messages are delivered",
        "what was in flight is lost",
        query(
            "read_dispatch",
            (
                "SELECT read_offset, redeliver FROM broker.dispatch",
                (
                    "SELECT greatest(read_offset, (SELECT next_offset FROM broker.partition_live l"
                    " WHERE l.partition_id = %(partition_id)s)) AS read_offset, redeliver FROM"
                    " broker.dispatch"
                ),
            ),
        ),
    ),
)
