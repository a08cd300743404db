from __future__ import annotations

import json

import pytest
from django.conf import LazySettings
from django.test import Client, RequestFactory

from engine.model.errors import (
    EngineError,
    InvalidRequest,
    LimitExceeded,
    SegmentUnreadable,
    TimeLimitExceeded,
    TopicInUse,
    TopicNotFound,
)
from txnconsole.console.page import failed


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequest("what", field="name"), 400),
        (TopicNotFound("which"), 404),
        (TopicInUse("by whom"), 409),
        (LimitExceeded("how many"), 429),
        (SegmentUnreadable("where"), 503),
        (TimeLimitExceeded(), 504),
        (EngineError("what nobody listed"), 500),
    ],
    ids=lambda value: value.code if isinstance(value, EngineError) else str(value),
)
def test_a_page_that_fails_has_the_status_that_the_same_error_has_over_rest(
    error: EngineError, status: int, rf: RequestFactory
) -> None:
    answer = failed(rf.get("/topics", headers={"Accept": "application/json"}), error)
    assert answer.status_code == status
    assert json.loads(answer.content) == {"code": error.code, "message": error.message}


def test_a_page_whose_time_is_over_before_it_is_known_who_asks_says_so(
    viewer: Client, settings: LazySettings
) -> None:
    settings.REQUEST_TIMEOUT_MS = 0
    answer = viewer.get("/transactions")
    assert answer.status_code == 504
    assert "not done in time" in answer.content.decode()
