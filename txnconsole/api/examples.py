"""Examples of bodies and answers for the contract. Tests decode every one of them, and compare the
answers with those of a server (tests/api/test_answers.py, which also records them)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

ANSWERS_FILE = Path(__file__).with_name("answers.json")
#: Examples of JSON answers, by the operation's name.
ANSWERS: Mapping[str, Any] = msgspec.json.decode(ANSWERS_FILE.read_bytes(), type=dict[str, Any])

_REASON = "INC-2041: the importer is gone"
_MESSAGE_IDS = ["0:17:0:0", "0:17:0:1"]
_SUBSCRIPTION = {"topic": "public/default/flights", "subscription": "delays"}

#: Examples of JSON bodies, by the operation's name.
BODIES: Mapping[str, Mapping[str, object]] = {
    "openTransaction": {"timeout_ms": 60_000, "client": "billing-7"},
    "addPartitions": {"partitions": ["public/default/flights:0"]},
    "addSubscriptions": {"subscriptions": [_SUBSCRIPTION]},
    "commitTransaction": {"wait_ms": 1000},
    "abortTransaction": {"reason": _REASON, "wait_ms": 0},
    "extendTransaction": {"timeout_ms": 120_000},
    "retryTransaction": {"reason": "broker-2 is back"},
    "endGroup": {"group": "sink/17", "guard": "run-4", "commit": ["1:4"], "abort": ["1:5"]},
    "bulkAbort": {
        "filter": {"status": ["OPEN"], "owner": "importer", "min_age_ms": 300_000},
        "reason": _REASON,
        "expected_count": 12,
    },
    "putTopic": {"partitions": 3, "buffer": "marker", "retention_ms": 604_800_000},
    "produceMessages": {
        "txn_id": "3:42",
        "producer_name": "importer-1",
        "sequence_id": 17,
        "messages": [{"key": "LX40", "payload": "delayed", "properties": {"source": "tower"}}],
    },
    "takePartitionOffline": {"reason": "broker-2 moves to another host"},
    "bringPartitionOnline": {"reason": "broker-2 has moved"},
    "snapshotPartition": {"reason": "before the upgrade"},
    "recoverPartition": {"reason": "INC-2041: rebuild from the log"},
    "truncatePartition": {"offset": 12_000, "reason": "GDPR-77: older than agreed"},
    "forceAbort": {"txn_id": "3:42", "reason": _REASON},
    "forceAbortAcknowledgements": {"txn_id": "3:42", "reason": _REASON},
    "putSubscription": {"type": "SHARED", "initial_position": "earliest", "ack_timeout_ms": 30_000},
    "receiveMessages": {"consumer": "delays-1", "max_messages": 100, "wait_ms": 1000},
    "acknowledgeMessages": {
        "consumer": "delays-1",
        "txn_id": "3:42",
        "ack_type": "INDIVIDUAL",
        "message_ids": _MESSAGE_IDS,
    },
    "giveBackMessages": {"consumer": "delays-1", "message_ids": _MESSAGE_IDS},
    "leaveSubscription": {"consumer": "delays-1"},
    "seekSubscription": {"earliest": True, "reason": "read everything again"},
    "scaleCoordinators": {"count": 8, "reason": "more programs"},
    "createToken": {"user": "importer", "roles": ["producer"], "topics": ["public/default/*"]},
    "putUser": {"roles": ["operator"], "active": True},
    "createMaskingRule": {
        "topics": "public/default/*",
        "part": "field",
        "name": "**.iban",
        "effect": "tail",
    },
    "cancelJob": {"reason": "wrong filter"},
    "startPipelineRun": {"kind": "audit", "reason": "monthly proof"},
    "repeatPipelineRun": {"reason": "the disk was full"},
    "cancelPipelineRun": {"reason": "started twice"},
    "createAlertRule": {"name": "Held back", "kind": "held_back", "threshold": 60_000},
    "putAlertRule": {"name": "Held back", "kind": "held_back", "threshold": 120_000},
    "createAlertChannel": {
        "name": "On call",
        "kind": "webhook",
        "url": "https://hooks.example.com/on-call",
    },
    "putAlertChannel": {"name": "On call", "kind": "email", "recipients": ["ops@example.com"]},
    "createAlertSilence": {"duration_ms": 3_600_000, "reason": "broker-2 moves"},
    "acknowledgeAlert": {"note": "on it"},
}
