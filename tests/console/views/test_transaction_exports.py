"""The list as a file: all that the query matches, cut where it says so."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client

from engine import Engine
from engine.model.message import NewMessage
from engine.model.topic import TopicSettings
from tests.console.conftest import SECRET, Orders, begin, file_of
from tests.console.support import asked
from tests.engine.support import unreachable
from txnconsole.console.views import transaction_exports


def test_csv_and_json_hold_what_the_query_matches(orders: Orders, viewer: Client) -> None:
    rows = list(
        csv.DictReader(io.StringIO(file_of(viewer, "/transactions/export.csv?q=owner:alice")))
    )
    assert [row["txn_id"] for row in rows] == ["3:2", "3:1", "3:0"]
    assert rows[0]["client"] == "pod-7"
    found = json.loads(file_of(viewer, "/transactions/export.json?q=state:open"))
    assert [one["txn_id"] for one in found["transactions"]] == ["3:2"]
    assert (found["count"], found["cut"], found["note"]) == (1, False, None)
    none = json.loads(file_of(viewer, "/transactions/export.json?q=owner:nobody"))
    assert (none["transactions"], none["count"]) == ([], 0)
    one = json.loads(file_of(viewer, "/transactions/export.json?q=3:1"))
    assert one["count"] == 1


def test_a_file_that_is_cut_says_so(
    orders: Orders, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_exports, "MAX_ROWS", 2)
    lines = file_of(viewer, "/transactions/export.csv").splitlines()
    assert len(lines) == 4
    assert "The list goes on" in lines[-1]
    found = json.loads(file_of(viewer, "/transactions/export.json"))
    assert (found["count"], found["cut"]) == (2, True)


def test_no_spreadsheet_runs_what_a_program_wrote(engine: Engine, viewer: Client) -> None:
    begin(engine, client="=HYPERLINK(1)")
    [row] = csv.DictReader(io.StringIO(file_of(viewer, "/transactions/export.csv")))
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


def test_a_transaction_is_one_document_without_payloads(
    orders: Orders, operator: Client, viewer: Client
) -> None:
    operator.post(f"/transactions/{orders.open}/abort", {"reason": "x"})
    operator.post(f"/transactions/{orders.open}/abort", {"reason": "it hangs for hours"})
    answer = operator.get(f"/transactions/{orders.open}/bundle.json")
    assert answer["Content-Disposition"].startswith('attachment; filename="transaction-3-2-')
    text = answer.content.decode()
    assert SECRET not in text
    assert "k-second" not in text
    told = json.loads(text)
    assert (told["format"], told["version"]) == ("txnconsole/transaction", 1)
    assert told["transaction"]["status"] == "ABORTING"
    assert [each["operation"] for each in told["log"]][:2] == ["NEW", "ADD_PARTITION"]
    [part] = told["partitions"]
    assert (part["partition"], part["first_offset"], part["says"]) == (
        str(orders.partition), 5, "OPEN",
    )  # fmt: skip
    assert told["acknowledgements"] == [
        {
            "subscription": str(orders.subscription),
            "partition": str(orders.partition),
            "messages": 1,
            "offsets": [[1, 1]],
        }
    ]
    assert [each["reason"] for each in told["audit"]] == ["it hangs for hours"]
    assert (told["unavailable"], told["cut"], told["not_listed"]) == ({}, [], [])
    assert (
        json.loads(viewer.get(f"/transactions/{orders.open}/bundle.json").content)["audit"] is None
    )
    ended = json.loads(viewer.get(f"/transactions/{orders.committed}/bundle.json").content)
    assert (ended["agreed"], ended["partitions"][0]["marker_offset"]) == (True, 2)
    assert viewer.get("/transactions/3:99/bundle.json").status_code == 404


def test_the_document_of_a_transaction_names_a_broker_that_is_away(
    orders: Orders, engine: Engine, viewer: Client
) -> None:
    broker = engine.topics.get(orders.partition.topic).brokers[0]
    with unreachable(engine, broker):
        told = json.loads(viewer.get(f"/transactions/{orders.open}/bundle.json").content)
    assert list(told["unavailable"]) == [broker]
    assert told["agreed"] is None
    assert told["partitions"][0]["says"] == "UNAVAILABLE"


def test_the_document_tells_a_topic_that_is_made_anew_from_the_one_before(
    orders: Orders, engine: Engine, operator: Client
) -> None:
    engine.topics.delete(orders.partition.topic, force=True)
    engine.topics.create(orders.partition.topic, TopicSettings(partitions=1))
    engine.produce(orders.partition, [NewMessage(payload=b"anew")], txn_id=orders.open)
    document = json.loads(operator.get(f"/transactions/{orders.open}/bundle.json").content)
    told = [(part["recorded"], part["says"]) for part in document["partitions"]]
    assert sorted(told) == [("aborted", "GONE"), ("pending", "OPEN")]
    assert document["not_listed"] == []
