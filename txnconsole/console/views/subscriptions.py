"""Subscriptions: what they have acknowledged, what waits for a transaction, what is left."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from engine.model.subscription import CursorStatus, Subscription, SubscriptionStatus
from engine.model.topic_name import SubscriptionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import Region, region
from txnconsole.enginedb.wiring import engine

#: Every row reads its brokers, so the list is short.
PAGE_ROWS = 20


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription of the list with its totals over all partitions."""

    subscription: Subscription
    status: Region[SubscriptionStatus]

    @property
    def backlog(self) -> int:
        return sum(cursor.backlog for cursor in self._cursors)

    @property
    def blocked(self) -> int:
        return sum(cursor.blocked for cursor in self._cursors)

    @property
    def pending_txns(self) -> int:
        """Transactions with undecided acknowledgements here."""
        return len({pending.txn_id for cursor in self._cursors for pending in cursor.pending_acks})

    @property
    def delivered(self) -> int:
        """Messages delivered and not acknowledged yet."""
        return sum(len(ranges) for cursor in self._cursors for ranges in cursor.delivered.values())

    @property
    def _cursors(self) -> tuple[CursorStatus, ...]:
        return self.status.value.partitions if self.status.value else ()


@require_GET
@page(Permission.TOPIC_READ)
def subscriptions(request: ConsoleRequest) -> HttpResponse:
    """Subscriptions of all topics."""
    names = engine().subscriptions.list()
    after = request.GET.get("after", "")
    rest = sorted((one for one in names if str(one.name) > after), key=lambda one: one.name)
    shown = rest[:PAGE_ROWS]
    context = {
        "channel": "overview",
        "rows": [SubscriptionRow(one, _status(one.name)) for one in shown],
        "after": str(shown[-1].name) if len(rest) > PAGE_ROWS else None,
        "first": not after,
    }
    return show(
        request, "console/subscriptions.html", context, region="console/partials/subscriptions.html"
    )


@require_GET
@page(Permission.TOPIC_READ)
def subscription(request: ConsoleRequest, topic: TopicName, name: str) -> HttpResponse:
    """One subscription's cursors, partition by partition."""
    full_name = SubscriptionName(topic, name)
    status = _status(full_name)
    context = {
        "channel": "overview",
        "subscription": engine().subscriptions.get(full_name),
        "status": status,
        "pending": [
            (cursor.partition, pending)
            for cursor in (status.value.partitions if status.value else ())
            for pending in cursor.pending_acks
        ],
        "may_abort": request.principal.may(Permission.TRANSACTION_ABORT_ANY),
    }
    return show(
        request, "console/subscription.html", context, region="console/partials/subscription.html"
    )


def _status(name: SubscriptionName) -> Region[SubscriptionStatus]:
    return region(lambda: engine().subscriptions.describe(name))
