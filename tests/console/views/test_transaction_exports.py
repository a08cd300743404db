"""The list as a file: all that the query matches, cut where it says so."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from engine import Engine
from tests.console.conftest import Orders, begin
from tests.console.support import asked
from txnconsole.console.views import transaction_exports


def body(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]


def test_csv_and_json_hold_what_the_query_matches(orders: Orders, viewer: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(body(viewer, "/transactions/export.csv?q=owner:alice"))))
    assert [row["txn_id"] for row in rows] == ["3:2", "3:1", "3:0"]
    assert rows[0]["client"] == "pod-7"
    found = json.loads(body(viewer, "/transactions/export.json?q=state:open"))
    assert [one["txn_id"] for one in found["transactions"]] == ["3:2"]
    assert (found["count"], found["cut"], found["note"]) == (1, False, None)
    none = json.loads(body(viewer, "/transactions/export.json?q=owner:nobody"))
    assert (none["transactions"], none["count"]) == ([], 0)
    one = json.loads(body(viewer, "/transactions/export.json?q=3:1"))
    assert one["count"] == 1


def test_a_file_that_is_cut_says_so(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_exports, "MAX_ROWS", 2)
    lines = body(viewer, "/transactions/export.csv").splitlines()
    assert len(lines) == 4
    assert "The list goes on" in lines[-1]
    found = json.loads(body(viewer, "/transactions/export.json"))
    assert (found["count"], found["cut"]) == (2, True)


def test_no_spreadsheet_runs_what_a_program_wrote(engine: Engine, viewer: Client) -> None:
    begin(engine, client="=HYPERLINK(1)")
    [row] = csv.DictReader(io.StringIO(body(viewer, "/transactions/export.csv")))
    assert row["client"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize("query", ["stat:open", "cursor=x&q=state:"])
def test_a_query_that_means_nothing_is_no_file(engine: Engine, viewer: Client, query: str) -> None:
    assert viewer.get(f"/transactions/export.csv?q={query}").status_code == 400
    assert viewer.get("/transactions/export.xls").status_code == 404


def test_the_list_costs_few_questions_whatever_is_on_it(
    engine: Engine, orders: Orders, viewer: Client
) -> None:
    for _ in range(45):
        begin(engine)
    viewer.get("/transactions")
    with asked() as questions:
        assert viewer.get("/transactions?q=state:open,committing").status_code == 200
    assert questions.count <= 8, questions.names


def test_the_number_that_matches_and_names_to_complete(
    engine: Engine, orders: Orders, operator: Client, viewer: Client
) -> None:
    assert operator.get("/transactions/count?q=owner:alice").json() == {"count": 1, "limit": 100}
    assert operator.get("/transactions/count?q=stat:x").status_code == 400
    assert operator.get("/transactions/count?q=state:aborted").status_code == 400
    topics = viewer.get("/transactions/suggestions?name=topic&part=ORD").json()
    assert topics == {"values": ["public/default/orders"]}
    assert viewer.get("/transactions/suggestions?name=sub&part=bil").json() == {
        "values": ["billing"]
    }


def test_timeouts_are_advised_from_what_has_ended(orders: Orders, viewer: Client) -> None:
    text = viewer.get("/transactions/timeouts").content.decode()
    assert "alice" in text
    assert "Too few to tell" in text
