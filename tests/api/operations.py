"""A good request of each operation, who may make it, and a world in which it succeeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now

from engine import Engine
from engine.model.message import MessageID, NewMessage
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.api.conftest import MESSAGES, TOPIC, Answer, Caller
from txnconsole.access.models import MaskingRule, Token
from txnconsole.access.roles import Role
from txnconsole.alerts.models import Alert, Channel, Message, Rule, Silence
from txnconsole.jobs.models import Job
from txnconsole.runs.models import PipelineRun

V, P, C = Role.VIEWER, Role.PRODUCER, Role.CONSUMER
OP, A = Role.OPERATOR, Role.ADMIN
EVERYBODY = {V, P, C, OP, A}
PEOPLE = {V, OP, A}
PROGRAMS = {P, C, A}

ALLOWED: dict[str, set[Role]] = {
    "listTransactions": EVERYBODY,
    "openTransaction": PROGRAMS,
    "getTransaction": EVERYBODY,
    "getTransactionLog": EVERYBODY,
    "getTransactionOutcome": EVERYBODY,
    "getTransactionImpact": EVERYBODY,
    "getTransactionDocument": EVERYBODY,
    "addPartitions": PROGRAMS,
    "addSubscriptions": PROGRAMS,
    "commitTransaction": PROGRAMS,
    "abortTransaction": {P, C, OP, A},
    "extendTransaction": PROGRAMS,
    "endGroup": PROGRAMS,
    "listSlowTransactions": PEOPLE,
    "listHangingTransactions": PEOPLE,
    "listHeldBackPartitions": PEOPLE,
    "getTransactionParticipants": EVERYBODY,
    "retryTransaction": {OP, A},
    "getPositionHistory": EVERYBODY,
    "explainMessage": EVERYBODY,
    "rehearseRecovery": EVERYBODY,
    "checkPartition": PEOPLE,
    "listInvariants": PEOPLE,
    "forceAbortAcknowledgements": {OP, A},
    "listTopics": EVERYBODY,
    "getTopic": EVERYBODY,
    "putTopic": {A},
    "deleteTopic": {A},
    "listPartitions": EVERYBODY,
    "getPartition": EVERYBODY,
    "produceMessages": {P, A},
    "fetchMessages": {V, C, OP, A},
    "getAbortedIndex": EVERYBODY,
    "getBlockers": EVERYBODY,
    "snapshotPartition": {OP, A},
    "recoverPartition": {OP, A},
    "forceAbort": {OP, A},
    "takePartitionOffline": {OP, A},
    "truncatePartition": {OP, A},
    "bringPartitionOnline": {OP, A},
    "listSubscriptions": EVERYBODY,
    "getSubscription": EVERYBODY,
    "putSubscription": {C, A},
    "deleteSubscription": {A},
    "receiveMessages": {C, A},
    "acknowledgeMessages": {C, A},
    "giveBackMessages": {C, A},
    "seekSubscription": {C, OP, A},
    "leaveSubscription": {C, A},
    "listCoordinators": PEOPLE,
    "getCoordinator": PEOPLE,
    "scaleCoordinators": {A},
    "listAudit": {OP, A},
    "exportAudit": {OP, A},
    "verifyAudit": {OP, A},
    "getMe": EVERYBODY,
    "listTokens": {A},
    "createToken": {A},
    "getToken": {A},
    "revokeToken": {A},
    "listUsers": {A},
    "getUser": {A},
    "putUser": {A},
    "listGroups": {A},
    "listMaskingRules": PEOPLE,
    "createMaskingRule": {A},
    "deleteMaskingRule": {A},
    "countBulkAbort": {OP, A},
    "bulkAbort": {OP, A},
    "listJobs": PEOPLE,
    "getJob": PEOPLE,
    "listJobItems": PEOPLE,
    "cancelJob": {OP, A},
    "listPipelineJobs": PEOPLE,
    "listPipelineRuns": PEOPLE,
    "startPipelineRun": {OP, A},
    "getPipelineRun": PEOPLE,
    "repeatPipelineRun": {OP, A},
    "cancelPipelineRun": {OP, A},
    "listAlerts": PEOPLE,
    "getAlert": PEOPLE,
    "acknowledgeAlert": {OP, A},
    "listAlertRules": PEOPLE,
    "getAlertRule": PEOPLE,
    "createAlertRule": {A},
    "putAlertRule": {A},
    "deleteAlertRule": {A},
    "listAlertSilences": PEOPLE,
    "createAlertSilence": {OP, A},
    "endAlertSilence": {OP, A},
    "listAlertChannels": {A},
    "createAlertChannel": {A},
    "getAlertChannel": {A},
    "putAlertChannel": {A},
    "renewAlertChannelSecret": {A},
    "testAlertChannel": {A},
    "listAlertMessages": {A},
    "resendAlertMessage": {A},
    "deleteAlertChannel": {A},
}

_T = f"/topics/{TOPIC}"
_S = f"{_T}/subscriptions/s"
_P1 = f"{_T}/partitions/1"
#: Of partition 1, and known to no coordinator.
_ORPHAN = TxnID(0, 4711)
#: Committed by an administrator, and not carried out.
_DECIDED = TxnID(3, 0)
_JOB = 4711
#: An alert that fires, its rule, a silence, a channel and a dead message of it.
_ROW = 4711
_RULE = {"name": "held", "kind": "held_back", "threshold": 1}
_CHANNEL = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
_WHY = {"reason": "why"}
_MESSAGE_IDS = {"consumer": "c", "message_ids": ["1:0:0:0"]}

#: A good request of each operation; ``{own}`` is an open transaction of the caller.
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "listTransactions": ("GET", "/transactions", None),
    "openTransaction": ("POST", "/transactions", {}),
    "getTransaction": ("GET", "/transactions/{own}", None),
    "getTransactionLog": ("GET", "/transactions/{own}/log", None),
    "getTransactionOutcome": ("GET", "/transactions/{own}/outcome", None),
    "getTransactionImpact": ("GET", "/transactions/{own}/impact", None),
    "getTransactionDocument": ("GET", "/transactions/{own}/document", None),
    "addPartitions": ("POST", "/transactions/{own}/partitions", {"partitions": [f"{TOPIC}:0"]}),
    "addSubscriptions": (
        "POST",
        "/transactions/{own}/subscriptions",
        {"subscriptions": [{"topic": TOPIC, "subscription": "s"}]},
    ),
    "commitTransaction": ("POST", "/transactions/{own}/commit", {}),
    "abortTransaction": ("POST", "/transactions/{own}/abort", {"reason": "why"}),
    "extendTransaction": ("POST", "/transactions/{own}/extend", {"timeout_ms": 1000}),
    "endGroup": (
        "POST",
        "/transactions/end-group",
        {"group": "{own}", "guard": "g", "commit": ["{own}"]},
    ),
    "listSlowTransactions": ("GET", "/slow-transactions", None),
    "listHangingTransactions": ("GET", "/hanging-transactions", None),
    "listHeldBackPartitions": ("GET", "/held-back-partitions", None),
    "getTransactionParticipants": ("GET", "/transactions/{own}/participants", None),
    "retryTransaction": ("POST", f"/transactions/{_DECIDED}/retry", {}),
    "getPositionHistory": ("GET", f"{_T}/partitions/0/history", None),
    "explainMessage": ("GET", f"{_T}/partitions/0/explain?offset=0", None),
    "rehearseRecovery": ("GET", f"{_T}/partitions/0/rehearsal", None),
    "checkPartition": ("GET", f"{_T}/partitions/0/invariants", None),
    "listInvariants": ("GET", "/invariants", None),
    "forceAbortAcknowledgements": ("POST", f"{_S}/force-abort", {"txn_id": str(_ORPHAN)} | _WHY),
    "listTopics": ("GET", "/topics", None),
    "getTopic": ("GET", _T, None),
    "putTopic": ("PUT", _T, {"partitions": 2}),
    "deleteTopic": ("DELETE", "/topics/public/default/spare", None),
    "listPartitions": ("GET", f"{_T}/partitions", None),
    "getPartition": ("GET", f"{_T}/partitions/0", None),
    "produceMessages": ("POST", MESSAGES, {"messages": [{"payload": "x"}]}),
    "fetchMessages": ("GET", MESSAGES, None),
    "getAbortedIndex": ("GET", f"{_T}/partitions/0/aborted-index", None),
    "getBlockers": ("GET", f"{_T}/partitions/0/blockers", None),
    "snapshotPartition": ("POST", f"{_P1}/snapshot", {}),
    "recoverPartition": ("POST", f"{_P1}/recover", _WHY),
    "forceAbort": ("POST", f"{_P1}/force-abort", {"txn_id": str(_ORPHAN)} | _WHY),
    "takePartitionOffline": ("POST", f"{_P1}/offline", _WHY),
    "truncatePartition": ("POST", f"{_P1}/truncate", {"offset": 0} | _WHY),
    "bringPartitionOnline": ("POST", f"{_P1}/online", _WHY),
    "listSubscriptions": ("GET", f"{_T}/subscriptions", None),
    "getSubscription": ("GET", _S, None),
    "putSubscription": ("PUT", _S, {}),
    "deleteSubscription": ("DELETE", f"{_T}/subscriptions/spare", None),
    "leaveSubscription": ("POST", f"{_S}/leave", {"consumer": "c"}),
    "receiveMessages": ("POST", f"{_S}/receive", {"consumer": "c"}),
    "acknowledgeMessages": ("POST", f"{_S}/ack", _MESSAGE_IDS),
    "giveBackMessages": ("POST", f"{_S}/nack", _MESSAGE_IDS),
    "seekSubscription": ("POST", f"{_T}/subscriptions/sought/seek", {"earliest": True}),
    "listCoordinators": ("GET", "/coordinators", None),
    "getCoordinator": ("GET", "/coordinators/1", None),
    "scaleCoordinators": ("POST", "/coordinators/scale", {"count": 4}),
    "listAudit": ("GET", "/audit", None),
    "exportAudit": ("GET", "/audit/export", None),
    "verifyAudit": ("GET", "/audit/verify", None),
    "getMe": ("GET", "/me", None),
    "listTokens": ("GET", "/tokens", None),
    "createToken": ("POST", "/tokens", {"user": "spare", "roles": ["viewer"]}),
    "getToken": ("GET", "/tokens/{spare_token}", None),
    "revokeToken": ("DELETE", "/tokens/{spare_token}", None),
    "listUsers": ("GET", "/users", None),
    "getUser": ("GET", "/users/spare", None),
    "putUser": ("PUT", "/users/spare", {"roles": ["viewer"]}),
    "listGroups": ("GET", "/groups", None),
    "listMaskingRules": ("GET", "/masking-rules", None),
    "createMaskingRule": (
        "POST",
        "/masking-rules",
        {"topics": "public/*", "part": "key", "effect": "replace"},
    ),
    "deleteMaskingRule": ("DELETE", f"/masking-rules/{_ROW}", None),
    "countBulkAbort": ("GET", "/transactions/bulk-abort?owner=nobody", None),
    "bulkAbort": (
        "POST",
        "/transactions/bulk-abort",
        {"filter": {"owner": "nobody"}, "expected_count": 0} | _WHY,
    ),
    "listJobs": ("GET", "/jobs", None),
    "getJob": ("GET", f"/jobs/{_JOB}", None),
    "listJobItems": ("GET", f"/jobs/{_JOB}/items", None),
    "cancelJob": ("POST", f"/jobs/{_JOB}/cancel", {}),
    "listPipelineJobs": ("GET", "/pipeline/jobs", None),
    "listPipelineRuns": ("GET", "/pipeline/runs", None),
    "startPipelineRun": ("POST", "/pipeline/runs", {"kind": "audit"}),
    "getPipelineRun": ("GET", f"/pipeline/runs/{_JOB}", None),
    "repeatPipelineRun": ("POST", f"/pipeline/runs/{_JOB}/repeat", {}),
    "cancelPipelineRun": ("POST", f"/pipeline/runs/{_JOB + 1}/cancel", {}),
    "listAlerts": ("GET", "/alerts", None),
    "getAlert": ("GET", f"/alerts/{_ROW}", None),
    "acknowledgeAlert": ("POST", f"/alerts/{_ROW}/acknowledge", {}),
    "listAlertRules": ("GET", "/alerts/rules", None),
    "getAlertRule": ("GET", f"/alerts/rules/{_ROW}", None),
    "createAlertRule": ("POST", "/alerts/rules", _RULE | {"name": "another"}),
    "putAlertRule": ("PUT", f"/alerts/rules/{_ROW}", _RULE),
    "deleteAlertRule": ("DELETE", f"/alerts/rules/{_ROW}", None),
    "listAlertSilences": ("GET", "/alerts/silences", None),
    "createAlertSilence": ("POST", "/alerts/silences", {"duration_ms": 60_000} | _WHY),
    "endAlertSilence": ("DELETE", f"/alerts/silences/{_ROW}", None),
    "listAlertChannels": ("GET", "/alerts/channels", None),
    "createAlertChannel": ("POST", "/alerts/channels", _CHANNEL | {"name": "another"}),
    "getAlertChannel": ("GET", f"/alerts/channels/{_ROW + 1}", None),
    "putAlertChannel": ("PUT", f"/alerts/channels/{_ROW + 1}", _CHANNEL),
    "renewAlertChannelSecret": ("POST", f"/alerts/channels/{_ROW}/secret", {}),
    "testAlertChannel": ("POST", f"/alerts/channels/{_ROW + 1}/test", {}),
    "listAlertMessages": ("GET", f"/alerts/channels/{_ROW}/messages", None),
    "resendAlertMessage": ("POST", f"/alerts/channels/{_ROW}/messages/{_ROW}/resend", {}),
    "deleteAlertChannel": ("DELETE", f"/alerts/channels/{_ROW}", None),
}


@pytest.fixture
def world(engine: Engine, topic: str, as_role: Callable[..., Caller]) -> Caller:
    """Topics, a subscription, a message, orphans, a decision; returns an administrator."""
    admin = as_role("admin", user="root")
    for path in (f"{_T}", "/topics/public/default/spare"):
        assert admin.put(path, {"partitions": 2}).status in (200, 201)
    for name in ("s", "spare", "sought"):
        assert admin.put(f"{_T}/subscriptions/{name}").status == 201
    first = MessageID.parse(admin.produce("first")["first_message_id"])
    orphaned = PartitionName(TopicName.parse(TOPIC), 1)
    engine.log.append(orphaned, [NewMessage(payload=b"orphan")], txn_id=_ORPHAN)
    as_role("viewer", user="spare")
    held = SubscriptionName(orphaned.topic, "s")
    engine._acks.acknowledge(held, "c", [first], txn_id=_ORPHAN)
    decided = engine.coordinator.open(owner="root", tc_id=_DECIDED.tc_id).txn_id
    assert engine.coordinator.end(decided, TxnAction.COMMIT).txn_id == _DECIDED
    _alerts()
    Job.objects.create(pk=_JOB, kind="bulk_abort", who="root", parameters={}, total=0)
    for number, state in ((_JOB, "failed"), (_JOB + 1, "queued")):
        PipelineRun.objects.create(
            pk=number, kind="audit", parameters={}, who="r", state=state, origin="api"
        )
    return admin


def _alerts() -> None:
    rule = Rule.objects.create(pk=_ROW, **_RULE, severity="info")
    Alert.objects.create(
        pk=_ROW,
        rule=rule,
        rule_name=rule.name,
        kind=rule.kind,
        severity="info",
        threshold=1,
        object="partition:public/default/flights:0",
        state="firing",
        value=2,
        peak=2,
        pending_since=Now(),
        measured_at=Now(),
    )
    Silence.objects.create(pk=_ROW, until=Now(), reason="why", created_by="root")
    hook = Channel.objects.create(pk=_ROW, name="hook", kind="webhook", url="https://h.example/")
    Channel.objects.create(pk=_ROW + 1, **_CHANNEL)
    MaskingRule.objects.create(
        pk=_ROW, topics="public/*", part="field", name="**.iban", effect="tail", created_by="root"
    )
    Message.objects.create(pk=_ROW, channel=hook, content={"subject": "s"}, state="dead")


def request(caller: Caller, name: str, own: str) -> int:
    return request_of(caller, name, own).status


def request_of(caller: Caller, name: str, own: str, query: str = "") -> Answer:
    """Make an operation's good request."""
    method, path, body = REQUESTS[name]
    return caller.send(
        method,
        path.replace("{own}", own).replace("{spare_token}", _spare_token()) + query,
        b"" if body is None else _with_own(body, own),
    )


def _spare_token() -> str:
    newest = Token.objects.filter(user__username="spare").first()
    return "1" if newest is None else str(newest.pk)


def _with_own(body: Any, own: str) -> bytes:
    return json.dumps(body).replace("{own}", own).encode()
