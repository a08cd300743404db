"""What a text in the search box can mean: a transaction, a message, a partition, a name, a page.

A text that names one thing in full leads there. Any other is searched for in the names of topics
and subscriptions and in the titles of pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from engine.model.errors import EngineError, InvalidRequest, SubscriptionNotFound, TopicNotFound
from engine.model.message import MessageID
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from txnconsole.access.principal import Principal
from txnconsole.console.numbers import number_of
from txnconsole.console.shell import pages_for
from txnconsole.console.txn_id_forms import parse_txn_id, txn_id_hex
from txnconsole.enginedb.wiring import engine

#: How many names of each kind a database searches for a part of a name.
LOOK_THROUGH = 10_000
_SUGGESTIONS = 8
_SCHEMES = re.compile(r"^(persistent|non-persistent)://")
#: ``partition:public/default/flights:2`` as alerts and the audit log name it, ``coordinator 2``.
_KIND = re.compile(
    r"(transaction|txn|partition|topic|subscription|coordinator)[:\s]\s*(\S.*)", re.IGNORECASE
)
#: ``topic:3``, ``topic-partition-3`` as Pulsar writes it, and with an offset of that partition
#: ``topic:3@18497``, ``topic:3:18497``.
_PLACE = re.compile(r"(.+?)(?::|-partition-)(\d{1,5})(?:[@:](\d{1,18}))?", re.ASCII)


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
    text = text.strip()
    if not text:
        return Finds(tuple(_pages("", principal)), exact=False)
    kind, name = kind_and_name(text)
    named = tuple(_named(kind, name))
    if named:
        return Finds(named, exact=True)
    names, complete = _names(kind, name, limit)
    items = (*names, *_pages(text, principal))
    return Finds(items[:limit], exact=False, complete=complete)


def kind_and_name(text: str) -> tuple[str, str]:
    """The word for a kind that stands before a name, in lower case, empty where there is none, and
    the name without its scheme."""
    told = _KIND.fullmatch(text)
    kind, name = (told[1].lower(), told[2]) if told else ("", text)
    return kind, _SCHEMES.sub("", name)


def _named(kind: str, text: str) -> Iterator[Find]:
    for read in _READERS[kind]:
        try:
            yield from read(text)
        except InvalidRequest:
            continue


def _transaction(text: str) -> Iterator[Find]:
    txn_id = parse_txn_id(text)
    address = reverse("console:transaction", args=[txn_id])
    yield Find("Transaction", str(txn_id), txn_id_hex(txn_id), address)


def _messages(text: str) -> Iterator[Find]:
    """A message id has a ledger and no topic; the brokers know whose ledger it is."""
    if text.count(":") < 2:  # A message id has two or more colons; a transaction id has one.
        return
    message_id = MessageID.parse(text if text.count(":") == 3 else f"{text}:0")
    for partition in engine().inspect.partitions_of(message_id):
        yield Find(
            "Message",
            str(message_id),
            f"offset {message_id.offset:,} of {partition}",
            _log(partition, message_id.offset),
        )


def _place(text: str) -> Iterator[Find]:
    found = _PLACE.fullmatch(text)
    if found is not None:
        yield _found_place(TopicName.parse(found[1]), int(found[2]), found[3])


def _topic(text: str) -> Iterator[Find]:
    if _PLACE.fullmatch(text):
        return
    name = TopicName.parse(text)
    try:
        engine().topics.get(name)
    except TopicNotFound:  # The text may be the beginning of a name.
        return
    yield _found_topic(name)


def _subscription(text: str) -> Iterator[Find]:
    """Read ``tenant/namespace/topic/subscription``."""
    full = SubscriptionName.parse(text)
    try:
        engine().subscriptions.get(full)
    except (TopicNotFound, SubscriptionNotFound):
        return
    yield _found_subscription(full)


def _coordinator(text: str) -> Iterator[Find]:
    number = number_of(text, digits=5)
    if number is not None and number < engine().coordinator.number():
        address = reverse("console:coordinator", args=[number])
        yield Find("Coordinator", str(number), "", address)


#: What a text is read as: after a word for its kind, and without one.
_READERS: Mapping[str, Sequence[Callable[[str], Iterator[Find]]]] = {
    "": (_transaction, _messages, _place, _topic, _subscription),
    "transaction": (_transaction,),
    "txn": (_transaction,),
    "partition": (_place,),
    "topic": (_topic,),
    "subscription": (_subscription,),
    "coordinator": (_coordinator,),
}


def _found_place(topic: TopicName, number: int, offset: str | None) -> Find:
    partition = PartitionName(topic, number)
    if offset is None:
        return Find("Partition", str(partition), "its log", _log(partition))
    at = int(offset)
    return Find("Offset", f"{partition}@{at}", "in the log", _log(partition, at))


def _found_topic(name: TopicName) -> Find:
    return Find("Topic", str(name), "", reverse("console:topic", args=[name]))


def _found_subscription(name: SubscriptionName) -> Find:
    address = reverse("console:subscription", args=[name.topic, name.name])
    return Find("Subscription", name.name, f"of {name.topic}", address)


def _names(kind: str, text: str, limit: int) -> tuple[list[Find], bool]:
    """Topics and subscriptions with the text in their names, or with what stands before the number
    of a partition; first those that begin with it."""
    place = None if kind in ("topic", "subscription") else _PLACE.fullmatch(text)
    wanted = (place[1] if place else text).lower()
    found: list[tuple[str, Find]] = []
    complete = True
    try:
        if kind in ("", "topic", "partition"):
            topics, complete = engine().topics.named(
                wanted,
                limit=limit,
                look_through=LOOK_THROUGH,
                include_system=wanted.startswith("__"),
                partition=int(place[2]) if place else 0,
            )
            found += [
                (one.topic, _found_place(one, int(place[2]), place[3]))
                if place
                else (one.topic, _found_topic(one))
                for one in topics
            ]
        if kind in ("", "subscription") and not place:
            subscriptions, all_of_them = engine().subscriptions.named(
                wanted, limit=limit, look_through=LOOK_THROUGH
            )
            found += [(one.name, _found_subscription(one)) for one in subscriptions]
            complete = complete and all_of_them
    except EngineError:
        return [], False
    found.sort(key=lambda pair: (not pair[0].lower().startswith(wanted), pair[0]))
    return [find for _, find in found], complete


def _pages(text: str, principal: Principal) -> Iterator[Find]:
    for title, address in pages_for(principal):
        if text.lower() in title.lower():
            yield Find("Page", title, "", address)


def _log(partition: PartitionName, offset: int | None = None) -> str:
    address = reverse("console:log", args=[partition.topic, partition.number])
    return address if offset is None else f"{address}?at={offset}"
