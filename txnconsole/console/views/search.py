"""The search box: a transaction in any spelling, a partition, a topic, a subscription."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from engine.model.errors import InvalidRequest
from engine.model.subscription import Subscription
from engine.model.topic_name import PartitionName, TopicName
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.txn_id_forms import is_txn_id, parse_txn_id
from txnconsole.enginedb.wiring import engine

#: Names that are looked through for a part of a name.
_LOOK_THROUGH = 500


@require_GET
@page(Permission.TOPIC_READ)
def search(request: ConsoleRequest) -> HttpResponse:
    """Go straight to what the text names; else list the names that contain it."""
    text = request.GET.get("q", "").strip()
    address = _address_of(text)
    if address is not None:
        return HttpResponseRedirect(address)
    topics = [
        topic
        for topic in engine().topics.list(limit=_LOOK_THROUGH, include_system=True).items
        if text and text.lower() in str(topic.name).lower()
    ]
    subscriptions = [
        one
        for one in engine().subscriptions.list()[:_LOOK_THROUGH]
        if text and text.lower() in str(one.name).lower()
    ]
    found = [*(_topic_page(one.name) for one in topics), *map(_subscription_page, subscriptions)]
    if len(found) == 1:
        return HttpResponseRedirect(found[0])
    context = {"text": text, "topics": topics, "subscriptions": subscriptions}
    return show(request, "console/search.html", context)


def _address_of(text: str) -> str | None:
    """The page of what the text names in full; None when it is a part of a name at most."""
    if is_txn_id(text):
        return reverse("console:transaction", args=[parse_txn_id(text)])
    for read in (_partition_page, _named_topic_page):
        try:
            return read(text)
        except InvalidRequest:
            continue
    return None


def _partition_page(text: str) -> str:
    partition = PartitionName.parse(text)
    return reverse("console:log", args=[partition.topic, partition.number])


def _named_topic_page(text: str) -> str:
    return _topic_page(TopicName.parse(text))


def _topic_page(name: TopicName) -> str:
    return reverse("console:topic", args=[name])


def _subscription_page(one: Subscription) -> str:
    return reverse("console:subscription", args=[one.name.topic, one.name.name])
