"""Names of topics, partitions and subscriptions."""

from __future__ import annotations

import pytest

from engine.model.errors import InvalidRequest
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName


@pytest.mark.parametrize("text", ["public/default/flights", "a/b/c", "t-1/n_2/x.y", "a/b/__sys"])
def test_a_topic_reads_back(text: str) -> None:
    assert str(TopicName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "flights", "a/b", "a/b/c/d", "a//c", "a/b/", "a/b/-c", "a/b/c d", "a/b/c\n"),
        *("a/b/ä", "__a/b/c", "a/b/" + "c" * 129, "a/b/../c"),
    ],
)
def test_other_topics_are_refused_and_told_what_is_one(text: str) -> None:
    with pytest.raises(InvalidRequest, match="write tenant/namespace/topic, each of 1 to 128"):
        TopicName.parse(text)


def test_a_partition_reads_back() -> None:
    name = PartitionName.parse("public/default/flights:12")
    assert (name.topic.topic, name.number) == ("flights", 12)
    assert str(name) == "public/default/flights:12"


@pytest.mark.parametrize(
    "text",
    ["a/b/c", "a/b/c:", "a/b/c:-1", "a/b/c:x", "a/b/c:1234567", "a/b/c:00", "a/b/c:01", ":0"],
)
def test_other_partitions_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        PartitionName.parse(text)


@pytest.mark.parametrize("name", ["", "a/b", "-x", "x" * 129, "a b", "a\n"])
def test_other_subscription_names_are_refused_and_told_what_is_one(name: str) -> None:
    with pytest.raises(InvalidRequest, match="write 1 to 128 letters"):
        SubscriptionName(TopicName("a", "b", "c"), name)


def test_a_subscription_reads_back() -> None:
    name = SubscriptionName(TopicName("a", "b", "c"), "billing")
    assert SubscriptionName.parse(str(name)) == name
    with pytest.raises(InvalidRequest):
        SubscriptionName.parse("billing")


def test_system_topics_are_those_with_two_underscores() -> None:
    topic = TopicName("a", "b", "c")
    assert not topic.is_system
    assert topic.snapshot_topic().is_system
    assert str(topic.snapshot_topic()) == "a/b/__transaction_buffer_snapshot"
