"""Bugs in partition logs, their buffers and their readers."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from engine.log.fetching import LogReader
from engine.log.statements import FETCH
from engine.model.message import Isolation
from tests.checker.museum.planting import Bug, function, prepared, python, together


def _leak(right: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: LogReader, *arguments: Any, **named: Any) -> Any:
        if random.random() < 0.2:
            named["isolation"] = Isolation.READ_UNCOMMITTED
        return right(self, *arguments, **named)

    return fetch


def _mix_up(right: Callable[..., dict[int, bytes]]) -> Callable[..., dict[int, bytes]]:
    """Batches of one length in each other's places: the reference cannot tell them apart."""

    def group(*arguments: Any) -> dict[int, bytes]:
        held = right(*arguments)
        alike: dict[int, list[int]] = defaultdict(list)
        for offset, body in held.items():
            alike[len(body)].append(offset)
        return {
            offset: held[other]
            for offsets in alike.values()
            for offset, other in zip(offsets, [*offsets[1:], *offsets[:1]], strict=True)
        }

    return group


_FENCE = "stable_position + 1"
#: Where end_txns_on, which ends what is common as end_txn does, writes the index row.
_INDEX, _OUTCOME = (
    "INSERT INTO broker.txn_index",
    "p_sequences[place], p_aborts[place]\n                ",
)

PARTITIONS = (
    Bug(
        "stable position one too high",
        "reading the message that holds it",
        prepared(FETCH, (_FENCE, f"{_FENCE} + 1")),
    ),
    Bug(
        "stable position of the newest transaction",
        "the last instead of the lowest ongoing one",
        function(
            "append",
            (
                "coalesce(head.first_ongoing_offset, first_offset)",
                "first_offset",
            ),
        ),
    ),
    Bug(
        "ongoing transactions ignored",
        "readers up to the end of the log",
        prepared(FETCH, (_FENCE, "next_offset")),
    ),
    Bug(
        "stable position from a lagging replica",
        "Jepsen, RDS multi-AZ 17.4",
        prepared(
            FETCH,
            (
                "coalesce(first_ongoing_offset, next_offset) - 1 AS",
                (
                    "greatest(-1, coalesce(first_ongoing_offset, next_offset)"
                    " - 1 - (random() < 0.1)::integer * 5) AS"
                ),
            ),
        ),
    ),
    Bug(
        "uncommitted reads leak",
        "Redpanda 21.10.1, aborted reads",
        python(lambda _: LogReader, "fetch", _leak),
    ),
    Bug(
        "no duplicate check",
        "a retried produce is stored twice",
        function("append", ("AND head.deduplication", "AND false")),
    ),
    Bug(
        "a duplicate is answered with a new position",
        "the answer of the first request is not kept",
        function(
            "append",
            ("first_offset := known.first_offset;", "first_offset := head.next_offset;"),
        ),
    ),
    Bug(
        "the answer before the commit",
        "NATS #7564 acknowledges before it is durable; an outer transaction that rolls back",
        function(
            "append",
            (
                "head.next_offset := last_offset + 1;",
                """IF p_tcs[i] IS NULL AND random() < 0.1 THEN
                    DELETE FROM broker.entry e WHERE e.partition_id = p_partition
                        AND e.last_offset = append.last_offset;
                ELSE
                    head.next_offset := last_offset + 1;
                END IF;""",
            ),
        ),
    ),
    Bug(
        "no fence on the broker",
        "KAFKA-14402, KAFKA-9144: a late append after the marker",
        function(
            "has_ended",
            ("RETURN EXISTS", "RETURN false AND EXISTS"),
            ("OR EXISTS", "OR false AND EXISTS"),
        ),
    ),
    Bug(
        "a marker is written twice",
        "two workers on one transaction; clients cannot see it",
        function("ended_before", ("IF FOUND THEN RETURN ended; END IF;", "RETURN NULL;")),
    ),
    Bug(
        "no index row for an abort",
        "KAFKA-13727: aborted data becomes committed",
        together(
            function(
                "end_txn",
                (
                    "IF ongoing.partition_id IS NOT NULL THEN\n        -- The stable",
                    "IF ongoing.partition_id IS NOT NULL AND NOT p_abort THEN\n        --",
                ),
            ),
            function(
                "end_txns_on",
                (_INDEX, f"IF NOT p_aborts[place] THEN {_INDEX}"),
                (f"{_OUTCOME});", f"{_OUTCOME}); END IF;"),
            ),
        ),
    ),
    Bug(
        "the list of aborted transactions stops early",
        "AutoMQ #754",
        prepared(FETCH, ("int8range($2, $3, '[)')", "int8range($2 + 2, $3, '[)')")),
    ),
    Bug(
        "index rows go with the sealed segment",
        "KAFKA-13727: cleaning one segment",
        function(
            "roll_segment",
            (
                "head.ledger_id := nextval",
                (
                    "DELETE FROM broker.txn_index i WHERE i.ledger_id = head.ledger_id;\n"
                    "    head.ledger_id := nextval"
                ),
            ),
        ),
    ),
    Bug(
        "the index row has the opposite outcome",
        "a mixed-up abort list, Redpanda PR 7819",
        together(
            function(
                "end_txn",
                (
                    "p_sequence,\n            p_abort\n",
                    "p_sequence,\n            p_abort <> (random() < 0.1)\n",
                ),
            ),
            function(
                "end_txns_on",
                (f"{_OUTCOME});", f"{_OUTCOME.rstrip()} <> (random() < 0.1));"),
            ),
        ),
    ),
    Bug(
        "batches of a file are mixed up",
        "an offloaded segment read at another entry",
        python(lambda engine: engine._brokers.offloaded, "_group", _mix_up),
        operators=("offload",),
    ),
    Bug(
        "a file takes the place of more than it holds",
        "the batch behind an offloaded segment is gone",
        function(
            "offload_segment",
            (
                "segment.last_offset\n        AND length(e.body)",
                "segment.last_offset + 3\n        AND length(e.body)",
            ),
        ),
        operators=("offload",),
    ),
)
