"""Request ids, and the line about each request."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from txnconsole import logs
from txnconsole.api.errors import problem
from txnconsole.request_log import RequestLogMiddleware


def answer(path: str, **headers: str) -> HttpResponse:
    """The answer of a view that logs something itself."""

    def view(_request: HttpRequest) -> HttpResponse:
        logging.getLogger("some.library").warning("inside")
        return HttpResponse(status=204)

    return RequestLogMiddleware(view)(RequestFactory().get(path, headers=headers))


def test_a_callers_id_is_kept_when_it_is_plain() -> None:
    assert answer("/x", **{"X-Request-ID": "abc-1.2:3"})["X-Request-ID"] == "abc-1.2:3"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, 'a"b', "ü"])
def test_any_other_id_is_replaced(given: str) -> None:
    request_id = answer("/x", **{"X-Request-ID": given})["X-Request-ID"]
    assert request_id != given
    assert len(request_id) == 32


def test_every_line_of_a_request_carries_its_id_and_none_its_query(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # Put back after the test.
    logs.configure(level="INFO", human=False)
    response = answer("/x?secret=1", **{"X-Request-ID": "id-1"})
    said = capfd.readouterr().err
    lines = [json.loads(line) for line in said.splitlines()]

    assert response.status_code == 204
    assert [line["event"] for line in lines] == ["inside", "request"]
    assert {line["request_id"] for line in lines} == {"id-1"}
    assert lines[1]["path"] == "/x"
    assert lines[1]["status"] == 204
    assert "secret" not in said


def test_the_line_of_a_request_that_was_refused_names_the_code_and_the_next_ones_does_not(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # Put back after the test.
    logs.configure(level="INFO", human=False)
    refusing = RequestLogMiddleware(lambda request: problem(request, "SegmentUnreadable", "…"))
    refusing(RequestFactory().get("/x"))
    answer("/y")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    told = {line["path"]: line for line in lines if line["event"] == "request"}
    assert (told["/x"]["status"], told["/x"]["code"]) == (503, "SegmentUnreadable")
    assert "code" not in told["/y"]


def test_probes_and_assets_are_not_told() -> None:
    with structlog.testing.capture_logs() as told:
        answer("/healthz")
        answer("/static/app.css")
    assert told == []


def test_a_line_that_cannot_be_written_fails_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    logs.configure(level="INFO", human=False)
    with io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert answer("/x").status_code == 204
    assert full.closed
    assert answer("/x").status_code == 204
