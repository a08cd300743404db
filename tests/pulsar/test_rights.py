"""Who may do what on Pulsar's paths."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.urls import URLPattern

from engine import Engine
from engine.model.subscription import SubscriptionSettings
from engine.model.topic_name import SubscriptionName, TopicName
from tests.api.conftest import TOPIC, Caller
from tests.pulsar.operations import P0, TABLE, status
from txnconsole.access.roles import Role
from txnconsole.api.endpoint import operation_of
from txnconsole.pulsar.urls import urlpatterns

pytestmark = pytest.mark.deep


def test_the_table_names_every_operation() -> None:
    found = set()
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view = pattern.callback.cls
        for method in ("GET", "POST"):
            operation = operation_of(view, method)
            if operation is not None:
                found.add(operation.name)
    assert found == set(TABLE)


@pytest.fixture
def world(engine: Engine, topic: str) -> None:
    name = SubscriptionName(TopicName.parse(TOPIC), "s")
    engine.subscriptions.create(name, SubscriptionSettings())


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_the_table_says(
    role: Role, world: None, as_role: Callable[..., Caller], program: Caller
) -> None:
    caller = as_role(role)
    answers = {name: status(caller, name, program.open()) for name in TABLE}
    expected = {name: role in may for name, (_, _, may) in TABLE.items()}
    assert {name: answer < 300 for name, answer in answers.items()} == expected
    assert {answers[name] for name, may in expected.items() if not may} <= {403}


def test_nobody_may_anything_without_a_token(world: None, program: Caller) -> None:
    own = program.open()
    assert {status(Caller(), name, own) for name in TABLE} == {401}


def test_topics_outside_the_patterns_are_refused(
    world: None, as_role: Callable[..., Caller], program: Caller
) -> None:
    caller = as_role("admin", topics="public/other/*")
    own = program.open()
    named = [name for name, (_, path, _) in TABLE.items() if P0 in path]
    assert {name: status(caller, name, own) for name in named} == dict.fromkeys(named, 403)


def test_an_abort_is_in_the_audit_log(
    world: None, as_role: Callable[..., Caller], program: Caller
) -> None:
    own = program.open()
    operator = as_role("operator", user="olga")
    assert status(operator, "pulsarAbortTransaction", own) == 204
    entry = operator.get("/audit?limit=1").json["items"][0]
    assert (entry["who"], entry["action"]) == ("olga", "transaction.abort")
    assert entry["object"] == f"transaction:{own}"
    assert (entry["before"]["status"], entry["after"]["status"]) == ("OPEN", "ABORTING")
    assert "Pulsar" in entry["reason"]
