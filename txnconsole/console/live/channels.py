"""The names of channels: ``overview``, ``pipeline``, ``txns``, ``txn:<id>``, ``part:<name>``,
``job:<number>``, ``alerts``, ``audit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName
from engine.model.txn_id import TxnID
from txnconsole.access.roles import Permission
from txnconsole.console.live.alerts_feed import AlertsFeed
from txnconsole.console.live.audit_feed import AuditFeed
from txnconsole.console.live.feed import Feed
from txnconsole.console.live.job_feed import JobFeed
from txnconsole.console.live.overview_feed import OverviewFeed
from txnconsole.console.live.partition_feed import PartitionFeed
from txnconsole.console.live.pipeline_feed import PipelineFeed
from txnconsole.console.live.transaction_feeds import TransactionFeed, TransactionsFeed

_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel by its canonical name, who may listen to it, and what reads it."""

    name: str
    permission: Permission
    make_feed: Callable[[], Feed]


#: Channels of which there is one.
_SINGLE: Mapping[str, tuple[Permission, Callable[[], Feed]]] = {
    "overview": (Permission.TOPIC_READ, OverviewFeed),
    "pipeline": (Permission.JOB_READ, PipelineFeed),
    "alerts": (Permission.ALERT_READ, AlertsFeed),
    "audit": (Permission.AUDIT_READ, AuditFeed),
    "txns": (Permission.TRANSACTION_READ_ANY, TransactionsFeed),
}


def channel_named(text: str) -> Channel:
    """Find a channel.

    Raises:
        InvalidRequest: the text names none.
    """
    kind, _, rest = text.partition(":")
    if text in _SINGLE:
        return Channel(text, *_SINGLE[text])
    if kind == "txn":
        txn_id = TxnID.parse(rest)
        return Channel(
            f"txn:{txn_id}", Permission.TRANSACTION_READ_ANY, lambda: TransactionFeed(txn_id)
        )
    if kind == "part":
        partition = PartitionName.parse(rest)
        return Channel(f"part:{partition}", Permission.TOPIC_READ, lambda: PartitionFeed(partition))
    if kind == "job" and rest.isascii() and rest.isdigit() and len(rest) < _MAX_DIGITS:
        job_id = int(rest)
        return Channel(f"job:{job_id}", Permission.JOB_READ, lambda: JobFeed(job_id))
    raise InvalidRequest(f"{text[:80]!r} is not a channel.")
