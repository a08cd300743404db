"""Reading the document of a transaction (:mod:`txnconsole.console.transaction_bundle`), of whatever
console it comes from.

It is a stranger's: every field has a type and a bound, nothing of it is kept, looked up or linked,
and what is too large is not read at all.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

from engine.model.agreement import Discord, Says
from engine.model.errors import InvalidRequest
from engine.model.transaction import MetadataOp, ParticipantState
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnStatus

MAX_BYTES = 4 * 1024 * 1024
#: On the request of which a file was too large.
TOO_LARGE = "UPLOAD_TOO_LARGE"

T = TypeVar("T")
_Text = Annotated[str, msgspec.Meta(max_length=4_000)]
_Name = Annotated[str, msgspec.Meta(max_length=600)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)] | None
_Count = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
_Many = Annotated[list[T], msgspec.Meta(max_length=100_000)]


class Bounded(FileUploadHandler):
    """Skips a file that is larger than any that the console takes: nothing of it is kept."""

    def new_file(self, *args: object, **kwargs: object) -> None:
        super().new_file(*args, **kwargs)  # type: ignore[arg-type]
        self._received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._received += len(raw_data)
        if self._received > MAX_BYTES:
            if self.request is not None:
                self.request.META[TOO_LARGE] = "1"
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """The next handler keeps it."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
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


class Record(msgspec.Struct, frozen=True, kw_only=True):
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


class Partition(_Testimony, frozen=True, kw_only=True):
    partition: _Name
    recorded: ParticipantState
    first_offset: _Count | None
    last_offset: _Count | None
    messages: _Count | None
    attempts: _Count
    last_error: _Text | None


class Subscription(_Testimony, frozen=True, kw_only=True):
    subscription: _Name
    recorded: ParticipantState
    acked_messages: _Count | None
    attempts: _Count
    last_error: _Text | None


class NotListed(_Testimony, frozen=True, kw_only=True):
    participant: _Name


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    subscription: _Name
    partition: _Name
    messages: _Count
    offsets: _Many[tuple[_Count, _Count]]


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    sequence: _Count
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    who: _Name
    action: _Name
    reason: _Text
    result: _Name
    request_id: _Name


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All that another console said of a transaction, at ``as_of``."""

    format: Literal["txnconsole/transaction"]
    version: Literal[1]
    as_of: Annotated[datetime, msgspec.Meta(tz=True)]
    transaction: Header
    log: _Many[Record]
    agreed: bool | None
    partitions: _Many[Partition]
    subscriptions: _Many[Subscription]
    not_listed: _Many[NotListed]
    acknowledgements: _Many[Acknowledged]
    audit: _Many[Audited] | None
    unavailable: Annotated[dict[_Name, _Text], msgspec.Meta(max_length=1_000)]
    cut: Annotated[list[_Name], msgspec.Meta(max_length=20)]


def read_document(data: bytes) -> Document:
    """Read a document.

    Raises:
        InvalidRequest: it is none, or not of this version.
    """
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"A document has at most {MAX_BYTES // 2**20} MiB.")
    try:
        found = msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"It is no document of a transaction: {error}") from error
    TxnID.parse(found.transaction.txn_id)
    return found
