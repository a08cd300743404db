"""The form of a transaction's document, which one server writes and another reads.

It may be a stranger's: every field has a type and a bound.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec

from engine.model.agreement import Discord, Says
from engine.model.transaction import MetadataOp, ParticipantState
from engine.model.txn_status import EndReason, TxnStatus

T = TypeVar("T")
_Text = Annotated[str, msgspec.Meta(max_length=4_000)]
_Name = Annotated[str, msgspec.Meta(max_length=600)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)] | None
_Count = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
_Many = Annotated[list[T], msgspec.Meta(max_length=100_000)]


class DocumentHeader(msgspec.Struct, frozen=True, kw_only=True):
    txn_id: _Name
    status: TxnStatus
    archived: bool
    owner: _Text
    client: _Text
    properties: Annotated[dict[_Name, _Text], msgspec.Meta(max_length=1_000)]
    opened_at: _Moment
    timeout_ms: _Count | None
    deadline: _Moment
    decided_at: _Moment
    ended_at: _Moment
    end_reason: EndReason | None
    end_detail: _Text | None


class DocumentRecord(msgspec.Struct, frozen=True, kw_only=True):
    log_id: _Count
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    operation: MetadataOp
    expected_status: TxnStatus | None
    new_status: TxnStatus | None
    partitions: _Many[_Name]
    subscriptions: _Many[_Name]


class _Testimony(msgspec.Struct, frozen=True, kw_only=True):
    broker: _Name
    says: Says | None
    marker_offset: _Count | None
    discords: Annotated[list[Discord], msgspec.Meta(max_length=20)]


class DocumentPartition(_Testimony, frozen=True, kw_only=True):
    partition: _Name
    recorded: ParticipantState
    first_offset: _Count | None
    last_offset: _Count | None
    messages: _Count | None
    attempts: _Count
    last_error: _Text | None


class DocumentSubscription(_Testimony, frozen=True, kw_only=True):
    subscription: _Name
    recorded: ParticipantState
    acked_messages: _Count | None
    attempts: _Count
    last_error: _Text | None


class DocumentUnlisted(_Testimony, frozen=True, kw_only=True):
    participant: _Name


class DocumentAcknowledgements(msgspec.Struct, frozen=True, kw_only=True):
    subscription: _Name
    partition: _Name
    messages: _Count
    offsets: _Many[tuple[_Count, _Count]]


class DocumentAuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    sequence: _Count
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    who: _Name
    action: _Name
    reason: _Text
    result: _Name
    request_id: _Name


class TransactionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a transaction at ``as_of``, without payloads and keys.

    ``unavailable`` names brokers that could not be asked, ``cut`` the lists that go on; ``audit``
    is null for a reader who may not see it."""

    format: Literal["txnconsole/transaction"]
    version: Literal[1]
    as_of: Annotated[datetime, msgspec.Meta(tz=True)]
    transaction: DocumentHeader
    log: _Many[DocumentRecord]
    agreed: bool | None
    partitions: _Many[DocumentPartition]
    subscriptions: _Many[DocumentSubscription]
    not_listed: _Many[DocumentUnlisted]
    acknowledgements: _Many[DocumentAcknowledgements]
    audit: _Many[DocumentAuditEntry] | None
    unavailable: Annotated[dict[_Name, _Text], msgspec.Meta(max_length=1_000)]
    cut: Annotated[list[_Name], msgspec.Meta(max_length=20)]
