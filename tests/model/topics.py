"""Rules: topics and subscriptions come, grow and go."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.model.subscription import InitialPosition, SubscriptionSettings, SubscriptionType
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import SubscriptionName, TopicName
from tests.engine.support import unreachable
from tests.model import looking
from tests.model.world import (
    BROKERS,
    DEAD_LETTERS,
    HOUR_MS,
    KIND,
    MAX_REDELIVERIES,
    SEGMENT_MAX,
    SIDECARS,
    SUBSCRIPTION,
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

    def unsubscribe(self, name: SubscriptionName, *, force: bool, away: str | None = None) -> None:
        """Without force not while a cumulative claim has no message left: whether it holds anything
        then depends on the markers that a reader has passed."""
        if name in self.subscriptions and not force:
            cursors = self.reference.subscription(name).cursors.values()
            if any(cursor.until.keys() - {*cursor.held.values()} for cursor in cursors):
                return
        self.equal(
            "unsubscribe by force" if force else "unsubscribe",
            lambda: {part.txn_id for part in self.engine.subscriptions.delete(name, force=force)},
            lambda: self.reference.unsubscribe(name, force=force, away=away),
        )

    @rule(
        name=SUBSCRIPTION,
        away=st.sampled_from([None, None, None, *BROKERS]),
        anew=st.sampled_from([True, True, False]),
        latest=st.booleans(),
        kind=KIND,
        max_redeliveries=MAX_REDELIVERIES,
    )
    def unsubscribe_by_force(
        self,
        *,
        name: SubscriptionName,
        away: str | None,
        anew: bool,
        latest: bool,
        kind: SubscriptionType,
        max_redeliveries: int | None,
    ) -> None:
        """Whatever is pending in it, and whether or not another broker than its home answers; most
        often it is made anew at once."""
        with ExitStack() as stack:
            if away is not None:
                stack.enter_context(unreachable(self.engine, away, patience=0.01))
            self.unsubscribe(name, force=True, away=away)
        if anew:
            self.subscribe(name, latest, kind, max_redeliveries)

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
            self.unsubscribe(name, force=False)
