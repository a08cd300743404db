"""Every operation with every role, in one table; an operation that it does not name fails."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.urls import URLPattern

from engine import Engine
from engine.model.topic import TopicSettings
from engine.model.topic_name import TopicName
from tests.api.conftest import TOPIC, Caller
from tests.api.operations import ALLOWED, OP, REQUESTS, A, C, P, V, request, world
from txnconsole.access.roles import Role
from txnconsole.api.endpoint import operation_of
from txnconsole.api.urls import urlpatterns

__all__ = ["world"]

pytestmark = pytest.mark.deep

_DONE = (200, 201, 202, 204)
#: About topics: refused to a token whose patterns do not match them.
ABOUT_TOPICS = {
    *(name for name, (_, path, _body) in REQUESTS.items() if path.startswith("/topics/")),
    "addPartitions",
    "addSubscriptions",
}
#: About all topics: refused to a token that is limited to some, whichever they are.
ABOUT_ALL_TOPICS = {
    *(
        name
        for name, (_, path, _body) in REQUESTS.items()
        if path.startswith(("/alerts", "/tokens", "/users", "/groups", "/masking"))
    ),
    "startPipelineRun",
    "repeatPipelineRun",
}
#: About another's transaction, where the role may ask at all. To a program it does not exist;
#: people see it and may abort it, and nobody but its owner uses or commits it.
ANOTHERS: dict[str, dict[Role, int]] = {
    **{
        name: {V: 200, P: 404, C: 404, OP: 200, A: 200}
        for name in (
            "getTransaction",
            "getTransactionLog",
            "getTransactionOutcome",
            "getTransactionImpact",
            "getTransactionDocument",
            "getTransactionParticipants",
        )
    },
    "abortTransaction": {P: 404, C: 404, OP: 200, A: 200},
    **{
        name: {P: 404, C: 404, A: 403}
        for name in ("addPartitions", "addSubscriptions", "commitTransaction", "extendTransaction")
    },
    "endGroup": {P: 404, C: 404, A: 404},
}


def operations() -> list[str]:
    """Every operation behind the URLconf."""
    found = []
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view = pattern.callback.cls
        for method in view.http_method_names:
            operation = operation_of(view, method)
            if operation is not None and method != "head":
                found.append(operation.name)
    return found


def test_the_table_names_every_operation_once() -> None:
    assert sorted(operations()) == sorted(ALLOWED) == sorted(REQUESTS)


@pytest.mark.deep
@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_the_table_says_and_nothing_else(
    role: Role, world: Caller, as_role: Callable[..., Caller]
) -> None:
    caller = as_role(role)
    programs = as_role("producer", user=role.value)
    wrong = {}
    for name, roles in ALLOWED.items():
        status = request(caller, name, programs.open())
        expected = role in roles
        if (status < 300) is not expected or (not expected and status != 403):
            wrong[name] = status
    assert wrong == {}


def test_nobody_may_do_anything_without_a_token(
    world: Caller, as_role: Callable[..., Caller]
) -> None:
    own = as_role("producer").open()
    for caller in (Caller(), Caller("txc_" + "A" * 43), Caller("")):
        assert {name: request(caller, name, own) for name in ALLOWED} == dict.fromkeys(ALLOWED, 401)


@pytest.mark.parametrize("role", list(Role))
def test_topics_outside_the_patterns_are_refused_to_every_role_alike(
    role: Role, world: Caller, as_role: Callable[..., Caller]
) -> None:
    """Whether they exist or not, so that a refusal tells nothing."""
    caller = as_role(role, topics="public/other/*")
    own = as_role("producer", user=role.value).open()
    named = ABOUT_TOPICS | ABOUT_ALL_TOPICS
    assert {name: request(caller, name, own) for name in named} == dict.fromkeys(named, 403)
    assert caller.get("/topics/public/default/unknown").is_problem(403, "PermissionDenied")
    assert caller.get("/topics").json["items"] == []


@pytest.mark.deep
@pytest.mark.parametrize("role", list(Role))
def test_within_its_patterns_a_token_may_what_its_role_may_but_what_is_about_all_topics(
    role: Role, world: Caller, as_role: Callable[..., Caller]
) -> None:
    caller = as_role(role, topics="public/default/*")
    own = as_role("producer", user=role.value).open()
    wrong = {}
    for name in REQUESTS:  # In the order of the table: what deletes comes last.
        if role in ALLOWED[name] and name in ABOUT_TOPICS | ABOUT_ALL_TOPICS:
            status = request(caller, name, own)
            if (status == 403) is not (name in ABOUT_ALL_TOPICS) or status not in (*_DONE, 403):
                wrong[name] = status
    assert wrong == {}


@pytest.mark.usefixtures("topic")
def test_dead_letters_go_to_no_topic_outside_the_patterns(
    as_role: Callable[..., Caller], engine: Engine
) -> None:
    caller = as_role("consumer", topics="public/default/flights*")
    for name in ("public/default/flights-dead", "public/default/secret"):
        engine.topics.create(TopicName.parse(name), TopicSettings())
    path = f"/topics/{TOPIC}/subscriptions/new"
    for elsewhere in ("public/default/secret", "public/default/nowhere"):
        letters = {"max_redeliveries": 1, "dead_letter_topic": elsewhere}
        assert caller.put(path, letters).is_problem(403, "PermissionDenied")
    assert caller.get(path).status == 404
    letters = {"max_redeliveries": 1, "dead_letter_topic": "public/default/flights-dead"}
    assert caller.put(path, letters).status == 201


def test_the_table_of_ownership_names_every_operation_on_a_transaction() -> None:
    about = {
        name
        for name, (_, path, body) in REQUESTS.items()
        if "{own}" in path or "{own}" in json.dumps(body)
    }
    assert about == set(ANOTHERS)
    assert {name: set(roles) for name, roles in ANOTHERS.items()} == {
        name: ALLOWED[name] for name in about
    }


@pytest.mark.parametrize("role", list(Role))
def test_anothers_transaction_is_seen_aborted_and_used_as_the_table_says(
    role: Role, world: Caller, as_role: Callable[..., Caller]
) -> None:
    owner, caller = as_role("producer", user="somebody-else"), as_role(role)
    answers, statuses = {}, {}
    expected = {name: roles[role] for name, roles in ANOTHERS.items() if role in roles}
    for name in expected:
        others = owner.open()
        answers[name] = request(caller, name, others)
        statuses[name] = owner.get(f"/transactions/{others}").json["status"]
    assert answers == expected
    done = {name for name, status in answers.items() if status == 200}
    assert {name for name, status in statuses.items() if status != "OPEN"} == done & {
        "abortTransaction"
    }


def test_a_program_lists_its_own_transactions_whatever_it_asks_for(
    as_role: Callable[..., Caller],
) -> None:
    mine, other = as_role("producer", user="me"), as_role("producer", user="other")
    own = mine.open()
    other.open()
    for query in ("", "?owner=other", "?owner=me"):
        items = mine.get(f"/transactions{query}").json["items"]
        assert [item["txn_id"] for item in items] == [own]
    assert len(as_role("viewer").get("/transactions").json["items"]) == 2


@pytest.mark.parametrize("header", ["Basic dXNlcjpw", "Bearer", "Bearer ", "Token x", "Bearer é"])
def test_a_malformed_authorization_header_is_refused_with_a_challenge(
    header: str, as_role: Callable[..., Caller]
) -> None:
    answer = Caller().send("GET", "/topics", Authorization=header)
    assert answer.is_problem(401, "NotAuthenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_token_in_the_query_string_is_no_token(as_role: Callable[..., Caller]) -> None:
    answer = Caller().get("/topics?token=x&access_token=x")
    assert answer.is_problem(401, "NotAuthenticated")
    assert "Authorization: Bearer <token>" in answer.json["detail"]
