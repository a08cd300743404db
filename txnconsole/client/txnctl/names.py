"""Arguments that name things, and the paths that they stand for."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from txnconsole.client.calls import topic_path
from txnconsole.client.wire import segments

_PARTITION = re.compile(r"(.+):(0|[1-9]\d{0,5})", re.ASCII)

TopicArgument = Annotated[
    str, typer.Argument(metavar="TOPIC", help="tenant/namespace/topic", show_default=False)
]
PartitionArgument = Annotated[
    str,
    typer.Argument(metavar="PARTITION", help="tenant/namespace/topic:number", show_default=False),
]
SubscriptionArgument = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", show_default=False)]


def split_partition(text: str) -> tuple[str, int]:
    """``tenant/namespace/topic:3`` as topic and number.

    Raises:
        ValueError: the text has another form.
    """
    found = _PARTITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a partition; write tenant/namespace/topic:number.")
    return found[1], int(found[2])


def partition_path(text: str) -> str:
    """The path of a partition.

    Raises:
        ValueError: the text names none.
    """
    topic, number = split_partition(text)
    return f"{topic_path(topic)}/partitions/{number}"


def subscription_path(topic: str, subscription: str) -> str:
    """The path of a subscription.

    Raises:
        ValueError: ``topic`` is none.
    """
    return f"{topic_path(topic)}/subscriptions/{segments(subscription)}"
