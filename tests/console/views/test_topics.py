"""The list of topics, a topic, and what an administrator changes of them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from engine import Engine
from engine.log.topics import Topics
from engine.model.errors import TopicNotFound
from engine.model.topic import BufferKind, TopicSettings
from engine.model.topic_name import TopicName
from tests.console.conftest import TOPIC, Orders, fault_beside, signed_in, words
from tests.engine.support import unreachable
from txnconsole.audit.models import AuditEntry

REASON = "a new feed of settlements begins"
NEW = {"topic": "public/default/new", "partitions": "3", "buffer": "sidecar", "hours": "48"}


@pytest.fixture
def admin(db: None) -> Client:
    """A browser in which an administrator is signed in."""
    return signed_in("admin")


def test_the_list_names_the_partition_that_hides_most(orders: Orders, viewer: Client) -> None:
    text = words(viewer, "/topics")
    assert f"3 partition 0 , {orders.open}" in text
    assert re.search(rf"{TOPIC} 2 marker 8 (not known yet|[\d.]+) 3 partition 0", text)


def test_what_a_new_topic_gets_and_aborts_is_not_known_before_it_was_sampled(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TopicName("public", "default", "new")
    engine.topics.create(name, TopicSettings(partitions=1))
    found = words(viewer, f"/topics/{name}")
    assert "Aborted in the last hour not known yet" in found
    assert "Messages a second not known yet" in found
    assert words(viewer, "/topics").count("not known yet") == 2
    monkeypatch.setattr("txnconsole.console.views.topics._MEASURED", timedelta())
    found = words(viewer, f"/topics/{name}")
    assert "Aborted in the last hour nothing ended" in found
    assert "Messages a second 0" in found
    assert "quiet" in words(viewer, "/topics")


def test_numbers_of_partitions_are_written_as_all_are_and_what_is_unknown_is_of_no_part(
    engine: Engine, viewer: Client
) -> None:
    engine.topics.create(TOPIC, TopicSettings(partitions=1_000))
    assert "1,000 partitions, marker buffer" in words(viewer, f"/topics/{TOPIC}")
    listed = words(viewer, "/topics")
    assert f"{TOPIC} 1,000 marker empty 0 not known yet 0" in listed


def test_a_topic_with_many_partitions_has_pages(engine: Engine, viewer: Client) -> None:
    wide = TopicName("public", "default", "wide")
    engine.topics.create(wide, TopicSettings(partitions=30))
    first = viewer.get(f"/topics/{wide}").content.decode()
    assert first.count('id="partition-') == 25
    second = viewer.get(f"/topics/{wide}?from=25").content.decode()
    assert second.count('id="partition-') == 5
    assert re.search(r"5 of 30", second)


def test_partitions_of_a_broker_that_is_away_say_so_beside_the_others(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    with unreachable(engine, engine.topics.get(TOPIC).brokers[1]):
        text = words(viewer, f"/topics/{TOPIC}")
        assert "Partition 1 broker" in text
        assert "Cannot be read now" in text
        assert str(orders.open) in text
        assert "Its partitions are not counted." in text
        listed = words(viewer, "/topics")
        assert "cannot be reached" in listed
        assert "What it has is not counted below." in listed


def test_a_topic_that_no_broker_tells_of_is_called_neither_empty_nor_quiet(
    engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnconsole.console.views.topics._MEASURED", timedelta())
    engine.topics.create(TOPIC, TopicSettings(partitions=1))
    assert f"{TOPIC} 1 marker empty 0 quiet 0" in words(viewer, "/topics")
    with unreachable(engine, engine.topics.get(TOPIC).brokers[0]):
        listed = words(viewer, "/topics")
    assert f"{TOPIC} 1 some unreachable marker – – not known – – –" in listed


def test_an_administrator_creates_a_topic_with_a_reason(engine: Engine, admin: Client) -> None:
    assert "Create a topic" in words(admin, "/topics/new")
    assert admin.post("/topics/new", NEW).status_code == 422
    answer = admin.post("/topics/new", {**NEW, "reason": REASON})
    assert (answer.status_code, answer["Location"]) == (302, "/topics/public/default/new")
    settings = engine.topics.get(TopicName.parse(NEW["topic"])).settings
    assert (settings.partitions, settings.buffer) == (3, BufferKind.SIDECAR)
    assert (settings.retention_ms, settings.deduplication) == (48 * 3_600_000, False)
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.object, entry.reason) == (
        "topic.put",
        "topic:public/default/new",
        REASON,
    )


def test_where_there_is_no_topic_an_administrator_can_create_it(
    engine: Engine, admin: Client, operator: Client
) -> None:
    answer = admin.get("/topics/public/default/missing")
    assert answer.status_code == 404
    address = "/topics/new?topic=public/default/missing"
    assert f'href="{address}"' in answer.content.decode()
    assert 'name="topic" value="public/default/missing"' in admin.get(address).content.decode()
    assert "needs <span" in operator.get("/topics/public/default/missing").content.decode()
    region = admin.get("/topics/public/default/missing", HTTP_HX_REQUEST="true")
    assert region.status_code == 404
    assert "Create topic" not in region.content.decode()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"topic": "orders"}, "tenant/namespace/topic"),
        ({"partitions": "0"}, "greater than or equal to 1"),
        ({"topic": str(TOPIC)}, "exists with other settings"),
        ({"topic": "public/default/__own"}, "system topic"),
    ],
)
def test_a_topic_that_cannot_be_is_told_so_in_the_form(
    orders: Orders, admin: Client, change: dict[str, str], told: str
) -> None:
    answer = admin.post("/topics/new", {**NEW, "reason": REASON, **change})
    assert answer.status_code in (409, 422)
    assert told in answer.content.decode()


def test_creating_a_topic_leaves_one_that_is_there_as_it_is(engine: Engine, admin: Client) -> None:
    name = TopicName.parse(NEW["topic"])
    body = {**NEW, "reason": REASON}
    assert admin.post("/topics/new", body).status_code == 302
    before = engine.topics.get(name, fresh=True).settings
    for change in ({"hours": "1"}, {"hours": ""}, {"partitions": "4"}):
        answer = admin.post("/topics/new", {**body, **change})
        assert answer.status_code == 409
        assert "exists with other settings" in answer.content.decode()
        assert engine.topics.get(name, fresh=True).settings == before
    assert admin.post("/topics/new", body).status_code == 302  # Sent twice.


def test_a_topic_that_somebody_else_creates_at_that_moment_stays_as_it_is_too(
    engine: Engine, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TopicName.parse(NEW["topic"])
    theirs = TopicSettings(partitions=3, buffer=BufferKind.SIDECAR, deduplication=False)
    real = Topics.create

    def overtaken(self: Topics, *args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        engine.topics.create(name, theirs)
        return real(self, *args, **options)

    monkeypatch.setattr(Topics, "create", overtaken)
    answer = admin.post("/topics/new", {**NEW, "reason": REASON, "hours": "1"})
    assert (answer.status_code, engine.topics.get(name, fresh=True).settings) == (409, theirs)
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.result) == ("topic.put", "TopicConflict")


def test_a_topic_is_deleted_under_its_name_and_when_nobody_holds_it(
    orders: Orders, engine: Engine, admin: Client
) -> None:
    here = f"/topics/{TOPIC}/delete"
    assert "It has messages of 1 open transaction." in words(admin, here)
    wrong = admin.post(here, {"name": "orders", "reason": REASON})
    assert wrong.status_code == 409
    assert "The name to write is" in fault_beside(wrong, "name")
    held = admin.post(here, {"name": str(TOPIC), "reason": REASON})
    assert held.status_code == 409
    assert str(orders.open) in held.content.decode()
    body = {"name": str(TOPIC), "reason": REASON, "force": "on"}
    done = admin.post(here, body, headers={"HX-Request": "true"})
    assert (done.status_code, done["HX-Redirect"]) == (204, "/topics")
    with pytest.raises(TopicNotFound):
        engine.topics.get(TOPIC, fresh=True)
    results = [each.result for each in AuditEntry.objects.order_by("-sequence")[:2]]
    assert results == ["done", "TopicInUse"]
    assert str(orders.open) in AuditEntry.objects.order_by("-sequence")[0].after


def test_topics_are_changed_by_administrators_only(orders: Orders, operator: Client) -> None:
    assert "Create topic… needs topic.change" in words(operator, "/topics")
    for address in ("/topics/new", f"/topics/{TOPIC}/delete"):
        assert operator.get(address).status_code == 403
        assert operator.post(address, {"reason": REASON}).status_code == 403
