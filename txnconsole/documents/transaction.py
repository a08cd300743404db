"""All that is known of a transaction in one JSON document, to be kept or handed on.

It holds no payloads and no keys of messages. What could not be asked is named, never left out in
silence: ``unavailable`` names brokers, ``cut`` the lists that go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.inspect.lineage import Acknowledged
from engine.inspect.participants import Atomicity, ParticipantAudit
from engine.model.agreement import Says
from engine.model.transaction import (
    PartitionParticipant,
    SubscriptionParticipant,
    Transaction,
    TransactionLogEntry,
)
from engine.model.txn_id import TxnID
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.reading import AuditFilter, newest
from txnconsole.documents.structs import (
    DocumentAcknowledgements,
    DocumentAuditEntry,
    DocumentHeader,
    DocumentPartition,
    DocumentRecord,
    DocumentSubscription,
    DocumentUnlisted,
    TransactionDocument,
)
from txnconsole.enginedb.wiring import engine

#: Audit entries of one document, the newest.
_AUDIT_ROWS = 500


def transaction_document(txn_id: TxnID, *, audit: bool) -> TransactionDocument:
    """Ask everybody, and write it down.

    Args:
        audit: the reader may know what the audit log has of it.
    """
    inspect = engine().inspect
    found = inspect.transaction(txn_id)
    log = engine().coordinator.log(txn_id)
    acknowledged = inspect.transactions.acknowledged(found)
    cut = ["acknowledgements"] if acknowledged.cut else []
    entries = None
    if audit:
        wanted = AuditFilter(object=f"transaction:{txn_id}")
        newest_entries = newest(wanted, below=None, limit=_AUDIT_ROWS)
        entries = newest_entries.entries
        cut += ["audit"] if newest_entries.below is not None else []
    said = inspect.participants(txn_id)
    return _document(found, log, said, acknowledged, audit=entries, cut=cut)


def _document(
    transaction: Transaction,
    log: Sequence[TransactionLogEntry],
    atomicity: Atomicity,
    acknowledged: Acknowledged,
    *,
    audit: Sequence[AuditEntry] | None,
    cut: list[str],
) -> TransactionDocument:
    said = {_name(one): one for one in atomicity.participants}
    away = dict(atomicity.unasked) | {
        one.broker: one.detail or "It did not answer."
        for one in atomicity.participants
        if one.says is Says.UNAVAILABLE
    }
    listed = {_name(one) for one in transaction.partitions}
    listed |= {_name(one) for one in transaction.subscriptions}
    return TransactionDocument(
        format="txnconsole/transaction",
        version=1,
        as_of=transaction.now,
        transaction=_header(transaction),
        log=[_record(each) for each in log],
        agreed=atomicity.agreed,
        partitions=[_partition(each, said.get(_name(each))) for each in transaction.partitions],
        subscriptions=[
            _subscription(each, said.get(_name(each))) for each in transaction.subscriptions
        ],
        not_listed=[
            DocumentUnlisted(participant=name[0], broker=name[1], **_testimony(said[name]))
            for name in sorted(said.keys() - listed)
        ],
        acknowledgements=[
            DocumentAcknowledgements(
                subscription=str(name),
                partition=str(partition),
                messages=len(ranges),
                offsets=[(first, upper - 1) for first, upper in ranges.runs],
            )
            for (name, partition), ranges in sorted(acknowledged.ranges.items())
        ],
        audit=None if audit is None else [_entry(each) for each in audit],
        unavailable={**acknowledged.unavailable, **away},
        cut=cut,
    )


def _header(one: Transaction) -> DocumentHeader:
    return DocumentHeader(
        txn_id=str(one.txn_id),
        status=one.status,
        archived=one.archived,
        owner=one.owner,
        client=one.client,
        properties=dict(one.properties or {}),
        opened_at=one.opened_at,
        timeout_ms=one.timeout_ms,
        deadline=one.deadline,
        decided_at=one.decided_at,
        ended_at=one.ended_at,
        end_reason=one.end_reason,
        end_detail=one.end_detail,
    )


def _record(one: TransactionLogEntry) -> DocumentRecord:
    return DocumentRecord(
        log_id=one.log_id,
        at=one.at,
        operation=one.metadata_op,
        expected_status=one.expected_status,
        new_status=one.new_status,
        partitions=list(one.partitions),
        subscriptions=list(one.subscriptions),
    )


def _partition(one: PartitionParticipant, said: ParticipantAudit | None) -> DocumentPartition:
    return DocumentPartition(
        partition=str(one.partition),
        broker=one.broker,
        recorded=one.state,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        messages=one.messages,
        attempts=one.attempts,
        last_error=one.last_error,
        **_testimony(said),
    )


def _subscription(
    one: SubscriptionParticipant, said: ParticipantAudit | None
) -> DocumentSubscription:
    return DocumentSubscription(
        subscription=str(one.subscription),
        broker=one.broker,
        recorded=one.state,
        acked_messages=one.acked_messages,
        attempts=one.attempts,
        last_error=one.last_error,
        **_testimony(said),
    )


def _testimony(said: ParticipantAudit | None) -> dict[str, Any]:
    """What the participant itself says."""
    if said is None:
        return {"says": None, "marker_offset": None, "discords": []}
    return {
        "says": said.says,
        "marker_offset": said.marker_offset,
        "discords": list(said.discords),
    }


def _entry(one: AuditEntry) -> DocumentAuditEntry:
    return DocumentAuditEntry(
        sequence=one.sequence,
        at=one.at,
        who=one.who,
        action=one.action,
        reason=one.reason,
        result=one.result,
        request_id=one.request_id,
    )


def _name(
    one: PartitionParticipant | SubscriptionParticipant | ParticipantAudit,
) -> tuple[str, str, int]:
    """Who it is: a topic that was made anew has the name of the one before."""
    if isinstance(one, ParticipantAudit):
        return str(one.partition or one.subscription), one.broker, one.topic_id
    if isinstance(one, PartitionParticipant):
        return str(one.partition), one.broker, one.topic_id
    return str(one.subscription), one.broker, one.topic_id
