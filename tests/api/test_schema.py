from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import msgspec
import pytest
from django.core.management import call_command

from tests.api.conftest import Caller
from tests.api.operations import ALLOWED
from txnconsole.api.endpoint import operation_of
from txnconsole.api.examples import BODIES
from txnconsole.api.urls import urlpatterns


@pytest.fixture(scope="module")
def document() -> Any:
    return _generated()


@pytest.mark.deep
def test_the_contract_is_valid_openapi_without_a_warning() -> None:
    assert _generated("--fail-on-warn", "--validate")["openapi"].startswith("3.1")


def test_every_operation_is_in_it_with_its_errors(document: Any) -> None:
    found = {
        operation["operationId"]: operation
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert set(found) == set(ALLOWED)
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"], name
        assert {"4XX", "5XX"} < set(operation["responses"]), name
        problems = operation["responses"]["4XX"]["content"]
        assert list(problems) == ["application/problem+json"], name


def test_every_body_has_an_example_that_the_call_takes(document: Any) -> None:
    with_body = {
        operation["operationId"]: operation["requestBody"]["content"]["application/json"]
        for path in document["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    }
    bodies = {
        operation.name: operation.shape.body
        for pattern in urlpatterns
        for method in ("POST", "PUT", "DELETE")
        if (operation := operation_of(pattern.callback.cls, method)) is not None
    }
    assert set(BODIES) == set(with_body)
    for name, content in with_body.items():
        [example] = content["examples"].values()
        msgspec.json.Decoder(bodies[name]).decode(msgspec.json.encode(example["value"]))


def test_every_reference_leads_somewhere(document: Any) -> None:
    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        if isinstance(node, list):
            return set().union(*(references(value) for value in node))
        return set()

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document["paths"]) <= known
    assert references(document["components"]) <= known


@pytest.mark.parametrize(
    ("body", "field", "told"),
    [
        ("OpenTransaction", "timeout_ms", "60000 when it is left out."),
        ("ExtendTransaction", "timeout_ms", "3600000 at most."),
        ("PutTopic", "segment_max_messages", "100000 when it is left out of a new topic."),
        ("PutTopic", "segment_max_bytes", "268435456 when it is left out of a new topic."),
    ],
)
def test_the_contract_tells_the_engines_own_limits_and_defaults(
    document: Any, body: str, field: str, told: str
) -> None:
    assert document["components"]["schemas"][body]["properties"][field]["description"] == told


def test_the_hot_calls_speak_messagepack_too(document: Any) -> None:
    path = "/api/v1/topics/{tenant}/{namespace}/{topic}/partitions/{partition}/messages"
    produce, fetch = document["paths"][path]["post"], document["paths"][path]["get"]
    media_types = {"application/json", "application/msgpack"}
    assert set(produce["requestBody"]["content"]) == media_types
    assert set(fetch["responses"]["200"]["content"]) == media_types


def test_the_server_publishes_the_same_document_to_everybody(document: Any, db: None) -> None:
    answer = Caller().get("/schema")
    assert answer.status == 200
    assert answer.json["paths"].keys() == document["paths"].keys()


def test_the_page_brings_its_own_assets_and_no_inline_script(
    db: None, as_role: Callable[..., Caller]
) -> None:
    answer = Caller().get("/docs", Accept="text/html")
    assert answer.status == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    page = answer.content.decode()
    assert "//" not in page.replace("<!doctype", "")
    assert "<script>" not in page


def _generated(*options: str) -> Any:
    output = StringIO()
    call_command("spectacular", "--format", "openapi-json", *options, stdout=output)
    return msgspec.json.decode(output.getvalue())
