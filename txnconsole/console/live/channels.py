"""The names of channels: ``overview``, ``pipeline``, ``txns``, ``txn:<id>``, ``part:<name>``,
``sub:<topic>/<name>``, ``tc``, ``job:<number>``, ``alerts``, ``audit``.

Whoever may read only their own transactions gets ``txns`` and ``txn:<id>`` as separate channels,
which read no others (semantics §2). Whoever may not read messages gets ``part:<name>`` without
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName, SubscriptionName
from engine.model.txn_id import TxnID
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.console.live.alerts_feed import AlertsFeed
from txnconsole.console.live.audit_feed import AuditFeed
from txnconsole.console.live.coordinators_feed import CoordinatorsFeed
from txnconsole.console.live.feed import Feed
from txnconsole.console.live.job_feed import JobFeed
from txnconsole.console.live.overview_feed import OverviewFeed
from txnconsole.console.live.partition_feed import PartitionFeed
from txnconsole.console.live.pipeline_feed import PipelineFeed
from txnconsole.console.live.subscription_feed import SubscriptionFeed
from txnconsole.console.live.transaction_feeds import (
    OwnTransactionsFeed,
    TransactionFeed,
    TransactionsFeed,
)
from txnconsole.console.numbers import number_of


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel by its canonical name, who may listen to it, and what reads it.

    Attributes:
        owner: it is only about this owner's transactions; None: about everybody's.
    """

    name: str
    permission: Permission
    make_feed: Callable[[], Feed]
    owner: str | None = None

    def may_be_heard_by(self, principal: Principal) -> bool:
        """Whether the principal may listen now. Its roles may change while it listens."""
        return principal.may(self.permission) and self.owner in {None, principal.name}


#: The channels that have no subject.
_SINGLE: Mapping[str, tuple[Permission, Callable[[], Feed]]] = {
    "overview": (Permission.TOPIC_READ, OverviewFeed),
    "tc": (Permission.COORDINATOR_READ, CoordinatorsFeed),
    "pipeline": (Permission.JOB_READ, PipelineFeed),
    "alerts": (Permission.ALERT_READ, AlertsFeed),
    "audit": (Permission.AUDIT_READ, AuditFeed),
}


def channel_named(text: str, principal: Principal) -> Channel:
    """Find a channel, in the form that the principal may listen to.

    Raises:
        InvalidRequest: the text does not name a channel.
    """
    kind, _, rest = text.partition(":")
    if text == "txns" or kind == "txn":
        return _of_transactions(text, principal)
    if text in _SINGLE:
        return Channel(text, *_SINGLE[text])
    if kind == "part":
        return _of_partition(PartitionName.parse(rest), principal)
    if kind == "sub":
        name = SubscriptionName.parse(rest)
        return Channel(f"sub:{name}", Permission.TOPIC_READ, lambda: SubscriptionFeed(name))
    if kind == "job" and (job_id := number_of(rest)) is not None:
        return Channel(f"job:{job_id}", Permission.JOB_READ, lambda: JobFeed(job_id))
    raise InvalidRequest(f"{text[:80]!r} is not a channel.", field="channel")


def _of_partition(partition: PartitionName, principal: Principal) -> Channel:
    """The channel with the keys of messages, or the one without; the two are never shared."""
    reads = principal.may(Permission.MESSAGE_READ)
    permission, suffix = (
        (Permission.MESSAGE_READ, "") if reads else (Permission.TOPIC_READ, " without keys")
    )
    return Channel(
        f"part:{partition}{suffix}",
        permission,
        lambda: PartitionFeed(partition, reads_messages=reads),
    )


def _of_transactions(text: str, principal: Principal) -> Channel:
    """The channel about everybody's transactions, or about the principal's own; never shared."""
    owner = principal.owner_filter
    permission, suffix = (
        (Permission.TRANSACTION_READ_ANY, "")
        if owner is None
        else (Permission.TRANSACTION_READ, f" of {owner}")
    )
    if text != "txns":
        txn_id = TxnID.parse(text.removeprefix("txn:"))
        return Channel(
            f"txn:{txn_id}{suffix}", permission, lambda: TransactionFeed(txn_id, owner), owner
        )
    if owner is None:
        return Channel(text, permission, TransactionsFeed)
    return Channel(f"{text}{suffix}", permission, lambda: OwnTransactionsFeed(owner), owner)
