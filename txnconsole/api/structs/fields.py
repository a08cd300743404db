"""Field types that several bodies and answers share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from engine.model.moment import time_text
from engine.model.topic import MAX_RETENTION_MS
from engine.settings import EngineSettings
from txnconsole.api.limits import PAGE_ITEMS, WAIT_MS

#: PostgreSQL's text cannot hold NUL.
NO_NUL = r"^[^\x00]*$"
_NOT_BLANK = r"^[^\x00]*[^\s\x00][^\x00]*$"
_TXN_ID = r"^\d{1,5}:\d{1,19}$"
#: What is told of a text of another form than these patterns'.
IN_WORDS = {
    NO_NUL: "must not hold NUL",
    _NOT_BLANK: "must not be blank, nor hold NUL",
    _TXN_ID: "is not a transaction id; write <coordinator>:<sequence>, e.g. 3:42",
}
#: What is told of a text that is no time, and of a time that Python or PostgreSQL does not have.
NO_TIME = "is not a time as RFC 3339 writes it, of the years 2 to 9998"
INT64_MAX = 2**63 - 1

#: Free text of a user, e.g. a reason.
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=NO_NUL)]
#: Why an operator does something; the audit log keeps it.
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=_NOT_BLANK)]
#: The name of a client, consumer, producer, group.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=NO_NUL)]
Properties = Annotated[dict[Name, Text], msgspec.Meta(max_length=64)]

TxnIDText = Annotated[
    str,
    msgspec.Meta(pattern=_TXN_ID, description="`<coordinator>:<sequence>`", examples=["3:42"]),
]
TopicText = Annotated[
    str, msgspec.Meta(max_length=400, pattern=NO_NUL, examples=["public/default/orders"])
]
PartitionText = Annotated[
    str, msgspec.Meta(max_length=400, pattern=NO_NUL, examples=["public/default/orders:0"])
]
MessageIDText = Annotated[
    str,
    msgspec.Meta(
        max_length=64,
        description="`<ledger_id>:<entry_id>:<partition>:<batch_index>`",
        examples=["0:17:0:2"],
    ),
]

Offset = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
#: An age or how long something is kept; a century, because PostgreSQL reckons it from now.
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_RETENTION_MS)]
#: The engine's own limit, which refuses more, stands in words.
TimeoutMs = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=INT64_MAX // 1000, description=f"{EngineSettings().max_timeout_ms} at most."
    ),
]
WaitMs = Annotated[int, msgspec.Meta(ge=0, le=WAIT_MS, description="How long to wait at most.")]
CoordinatorID = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]

Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ITEMS)]
Cursor = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=1000, pattern=NO_NUL, description="An answer's cursor."),
]

#: RFC 3339 in UTC with microseconds.
Time = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
        examples=["2026-01-31T12:00:00.000000Z"],
        extra_json_schema={"format": "date-time"},
    ),
]


Evidence = Annotated[
    dict[str, Any], msgspec.Meta(description="What it follows from; names depend on the finding.")
]


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A query string."""


class PageQuery(Query):
    """The query string of a list (design/api.md, Conventions)."""

    limit: Limit = 50
    cursor: Cursor | None = None


class Answer(msgspec.Struct, kw_only=True):
    """The body of an answer."""


class UnavailableBroker(Answer):
    """A broker that does not answer: what only it knows is missing."""

    broker: str
    detail: str


class UnavailablePartition(Answer):
    """A partition that cannot be asked, and why."""

    partition: PartitionText
    detail: str


def optional_time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)
