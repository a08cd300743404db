"""Bugs in the coordinators, the finalizer and recovery."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from engine.buffer import snapshots
from engine.coordinator.answers import Answer
from engine.coordinator.broker_ends import BrokerEnds
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.joining import Joining
from engine.model.errors import InvalidTxnStatus
from engine.model.transaction import EndResult
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction, TxnStatus
from tests.checker.museum.planting import Bug, function, python, query
from tests.engine.support import sql


def _session_keyed(right: Callable[..., Any]) -> Callable[..., Any]:
    """A request to end a transaction that has ended ends one that is open now."""

    def end(self: Coordinator, txn_id: TxnID, action: TxnAction, **more: Any) -> Any:
        if self.get(txn_id).status is not TxnStatus.OPEN:
            newest = (
                "SELECT tc_id, sequence FROM coordinator.transaction WHERE status = 'OPEN' LIMIT 1"
            )
            for tc_id, sequence in sql(self._database, newest):
                right(self, TxnID(tc_id, sequence), action)
        return right(self, txn_id, action, **more)

    return end


def _asks_nobody(_right: Callable[..., Any]) -> Callable[..., Any]:
    """What has joined once is taken to be open for ever."""

    def all_members(self: Joining, txn_id: Any, participants: Any, owner: Any) -> bool:
        return all((txn_id, participant) in self._members for participant in participants)

    return all_members


def _torn(right: Callable[..., Any]) -> Callable[..., Any]:
    """A participant is taken for done that has not been told."""

    def end_partitions(*arguments: Any) -> Any:
        *others, places = arguments
        told, untold = [], []
        for place in places:
            (untold if random.random() < 0.1 else told).append(place)
        ended = right(*others, told)
        taken = [
            Answer.of(participant, command, EndResult(txn_id=command.txn_id))
            for _, members in untold
            for participant, command in members
        ]
        return ended._replace(answers=[*ended.answers, *taken])

    return end_partitions


def _flipped(right: Callable[..., Any]) -> Callable[..., Any]:
    """Now and then a participant is told the opposite."""
    opposite = {TxnAction.COMMIT: TxnAction.ABORT, TxnAction.ABORT: TxnAction.COMMIT}

    def turned(members: Any) -> Any:
        return [
            (participant, dataclasses.replace(command, action=opposite[command.action]))
            for participant, command in members
        ]

    def end_partitions(*arguments: Any) -> Any:
        *others, places = arguments
        places = [
            (place, turned(members) if random.random() < 0.1 else members)
            for place, members in places
        ]
        return right(*others, places)

    return end_partitions


def _stale_snapshot(right: Callable[..., Any]) -> Callable[..., Any]:
    """The position is the log's end, what is ongoing is from before."""

    def state_of(*read: Any) -> Any:
        state = right(*read)
        newest = max(state.ongoing.items(), key=lambda item: item[1].first_offset, default=None)
        kept = {txn: span for txn, span in state.ongoing.items() if newest and txn != newest[0]}
        return dataclasses.replace(state, ongoing=kept)

    return state_of


def _forgiving(right: Callable[..., Any]) -> Callable[..., Any]:
    """The opposite end, refused once, is a success when it is asked for again."""
    refused = set()

    def end(self: Coordinator, txn_id: Any, action: TxnAction, **more: Any) -> Any:
        try:
            return right(self, txn_id, action, **more)
        except InvalidTxnStatus:
            if (txn_id, action) not in refused:
                refused.add((txn_id, action))
                raise
        status = TxnStatus.COMMITTED if action is TxnAction.COMMIT else TxnStatus.ABORTED
        return dataclasses.replace(self.get(txn_id), status=status)

    return end


_EXPIRED = "expires_at < statement_timestamp()"

COORDINATORS = (
    Bug(
        "the end of a session, not of a transaction",
        "KAFKA-17754, Bufstream 0.1.0: a delayed commit ends a later transaction",
        python(lambda _: Coordinator, "end", _session_keyed),
    ),
    Bug(
        "the coordinator is not asked again",
        "an append that starts after the decision joins the transaction",
        python(lambda _: Joining, "_all_members", _asks_nobody),
    ),
    Bug(
        "a decision without compare-and-set",
        "the end race: commit and abort both succeed",
        function(
            "decide",
            ("AND t.status = 'OPEN'", "AND t.status IN ('OPEN', 'COMMITTING', 'ABORTING')"),
            kind="coordinator",
        ),
    ),
    Bug(
        "success after a refusal",
        "the negative outcome is not kept: 409, then 200 for the same request",
        python(lambda _: Coordinator, "end", _forgiving),
    ),
    Bug(
        "expiry of what is committing",
        "the sweep looks at the deadline and not at the status",
        query("expire_txns", (_EXPIRED, f"{_EXPIRED} OR status = 'COMMITTING'")),
    ),
    Bug(
        "expiry comes early",
        "a deadline in other units",
        query("expire_txns", (_EXPIRED, f"{_EXPIRED} + timeout_ms * interval '0.9 ms'")),
    ),
    Bug(
        "an extension that is not kept",
        "success, and the old deadline holds",
        query(
            "extend",
            (
                "deadline = clock_timestamp() + %(timeout_ms)s::bigint * interval '1 millisecond'",
                "deadline = deadline + %(timeout_ms)s::bigint * interval '0 ms'",
            ),
        ),
    ),
    Bug(
        "half a group",
        "a group's decision reaches the first of its transactions",
        query(
            "decide_many",
            (
                "AND (t.status = 'OPEN') IS TRUE",
                "AND (t.status = 'OPEN') IS TRUE AND t.sequence = (%(sequences)s::bigint[])[1]",
            ),
        ),
    ),
    Bug(
        "a participant is taken for done",
        "torn finalization",
        python(lambda _: BrokerEnds, "_end_partitions", _torn),
    ),
    Bug(
        "a participant is told the opposite",
        "the end flips on the way",
        python(lambda _: BrokerEnds, "_end_partitions", _flipped),
    ),
    Bug(
        "low water mark one too high",
        "the lowest open transaction is taken for ended",
        function("low_water_marks", ("    ) - 1\n", "    )\n"), kind="coordinator"),
    ),
    Bug(
        "a snapshot that is older than its position",
        "PIP-178's hazards, apache/pulsar #16042",
        python(lambda _: snapshots, "state_of", _stale_snapshot),
    ),
    Bug(
        "recovery opens too early",
        "apache/pulsar #12386, #14192: the position is the log's end until it is done",
        query("restore_head", ("%(first_ongoing_offset)s,", "NULL,")),
    ),
)
