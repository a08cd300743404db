"""The audit log's page: filters that stand in the address, and the same entries as a file."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from django.db import connections
from django.test import Client

from tests.console.conftest import file_of, signed_in
from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission
from txnconsole.audit.models import AuditEntry
from txnconsole.audit.recording import Actor, Change, record
from txnconsole.console.live.audit_feed import AuditFeed
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.hub import look

pytestmark = pytest.mark.django_db

ABORTED = "transaction.abort"


@pytest.fixture
def entries() -> list[AuditEntry]:
    """Ann aborts with a reason that a spreadsheet would run, a program opens, Bob scales."""
    record(Change(Actor("ann", request_id="r-1"), ABORTED, "transaction:3:1", "=1+1 is left"))
    record(Change(Actor("feed", token_id=7), "transaction.open", "transaction:3:2"))
    record(Change(Actor("bob"), "coordinator.scale", "coordinators"))
    return list(AuditEntry.objects.order_by("sequence"))


def listed(client: Client, query: str) -> list[str]:
    """Who did what the page shows, newest first."""
    text = client.get(f"/audit{query}").content.decode()
    return [name for name in ("bob", "feed", "ann") if f"<td>{name}" in text]


def test_a_change_without_the_right_to_it_is_recorded() -> None:
    viewer = signed_in("viewer")
    assert viewer.get("/settings/users").status_code == 403
    assert viewer.post("/settings/users", {"name": "eve"}).status_code == 403
    assert viewer.post("/settings/masking", {"topics": "*"}).status_code == 403
    found = AuditEntry.objects.order_by("sequence").values_list("who", "action", "object", "result")
    assert list(found) == [
        ("a-viewer", "access.manage", "POST /settings/users", "PermissionDenied"),
        ("a-viewer", "access.manage", "POST /settings/masking", "PermissionDenied"),
    ]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["bob", "feed", "ann"]),
        ("?who=ann", ["ann"]),
        ("?action=coordinator.scale", ["bob"]),
        ("?object=3:2", ["feed"]),
        ("?people=1", ["bob", "ann"]),
        ("?since=2100-01-01+00:00", []),
        ("?until=2100-01-01+00:00&who=bob", ["bob"]),
    ],
)
def test_entries_are_those_of_the_filter(
    entries: list[AuditEntry], operator: Client, query: str, shown: list[str]
) -> None:
    assert listed(operator, query) == shown


def test_the_page_tells_reason_request_and_where_to_get_the_file(
    entries: list[AuditEntry], operator: Client
) -> None:
    text = operator.get("/audit?who=ann").content.decode()
    assert "r-1" in text
    assert 'href="/audit/export.csv?who=ann"' in text
    assert "No entry matches" in operator.get("/audit?who=nobody").content.decode()


def test_each_entry_tells_where_it_came_from(entries: list[AuditEntry], operator: Client) -> None:
    text = operator.get("/audit").content.decode()
    assert "Source" in text
    assert re.findall(r"<td>(API|Console|Server)</td>", text) == ["Server", "API", "Console"]
    lines = operator.get("/audit/export.json").getvalue().decode().splitlines()
    assert [json.loads(line)["source"] for line in lines] == ["Console", "API", "Server"]


def test_a_moment_that_is_none_is_refused_with_the_form(operator: Client) -> None:
    answer = operator.get("/audit?since=yesterday")
    assert answer.status_code == 400
    assert "Enter a valid date/time." in answer.content.decode()
    assert operator.get("/audit/export.csv?since=yesterday").status_code == 400


def test_a_file_has_the_same_entries_oldest_first(
    entries: list[AuditEntry], operator: Client
) -> None:
    rows = list(csv.DictReader(io.StringIO(file_of(operator, "/audit/export.csv"))))
    assert [row["who"] for row in rows] == ["ann", "feed", "bob"]
    assert rows[0]["reason"] == "'=1+1 is left"
    lines = [
        json.loads(line) for line in file_of(operator, "/audit/export.json?people=1").splitlines()
    ]
    assert [line["who"] for line in lines] == ["ann", "bob"]
    assert lines[0]["hash"] == bytes(entries[0].hash).hex()
    assert operator.get("/audit/export.xml").status_code == 404


def test_who_may_not_read_the_log_gets_no_file_either(viewer: Client) -> None:
    assert viewer.get("/audit/export.csv").status_code == 403
    assert signed_in("admin").get("/audit/export.csv").status_code == 200


def test_what_is_added_while_one_reads_is_counted_and_not_listed(
    entries: list[AuditEntry], operator: Client, viewer: Client
) -> None:
    page = operator.get("/audit?who=ann").content.decode()
    assert 'data-channel="audit"' in page
    [address] = re.findall(r'hx-get="(/audit/added[^"]*)"', page)
    address = html.unescape(address)
    assert operator.get(address).content.strip() == b""
    record(Change(Actor("bob"), "coordinator.scale", "coordinators"))
    assert operator.get(address).content.strip() == b""
    record(Change(Actor("ann"), ABORTED, "transaction:3:3"))
    told = operator.get(address).content.decode()
    assert "<b>1</b> new since this page was read" in told
    assert 'href="/audit?who=ann"' in told
    older = operator.get(f"/audit?before={entries[-1].sequence}").content.decode()
    assert "/audit/added" not in older
    assert "data-channel" not in older
    assert operator.get("/audit/added?above=x").status_code == 400
    assert viewer.get(address).status_code == 403


def test_what_is_added_while_the_page_is_read_is_counted_and_not_listed_too(
    entries: list[AuditEntry], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = entries[1].sequence
    monkeypatch.setattr("txnconsole.console.views.audit.newest_number", lambda: before)
    assert listed(operator, "") == ["feed", "ann"]
    page = operator.get("/audit").content.decode()
    [address] = re.findall(r'hx-get="(/audit/added[^"]*)"', page)
    assert "<b>1</b> new" in operator.get(html.unescape(address)).content.decode()


def test_the_channel_says_that_entries_were_added_and_keeps_no_connection(
    entries: list[AuditEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(type(connections), "close_all", lambda _: closed.append("closed"))
    feed = AuditFeed()
    first, second = look(feed), look(feed)
    assert (first.change, second.change) == ({}, None)
    assert first.position == second.position == str(entries[-1].sequence)
    record(Change(Actor("ann"), ABORTED, "transaction:3:3"))
    assert look(feed).change == {}
    assert len(closed) == 3
    assert channel_named("audit", Principal("ann", frozenset())).permission is Permission.AUDIT_READ
