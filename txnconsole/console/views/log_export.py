"""A range of a partition's log as a file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence

import msgspec
from django.http import StreamingHttpResponse
from django.views.decorators.http import require_safe

from engine.model.errors import InvalidRequest
from engine.model.message import StoredMessage
from engine.model.partition import PartitionStatus
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.payloads import Sight, sight_of
from txnconsole.access.roles import Permission
from txnconsole.console.files import list_file, moment_text
from txnconsole.console.numbers import number_of
from txnconsole.console.page import ConsoleRequest, page
from txnconsole.enginedb.wiring import engine

#: The most offsets of one file.
MAX_OFFSETS = 100_000
_STEP = 500
_COLUMNS = (
    *("offset", "message_id", "kind", "txn_id", "visibility", "key", "properties", "event_time"),
    *("publish_time", "producer_name", "sequence_id", "bytes", "payload_base64"),
)


@require_safe
@page(Permission.TOPIC_READ)
def export(
    request: ConsoleRequest, topic: TopicName, number: int, form: str
) -> StreamingHttpResponse:
    """Every entry from one offset to another, including markers, with what a reader gets of it, as
    far as the user may see it."""
    partition = PartitionName(topic, number)
    status = engine().log.status(partition)
    first, last = _range(request, status)
    sight = sight_of(request.principal, topic)
    pages = ([_values(each, sight) for each in found] for found in _entries(partition, first, last))
    return list_file(f"{topic.topic}-{number}-{first}-{last}", form, _COLUMNS, pages)


def _range(request: ConsoleRequest, status: PartitionStatus) -> tuple[int, int]:
    """The offsets asked for, as far as the log has them now."""
    first, last = (number_of(request.GET.get(name, "").replace(",", "")) for name in ("from", "to"))
    if first is None or last is None:
        raise InvalidRequest("Say from which offset to which, both in whole numbers.", field="from")
    if last < first:
        raise InvalidRequest("The range ends before it begins.", field="to")
    first, last = max(first, status.log_start_offset), min(last, status.last_offset)
    if last - first >= MAX_OFFSETS:
        raise InvalidRequest(
            f"A file has at most {MAX_OFFSETS:,} offsets; narrow the range.", field="to"
        )
    return first, last


def _entries(partition: PartitionName, first: int, last: int) -> Iterator[Sequence[StoredMessage]]:
    while first <= last:
        found = engine().log.browse(partition, first, min(_STEP, last - first + 1))
        within = [each for each in found.messages if each.offset <= last]
        if not within:
            return  # There is a gap up to the end, or retention has deleted the rest meanwhile.
        yield within
        first = within[-1].offset + 1


def _values(stored: StoredMessage, sight: Sight) -> list[object]:
    shown = sight.shown(stored)
    one = shown.message
    return [
        one.offset,
        str(one.message_id),
        str(one.kind),
        one.txn_id and str(one.txn_id),
        str(one.visibility),
        one.key,
        msgspec.json.encode(one.properties).decode() if one.properties else None,
        moment_text(one.event_time),
        moment_text(one.publish_time),
        one.producer_name,
        one.sequence_id,
        len(stored.payload),
        b64encode(one.payload).decode() if shown.payload else None,
    ]
