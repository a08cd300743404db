"""Links to the pages of objects that the audit log and alerts name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from django.urls import NoReverseMatch, reverse

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID

_TRANSACTION = re.compile(r"(?:transaction[: ])?(\d{1,5}:\d{1,18})", re.ASCII)


def address_of(text: str) -> str | None:
    """The page of an object such as ``partition:public/default/flights:0``; None when it
    has none."""
    found = _TRANSACTION.fullmatch(text)
    if found is not None:
        return reverse("console:transaction", args=[TxnID.parse(found[1])])
    kind, _, name = text.partition(":")
    try:
        return _PAGES[kind](name) if kind in _PAGES else None
    except (InvalidRequest, NoReverseMatch, ValueError):
        return None


def _partition(name: str) -> str:
    partition = PartitionName.parse(name.removesuffix("/_txnlog"))
    return reverse("console:log", args=[partition.topic, partition.number])


def _subscription(name: str) -> str:
    found = SubscriptionName.parse(name)
    return reverse("console:subscription", args=[found.topic, found.name])


_PAGES: Mapping[str, Callable[[str], str]] = {
    "partition": _partition,
    "topic": lambda name: reverse("console:topic", args=[TopicName.parse(name)]),
    "subscription": _subscription,
    "coordinator": lambda name: reverse("console:coordinator", args=[int(name)]),
    "coordinators": lambda _: reverse("console:coordinators"),
    "transactions": lambda _: reverse("console:transactions"),
    "alert": lambda name: reverse("console:alert", args=[int(name)]),
    "alert_rule": lambda name: reverse("console:alert-rule", args=[int(name)]),
}
