"""How values are written on a page: quantities (txnconsole/quantities.py), times, states."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from engine.inspect.history import Position
from engine.inspect.topics import LOG_PARTS
from engine.model.message import EntryKind, StoredMessage, Visibility
from engine.model.partition import IndexedTxn
from engine.model.ranges import Ranges
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnStatus
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.console.object_links import address_of, written
from txnconsole.console.payload import Preview, preview
from txnconsole.console.reads import apart_from
from txnconsole.console.txn_id_forms import txn_id_hex
from txnconsole.quantities import DASH, count, duration, per_second, percent, size, whole
from txnconsole.trends.reading import CoordinatorRates

register = template.Library()
for quantity in (count, duration, per_second, size, whole):
    register.filter(quantity)
register.filter("share", percent)
register.filter(apart_from)

_STATE_NAMES = {str(status): status.capitalize() for status in TxnStatus} | {
    "NONE": "No transaction",
    # Of a participant that has not carried out its transaction's end yet.
    "PENDING": "Pending",
}
_MAX_RUNS = 8
_ROW_BYTES = 200
_KINDS = {
    EntryKind.DATA: "Message",
    EntryKind.TXN_COMMIT: "Commit marker",
    EntryKind.TXN_ABORT: "Abort marker",
}
_READING = {
    Visibility.VISIBLE: "Delivered",
    Visibility.OPEN: "Held back: its transaction is undecided",
    Visibility.BLOCKED: "Held back: past the first unfinished transaction",
    Visibility.ABORTED: "Filtered: its transaction aborted",
    Visibility.MARKER: "Filtered: a control record",
}


@register.filter
def position(value: int | Literal[""] | None) -> str:
    """A position in a log; the one before its first offset is none."""
    return "none yet" if isinstance(value, int) and value < 0 else count(value)


@register.filter
def place(value: int | None) -> str:
    """As :func:`position` within a sentence: "from the beginning to 3"."""
    return "the beginning" if value is not None and value < 0 else count(value)


@register.filter
def words(code: str) -> str:
    """A code of the contract in words: ``PartitionUnavailable`` as ``Partition unavailable``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", code).capitalize()


@register.filter
def since(later: datetime, earlier: datetime) -> str:
    """The time between two moments of the same clock, as a duration."""
    return duration((later - earlier).total_seconds() * 1000)


@register.filter
def used_ms(transaction: Transaction) -> int:
    """How much of its timeout an open transaction has used, by its coordinator's clock."""
    return _timeout_ms(transaction) - time_left_ms(transaction)


@register.filter
def time_left_ms(transaction: Transaction) -> int:
    """How long it is until an open transaction's deadline; 0 when it has passed."""
    if transaction.deadline is None:
        return 0
    left = (transaction.deadline - transaction.now).total_seconds() * 1000
    return min(_timeout_ms(transaction), max(0, int(left)))


def _timeout_ms(transaction: Transaction) -> int:
    return transaction.timeout_ms or 0


@register.filter
def txn_hex(txn_id: TxnID) -> str:
    """The 128 bits as 32 hexadecimal digits."""
    return txn_id_hex(txn_id)


@register.filter
def reading(entry: StoredMessage) -> str:
    """What a READ_COMMITTED reader makes of an entry, and why."""
    return _READING[entry.visibility]


@register.filter
def isolating(sentence: str, name: str | None) -> SafeString:
    """A sentence that a name in it does not turn round, though it is read from right to left."""
    before, found, after = sentence.partition(name) if name else (sentence, "", "")
    return format_html("{}<bdi>{}</bdi>{}" if found else "{}", before, found, after)


@register.filter
def spoken(code: str) -> str:
    """``KEY_SHARED`` as ``Key shared``."""
    return code.replace("_", " ").capitalize()


register.filter("object_name", written)


@register.filter
def by_parts(name: object) -> SafeString:
    """A name that is too long for its line goes on in the next one after a slash."""
    return format_html_join(mark_safe("/<wbr>"), "{}", ((part,) for part in str(name).split("/")))


@register.filter
def linked_object(text: str) -> SafeString:
    """The object of an audit entry or an alert; a link when it has a page."""
    address = address_of(text)
    if address is None:
        return format_html("{}", written(text))
    return format_html('<a href="{}">{}</a>', address, by_parts(written(text)))


#: At the beginning of an alert's detail, or after what it hides (txnconsole/alerts/measuring.py).
_ABOUT = re.compile(r"(?:^|behind )(\d{1,5}:\d{1,18})\b", re.ASCII)


@register.filter
def linked_transaction(detail: str) -> SafeString:
    """The detail of an alert; the transaction that it is about is a link."""
    found = _ABOUT.search(detail)
    if found is None:
        return format_html("{}", detail)
    start, end = found.span(1)
    link = '{}<a class="mono" href="{}">{}</a>{}'
    return format_html(link, detail[:start], address_of(found[1]), found[1], detail[end:])


@register.filter
def as_sent(value: object) -> str:
    """A parameter as JSON has it, a text without its quotes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def offsets(ranges: Ranges) -> str:
    """A set of offsets as inclusive ranges; only the first few of them."""
    shown = [
        f"{lower:,}" if upper == lower + 1 else f"{lower:,}{DASH}{upper - 1:,}"
        for lower, upper in ranges.runs[:_MAX_RUNS]
    ]
    if len(ranges.runs) > _MAX_RUNS:
        shown.append(f"and {len(ranges.runs) - _MAX_RUNS:,} more")
    return ", ".join(shown) or DASH


@register.simple_tag
def stamp(value: datetime | None) -> SafeString:
    """A time in the reader's zone; pointing at it shows it exactly, in UTC."""
    if value is None:
        return format_html("{}", DASH)
    utc = value.astimezone(UTC)
    exact = utc.isoformat(sep=" ", timespec="microseconds").replace("+00:00", " UTC")
    return format_html(
        '<time class="num" datetime="{}" title="{}">{}</time>',
        utc.isoformat(),
        exact,
        timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S"),
    )


@register.simple_tag
def zone() -> str:
    """The zone that times are shown in: ``UTC``, or the user's own."""
    return timezone.get_current_timezone_name()


@register.simple_tag
def moment(value: datetime | None) -> SafeString:
    """A time like :func:`stamp` with its zone, for places where no heading names the zone."""
    return stamp(value) if value is None else format_html("{} {}", stamp(value), zone())


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite, hidden from assistive technology, because the text beside it says the
    same."""
    return format_html(
        '<svg class="i" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name
    )


@register.simple_tag
def state(status: str, word: str = "") -> SafeString:
    """A status as a badge with icon, word (its own or the given one) and colour."""
    name = str(status).upper()
    symbol = "NONE" if name == "PENDING" else name
    return format_html(
        '<span class="st" data-st="{}">{}{}</span>',
        symbol,
        icon(symbol),
        word or _STATE_NAMES[name],
    )


@register.simple_tag
def lag_bar(start: int, stable: int, last: int) -> SafeString:
    """How much of a partition's log readers can read, as a bar of 120 by 8."""
    total = max(1, last - start + 1)
    readable = round(118 * max(0, stable - start + 1) / total)
    held = 0 if last <= stable else max(4, 118 - readable)
    return format_html(
        '<svg class="lag" viewBox="0 0 120 8" role="img" aria-label="{} of {} offsets readable">'
        '<rect class="read" x="1" y="1" width="{}" height="6"/>'
        '<rect class="held" x="{}" y="1" width="{}" height="6"/></svg>',
        f"{max(0, stable - start + 1):,}",
        f"{max(0, last - start + 1):,}",
        118 - held,
        119 - held,
        held,
    )


@register.simple_tag
def aborted_marks(parts: Sequence[int]) -> SafeString:
    """In which of the equal parts of a log aborted transactions lie, as marks below its
    :func:`lag_bar`."""
    width = 118 / LOG_PARTS
    return format_html(
        '<svg class="lag aborted" viewBox="0 0 120 4" role="img" aria-label="{}">'
        '<path d="{}"/></svg>',
        f"aborted transactions in {len(parts)} of its {LOG_PARTS} parts",
        "".join(f"M{1 + part * width:.2f} 0h{width:.2f}v4h-{width:.2f}z" for part in parts),
    )


@register.simple_tag(takes_context=True)
def reread(
    context: template.Context, every: int, address: str = "", *, always: bool = True
) -> SafeString:
    """The attributes of a region that the page's script reads again (static/js/regions.js), each
    ``every`` seconds at most: when something has changed and, with ``always``, when nothing has.

    Args:
        address: what is read; by default the page itself.
    """
    return format_html(
        'data-region data-every="{}"{} hx-get="{}" hx-trigger="refresh" hx-swap="innerMorph"',
        every,
        mark_safe(" data-always") if always else "",
        address or context["request"].get_full_path(),
    )


@register.inclusion_tag("console/partials/action.html", takes_context=True)
def action(
    context: template.Context,
    label: str,
    permission: str,
    name: str,
    *arguments: object,
    harm: bool = False,
) -> dict[str, object]:
    """A button that opens a dialog about a change. For users who may not make the change it is
    disabled and names the permission."""
    principal: Principal | None = context.get("principal")
    return {
        "label": label,
        "permission": permission,
        "address": reverse(f"console:{name}", args=arguments),
        "allowed": principal is not None and principal.may(Permission(permission)),
        "harm": harm,
    }


@register.filter
def spanned(row: IndexedTxn) -> int:
    """The number of offsets from a transaction's first message to its marker, both counted."""
    return row.last_offset - row.first_offset + 1


@register.filter
def beginning(payload: bytes) -> Preview:
    """The beginning of a payload, for a row of a table."""
    return preview(payload, _ROW_BYTES)


@register.filter
def entry_kind(entry: StoredMessage) -> str:
    """What kind of entry is at an offset."""
    return _KINDS[entry.kind]


@register.filter
def evidence(facts: Mapping[str, object]) -> str:
    """A counter-example as one line."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())


@register.filter
def held_back(position: Position) -> int:
    """How many offsets readers could not read."""
    return position.last_offset - position.stable_position


@register.filter
def utc(text: str) -> str:
    """A time in ISO form, as sentences have it."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


@register.simple_tag
def readable_bar(readable: int, offsets: int) -> SafeString:
    """How much of everything that is kept readers can read, as :func:`lag_bar`."""
    return lag_bar(0, readable - 1, offsets - 1)


@register.filter
def of_coordinator(
    rates: Mapping[int, CoordinatorRates] | None, tc_id: int
) -> CoordinatorRates | None:
    """The rates of one coordinator: zero when nothing ended there, None when it is unknown."""
    return None if rates is None else rates.get(tc_id, CoordinatorRates(0.0, 0.0, 0.0))
