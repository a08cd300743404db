"""Topics (design/api.md, Topics, partitions, messages)."""

from __future__ import annotations

from engine.model.topic import TopicSettings
from txnconsole.access.roles import Permission
from txnconsole.api.endpoint import Endpoint, TopicEndpoint
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.structs.topics import (
    DeletedTopic,
    DeleteTopic,
    ListTopics,
    PutTopic,
    Topic,
    TopicPage,
)
from txnconsole.enginedb.wiring import engine
from txnconsole.operations import topics as operations


class Topics(Endpoint):
    @operation(
        "listTopics",
        Permission.TOPIC_READ,
        Shape(query=ListTopics, answer=TopicPage),
        summary="List topics",
    )
    def get(self, call: Call[None, ListTopics]) -> TopicPage:
        """By name. Topics outside the caller's patterns are left out, so a page may be short."""
        page = engine().topics.list(
            limit=call.query.limit,
            cursor=call.query.cursor,
            include_system=call.query.include_system,
        )
        return TopicPage(
            items=[Topic.of(each) for each in page.items if call.principal.may_use(each.name)],
            next_cursor=page.next_cursor,
        )


class OneTopic(TopicEndpoint):
    @operation("getTopic", Permission.TOPIC_READ, Shape(answer=Topic), summary="Show a topic")
    def get(self, call: Call[None, NoQuery]) -> Topic:
        """Its settings, and the broker of each of its partitions."""
        return Topic.of(engine().topics.get(self.topic))

    @operation(
        "putTopic",
        Permission.TOPIC_CHANGE,
        Shape(keyed=True, body=PutTopic, answer=Topic, statuses=(200, 201)),
        summary="Create a topic",
    )
    def put(self, call: Call[PutTopic, NoQuery]) -> Reply:
        """201 when it was created, 200 when it exists with these settings.

        `partitions` may grow and the retention may change. Anything that would change data is 409
        `TopicConflict`, which names it in `differences`. Settings that are left out stay as they
        are.
        """
        given = call.body.given()
        settings = TopicSettings(**given)
        topic, created = operations.put(self.actor(), self.topic, settings, given=given)
        return Reply(Topic.of(topic), 201 if created else 200)

    @operation(
        "deleteTopic",
        Permission.TOPIC_CHANGE,
        Shape(keyed=True, query=DeleteTopic, answer=DeletedTopic, statuses=(200, 204)),
        summary="Delete a topic",
    )
    def delete(self, call: Call[NoBody, DeleteTopic]) -> DeletedTopic | None:
        """Deletes its messages and subscriptions too; 409 `TopicInUse` while a transaction holds
        any.

        With `force`, what transactions have in it is aborted, and a 200 names these transactions,
        which otherwise go on.
        """
        force = call.query.force
        parts = operations.delete(self.actor(), self.topic, force=force)
        return DeletedTopic.of(self.topic, parts) if force else None
