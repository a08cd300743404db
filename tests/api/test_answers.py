"""The contract's examples of answers are answers: recorded from a server, and held to it.

``TXNCONSOLE_RECORD=1`` records them anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.api.conftest import Caller
from tests.api.operations import REQUESTS, request_of, world
from txnconsole.api.endpoint import operation_of
from txnconsole.api.examples import ANSWERS, ANSWERS_FILE
from txnconsole.api.operation import Operation
from txnconsole.api.urls import urlpatterns

__all__ = ["world"]

#: Items of a list that tell enough.
_ITEMS = 2


def answering() -> dict[str, Operation]:
    """The operations that answer a JSON document."""
    found = {}
    for pattern in urlpatterns:
        view = pattern.callback.cls
        for method in ("GET", "POST", "PUT", "DELETE"):
            operation = operation_of(view, method)
            if operation is None or operation.shape.answer is None or operation.shape.lines:
                continue
            found[operation.name] = operation
    return found


def test_every_answer_has_an_example_that_its_struct_takes() -> None:
    operations = answering()
    assert set(ANSWERS) == set(operations)
    for name, example in ANSWERS.items():
        answer = operations[name].shape.answer
        assert answer is not None
        msgspec.convert(example, answer)


@pytest.mark.deep
def test_the_examples_are_what_a_server_answers(
    world: Caller, as_role: Callable[..., Caller]
) -> None:
    own = world.open(client="billing-7", properties={"run": "4"})
    world.produce("delayed", txn_id=own)
    operations = answering()
    answers: dict[str, Any] = {}
    for name, (method, *_rest) in REQUESTS.items():
        if name not in operations:
            continue
        txn_id = own if method == "GET" else world.open()
        path = "?force=true" if name in ("deleteTopic", "deleteSubscription") else ""
        answer = request_of(world, name, txn_id, path)
        assert answer.status < 300, (name, answer.content)
        if name == "receiveMessages":
            assert answer.json["messages"]
        answers[name] = _short(answer.json)
    if os.environ.get("TXNCONSOLE_RECORD"):
        text = json.dumps(_public(answers), indent=1, sort_keys=True, ensure_ascii=False)
        ANSWERS_FILE.write_text(text + "\n")
        return
    assert {name: _members(answer) for name, answer in answers.items()} == {
        name: _members(ANSWERS[name]) for name in answers
    }


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return [_short(each) for each in value[:_ITEMS]] if isinstance(value, list) else value


def _public(value: Any) -> Any:
    """Secrets that a test was given are none, and look like what they stand for."""
    if isinstance(value, dict):
        return {
            name: "shown-once" if name == "secret" and each else _public(each)
            for name, each in value.items()
        }
    return [_public(each) for each in value] if isinstance(value, list) else value


def _members(answer: Any) -> set[str]:
    assert isinstance(answer, dict)
    return set(answer)
