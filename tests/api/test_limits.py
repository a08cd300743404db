"""Every list is bounded, and says so in the contract."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.urls import URLPattern

from txnconsole.api.endpoint import operation_of
from txnconsole.api.limits import PAGE_ITEMS
from txnconsole.api.operation import Operation
from txnconsole.api.urls import urlpatterns

#: Short by nature: the roles, the kinds of runs; or the first page of another.
SHORT = {"listGroups", "listPipelineJobs", "getJob"}


def lists() -> list[Operation]:
    """Every operation whose answer has a ``next_cursor``."""
    found = []
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        operation = operation_of(pattern.callback.cls, "GET")
        if operation is None or operation.shape.answer is None:
            continue
        if "next_cursor" in operation.shape.answer.__struct_fields__:
            found.append(operation)
    return found


def parameters(operation: Operation) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([operation.shape.query])
    properties: dict[str, Any] = components[operation.shape.query.__name__]["properties"]
    return properties


@pytest.mark.parametrize("operation", lists(), ids=lambda operation: operation.name)
def test_a_list_goes_on_by_cursor_and_no_page_is_above_the_limit(operation: Operation) -> None:
    if operation.name in SHORT:
        return
    found = parameters(operation)
    assert "cursor" in found
    limit = found.get("limit") or found["max_messages"]
    assert limit["minimum"] >= 1
    if "limit" in found:
        assert limit["maximum"] == PAGE_ITEMS
        assert limit["default"] == 50


def test_the_lists_are_found() -> None:
    names = {operation.name for operation in lists()}
    assert {"listTransactions", "listTopics", "listSubscriptions", "listAudit"} < names
    assert names > SHORT
