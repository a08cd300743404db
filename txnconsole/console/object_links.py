"""The objects that the audit log and alerts name: how pages write them, what of them a reader may
type, and links to their pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from django.urls import NoReverseMatch, reverse

from engine.model.errors import InvalidRequest
from engine.model.topic_name import SIDECAR_SUFFIX, PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from txnconsole.console.txn_id_forms import parse_txn_id

_TRANSACTION = re.compile(r"(?:transaction[: ])?(\d{1,5}:\d{1,18})", re.ASCII)
_COORDINATOR = re.compile(r"coordinator[: ](\d{1,5})", re.ASCII | re.IGNORECASE)


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


def written(text: str) -> str:
    """An object as pages write it: ``partition:public/default/flights:0`` without its kind, which
    the form of the name tells; ``coordinator:3`` in words."""
    kind, _, name = text.partition(":")
    if kind == "coordinator":
        return f"coordinator {name}"
    return name if kind in _TOLD_BY_FORM and address_of(text) else text


def object_named(text: str) -> str:
    """The object that a reader means, who may write it as pages do, or a transaction's id in any
    form; a text that names none of these as it is."""
    text = text.strip()
    if (found := _COORDINATOR.fullmatch(text)) is not None:
        return f"coordinator:{found[1]}"
    for kind, read in _TOLD_BY_FORM.items():
        try:
            return f"{kind}:{read(text)}"
        except InvalidRequest:
            continue
    return text


def _partition(name: str) -> str:
    partition = _read_partition(name)
    return reverse("console:log", args=[partition.topic, partition.number])


def _read_partition(name: str) -> PartitionName:
    partition = PartitionName.parse(name.removesuffix(SIDECAR_SUFFIX))
    return partition.sidecar() if name.endswith(SIDECAR_SUFFIX) else partition


def _subscription(name: str) -> str:
    found = SubscriptionName.parse(name)
    return reverse("console:subscription", args=[found.topic, found.name])


#: Kinds of objects whose names differ in form, and how each is read.
_TOLD_BY_FORM: Mapping[str, Callable[[str], object]] = {
    "transaction": parse_txn_id,
    "partition": _read_partition,
    "topic": TopicName.parse,
    "subscription": SubscriptionName.parse,
}
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
