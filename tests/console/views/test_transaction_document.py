"""The document of a transaction, read in a console: shown as it is, trusted in nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from engine import Engine
from engine.model.topic_name import TopicName
from tests.console.conftest import Orders, signed_in
from tests.console.questions import FRAME, Questions
from txnconsole.console.transaction_document import MAX_BYTES

ADDRESS = "/transactions/document"


def read(browser: Client, data: bytes) -> HttpResponse:
    return browser.post(ADDRESS, {"document": SimpleUploadedFile("t.json", data)})


def document(orders: Orders) -> dict[str, Any]:
    """What this console gives out of the open transaction."""
    answer = signed_in("operator").get(f"/transactions/{orders.open}/bundle.json")
    found: dict[str, Any] = json.loads(answer.content)
    return found


def test_the_list_of_transactions_leads_to_the_reader_and_the_reader_back(
    engine: Engine, viewer: Client
) -> None:
    link = '<a href="/transactions/document"{}>Read a document</a>'
    assert link.format("") in viewer.get("/transactions").content.decode()
    text = viewer.get(ADDRESS).content.decode()
    assert link.format(' aria-current="page"') in text
    assert '<a href="/transactions">All</a>' in text


def test_what_one_console_gives_out_another_shows(
    orders: Orders, engine: Engine, viewer: Client, questions: Questions
) -> None:
    given = document(orders)
    given["transaction"]["txn_id"] = "7:4242"  # Not of this console, and not asked about in it.
    given["partitions"][0]["partition"] = "elsewhere/default/orders:0"
    with questions.at_most(FRAME):
        answer = read(viewer, json.dumps(given).encode())
    text = answer.content.decode()
    assert answer.status_code == 200
    assert 'Transaction <span class="mono">7:4242</span> of another console' in text
    assert "elsewhere/default/orders:0" in text
    assert "/transactions/7:4242" not in text
    assert f"/topics/{TopicName('elsewhere', 'default', 'orders')}" not in text


def test_markup_in_a_document_is_text(orders: Orders, viewer: Client) -> None:
    given = document(orders)
    given["transaction"]["owner"] = "<script>alert(1)</script>"
    text = read(viewer, json.dumps(given).encode()).content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"format": "other"},
        {"transaction": {}},
        {"log": [{"log_id": "1"}]},
        {"partitions": None},
        {"as_of": "2026-01-01T00:00:00"},
        {"unavailable": {"b": "x" * 5_000}},
    ],
)
def test_what_is_no_document_is_refused_with_its_place(
    orders: Orders, viewer: Client, change: dict[str, Any]
) -> None:
    answer = read(viewer, json.dumps(document(orders) | change).encode())
    assert answer.status_code == 422
    assert "It is no document of a transaction" in answer.content.decode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no document"),
        (b"[" * 100_000, "no document"),
        (b"\xff", "no document"),
        (b" " * (MAX_BYTES + 1), "more than 4 MiB"),
    ],
)
def test_what_cannot_be_read_is_said(db: None, viewer: Client, data: bytes, said: str) -> None:
    answer = read(viewer, data)
    assert answer.status_code == 422
    assert said in answer.content.decode()


def test_without_a_file_the_form_says_so(viewer: Client) -> None:
    answer = viewer.post(ADDRESS)
    assert answer.status_code == 422
    assert "Choose a file." in answer.content.decode()
