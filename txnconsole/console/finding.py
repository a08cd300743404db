"""What a text in the search box can mean: a transaction, a message, a partition, a name, a page.

A text that names one thing in full leads there. Any other is searched for in the names of topics
and subscriptions and in the titles of pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import reverse

from engine.model.errors import EngineError, InvalidRequest, SubscriptionNotFound, TopicNotFound
from engine.model.message import MessageID
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from txnconsole.access.principal import Principal
from txnconsole.console.shell import pages_for
from txnconsole.console.txn_id_forms import is_txn_id, parse_txn_id, txn_id_hex
from txnconsole.enginedb.wiring import engine

#: How many names of each kind a database searches for a part of a name.
LOOK_THROUGH = 10_000
_SUGGESTIONS = 8
_SCHEMES = re.compile(r"^(persistent|non-persistent)://")
#: ``topic-partition-3`` as Pulsar writes it.
_PULSAR_PARTITION = re.compile(r"(.+)-partition-(\d{1,5})", re.ASCII)
#: ``topic:3@18497``, ``topic:3:18497``: an offset of a partition.
_OFFSET = re.compile(r"(.+:\d{1,5})[@:](\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Find:
    """Something that a text can mean, and the address where it is shown."""

    kind: str
    title: str
    detail: str
    address: str


@dataclass(frozen=True, slots=True)
class Finds:
    """What was found. ``exact``: the text names them in full. ``complete``: all names were
    searched."""

    items: tuple[Find, ...]
    exact: bool
    complete: bool = True


def find(text: str, principal: Principal, *, limit: int = _SUGGESTIONS) -> Finds:
    """What the text can mean, the likeliest first."""
    text = _SCHEMES.sub("", text.strip())
    if not text:
        return Finds(tuple(_pages("", principal)), exact=False)
    named = tuple(_named(text))
    if named:
        return Finds(named, exact=True)
    names, complete = _names(text, limit)
    items = (*names, *_pages(text, principal))
    return Finds(items[:limit], exact=False, complete=complete)


def _named(text: str) -> Iterator[Find]:
    if is_txn_id(text):
        txn_id = parse_txn_id(text)
        address = reverse("console:transaction", args=[txn_id])
        yield Find("Transaction", str(txn_id), txn_id_hex(txn_id), address)
    yield from _messages(text)
    for read in (_offset, _partition, _topic, _subscription):
        try:
            found = read(text)
        except InvalidRequest:
            continue
        if found is not None:
            yield found


def _messages(text: str) -> Iterator[Find]:
    """A message id has a ledger and no topic; the brokers know whose ledger it is."""
    try:
        message_id = MessageID.parse(text if text.count(":") == 3 else f"{text}:0")
    except InvalidRequest:
        return
    if text.count(":") < 2:  # A message id has two or more colons; a transaction id has one.
        return
    for partition in engine().inspect.partitions_of(message_id):
        yield Find(
            "Message",
            str(message_id),
            f"offset {message_id.offset:,} of {partition}",
            _log(partition, message_id.offset),
        )


def _offset(text: str) -> Find | None:
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    partition, offset = PartitionName.parse(found[1]), int(found[2])
    return Find("Offset", f"{partition}@{offset}", "in the log", _log(partition, offset))


def _partition(text: str) -> Find:
    found = _PULSAR_PARTITION.fullmatch(text)
    partition = PartitionName.parse(f"{found[1]}:{found[2]}" if found else text)
    return Find("Partition", str(partition), "its log", _log(partition))


def _topic(text: str) -> Find | None:
    if _PULSAR_PARTITION.fullmatch(text):
        return None
    name = TopicName.parse(text)
    try:
        engine().topics.get(name)
    except TopicNotFound:  # The text may be the beginning of a name.
        return None
    return Find("Topic", str(name), "", reverse("console:topic", args=[name]))


def _subscription(text: str) -> Find | None:
    """Read ``tenant/namespace/topic/subscription``."""
    topic, slash, name = text.rpartition("/")
    if not slash:
        return None
    full = SubscriptionName(TopicName.parse(topic), name)
    try:
        engine().subscriptions.get(full)
    except (TopicNotFound, SubscriptionNotFound):
        return None
    return _found_subscription(full)


def _found_subscription(name: SubscriptionName) -> Find:
    address = reverse("console:subscription", args=[name.topic, name.name])
    return Find("Subscription", name.name, f"of {name.topic}", address)


def _names(text: str, limit: int) -> tuple[list[Find], bool]:
    """Topics and subscriptions with the text in their names; first those that begin with it."""
    wanted = text.lower()
    try:
        topics, all_topics = engine().topics.named(
            wanted,
            limit=limit,
            look_through=LOOK_THROUGH,
            include_system=wanted.startswith("__"),
        )
        subscriptions, all_subscriptions = engine().subscriptions.named(
            wanted, limit=limit, look_through=LOOK_THROUGH
        )
    except EngineError:
        return [], False
    found = [
        (one.topic, Find("Topic", str(one), "", reverse("console:topic", args=[one])))
        for one in topics
    ] + [(one.name, _found_subscription(one)) for one in subscriptions]
    found.sort(key=lambda pair: (not pair[0].lower().startswith(wanted), pair[0]))
    return [find for _, find in found], all_topics and all_subscriptions


def _pages(text: str, principal: Principal) -> Iterator[Find]:
    for title, address in pages_for(principal):
        if text.lower() in title.lower():
            yield Find("Page", title, "", address)


def _log(partition: PartitionName, offset: int | None = None) -> str:
    address = reverse("console:log", args=[partition.topic, partition.number])
    return address if offset is None else f"{address}?at={offset}"
