"""Rules: topics and subscriptions come, grow and go."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.model.subscription import InitialPosition, SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import SubscriptionName, TopicName
from tests.model import looking
from tests.model.world import (
    DEAD_LETTERS,
    HOUR_MS,
    KIND,
    MAX_REDELIVERIES,
    SEGMENT_MAX,
    SIDECARS,
    SUBSCRIPTIONS,
    TOPICS,
    World,
)


class Topics(World):
    """Making and deleting."""

    def create(self, topic: TopicName, partitions: int) -> None:
        known = self.reference.topics.get(topic)
        if known is not None and partitions < len(known.partitions):
            return
        settings = TopicSettings(
            partitions=partitions,
            buffer=BufferKind.SIDECAR if topic in SIDECARS else BufferKind.MARKER,
            segment_max_messages=SEGMENT_MAX,
            retention_ms=HOUR_MS,
        )
        made, _ = self.engine.topics.create(topic, settings)
        self.reference.create_topic(topic, made.brokers, SEGMENT_MAX, sidecar=topic in SIDECARS)

    def delete_topic(self, topic: TopicName, force: bool) -> None:
        found = self.agree(
            "delete_topic",
            lambda: self.engine.topics.delete(topic, force=force),
            lambda: self.reference.delete_topic(topic, force=force),
        )
        if found is not None:
            looking.same(
                sorted({part.txn_id for part in found[0]}),
                sorted({txn_id for txn_id, _ in found[1]}),
                "whose part was aborted",
            )

    def subscribe(
        self,
        name: SubscriptionName,
        latest: bool,
        kind: SubscriptionType,
        max_redeliveries: int | None = None,
    ) -> None:
        position = InitialPosition.LATEST if latest else InitialPosition.EARLIEST
        self.agree(
            "subscribe",
            lambda: self.engine.subscriptions.create(
                name,
                SubscriptionSettings(
                    type=kind,
                    initial_position=position,
                    ack_timeout_ms=HOUR_MS,
                    consumer_lease_ms=HOUR_MS,
                    max_redeliveries=max_redeliveries,
                    dead_letter_topic=None if max_redeliveries is None else DEAD_LETTERS.topic,
                ),
            ),
            lambda: self.reference.subscribe(
                name, latest=latest, kind=kind, max_redeliveries=max_redeliveries
            ),
        )

    def unsubscribe(self, name: SubscriptionName) -> None:
        """Not while a cumulative claim has no message left: whether it holds anything then depends
        on the markers that a reader has passed."""
        if name in self.subscriptions:
            cursors = self.reference.subscription(name).cursors.values()
            if any(cursor.until.keys() - {*cursor.held.values()} for cursor in cursors):
                return
        self.agree(
            "unsubscribe",
            lambda: self.engine.subscriptions.delete(name),
            lambda: self.reference.unsubscribe(name),
        )

    @rule(
        topic=st.sampled_from(TOPICS[1:] * 5 + TOPICS),
        name=st.sampled_from(SUBSCRIPTIONS[1:]),
        change=st.sampled_from(["create", "grow", "delete", "force", "subscribe", "unsubscribe"]),
        latest=st.booleans(),
        kind=KIND,
        max_redeliveries=MAX_REDELIVERIES,
    )
    def rearrange(
        self,
        *,
        topic: TopicName,
        name: SubscriptionName,
        change: str,
        latest: bool,
        kind: SubscriptionType,
        max_redeliveries: int | None,
    ) -> None:
        if change in ("create", "grow"):
            self.create(topic, 1 if change == "create" else 3)
        elif change in ("delete", "force"):
            self.delete_topic(topic, force=change == "force")
        elif change == "subscribe":
            self.subscribe(name, latest, kind, max_redeliveries)
        else:
            self.unsubscribe(name)
