"""The coordinators: how far each is, what runs out there, and making more of them."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.test import Client

from engine import Engine
from engine.coordinator import listing
from engine.model.txn_status import TxnAction
from tests.console.conftest import Orders, fault_beside, signed_in
from txnconsole.audit.models import AuditEntry
from txnconsole.console.views import coordinators

SCALE = {"count": 6, "reason": "more programs from Monday"}


def test_a_coordinator_shows_its_marks_and_its_oldest_transactions(
    orders: Orders, viewer: Client
) -> None:
    text = viewer.get("/coordinators/3").content.decode()
    assert "Coordinator 3 · txnconsole</title>" in text
    assert f"/transactions/{orders.open}" in text
    assert "Nothing waits for a worker" in text
    assert 'needs <span class="mono">transaction.abort_any</span>' in text
    assert viewer.get("/coordinators/9").status_code == 404


def test_a_coordinator_that_has_issued_no_id_says_so(engine: Engine, viewer: Client) -> None:
    assert "<dt>Sequence</dt><dd>none yet</dd>" in viewer.get("/coordinators/0").content.decode()
    assert '<td class="right num">none yet</td>' in viewer.get("/coordinators").content.decode()


def test_a_list_that_has_not_looked_at_all_says_so_and_leads_on(
    orders: Orders, engine: Engine, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other coordinators fill what a page looks at, and nothing was said to be open."""
    for _ in range(3):
        engine.coordinator.open(owner="alice", tc_id=2)
    late = engine.coordinator.open(owner="alice", tc_id=1)
    monkeypatch.setattr(listing, "_SCAN_LIMIT", 2)
    text = viewer.get("/coordinators/1").content.decode()
    assert "Nothing is open here" not in text
    assert "None of its own among the oldest of all coordinators" in text
    assert "Nothing waits for a worker" in text
    assert ">Look on</a>" in text
    monkeypatch.undo()
    [address] = re.findall(r'href="(/transactions\?sort=oldest[^"]*)"', text)
    assert f"/transactions/{late.txn_id}" in viewer.get(unescape(address)).content.decode()


def test_however_many_there_are_a_page_shows_some_and_leads_to_the_others(
    engine: Engine, viewer: Client
) -> None:
    engine.coordinator.scale(coordinators.PAGE_ROWS + 3)
    first = viewer.get("/coordinators").content.decode()
    assert first.count('<tr id="tc-') == coordinators.PAGE_ROWS
    assert "1–100 of 103 coordinators" in first
    [address] = re.findall(r'rel="next" href="(\?from=100)', first)
    last = viewer.get(f"/coordinators{address}").content.decode()
    assert re.findall(r'<tr id="tc-(\d+)"', last) == ["100", "101", "102"]


def test_its_region_is_read_again_by_itself(orders: Orders, viewer: Client) -> None:
    part = viewer.get("/coordinators/3", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert "When the open ones run out" in part


def test_an_admin_makes_more_with_a_reason(engine: Engine, db: None) -> None:
    admin = signed_in("admin")
    assert admin.post("/coordinators/scale", {"count": 6}).status_code == 422
    assert admin.post("/coordinators/scale", SCALE).status_code == 200
    assert len(engine.coordinator.stats()) == 6
    entry = AuditEntry.objects.filter(action="coordinator.scale").get()
    assert (entry.reason, entry.result) == (SCALE["reason"], "done")
    fewer = admin.post("/coordinators/scale", SCALE | {"count": 2})
    assert fewer.status_code == 409
    assert "their number never shrinks" in fault_beside(fewer, "count")
    assert len(engine.coordinator.stats()) == 6


def test_an_admin_has_one_recovered_with_a_reason_and_is_told_what_came_of_it(
    orders: Orders, engine: Engine, db: None
) -> None:
    admin = signed_in("admin")
    here = "/coordinators/3/recover"
    assert f'hx-get="{here}"' in admin.get("/coordinators/3").content.decode()
    txn = engine.coordinator.open(owner="alice", tc_id=3)
    engine.coordinator.end(txn.txn_id, TxnAction.ABORT)
    assert "Decided and not carried out: 1." in admin.get(here).content.decode()
    assert admin.post(here, {}).status_code == 422
    done = admin.post(here, {"reason": SCALE["reason"]})
    assert done.status_code == 200
    text = done.content.decode()
    assert "Coordinator 3 is recovered" in text
    assert "Expired: 0. Ended: 1." in text
    assert "Nothing that it has decided waits any more." in text
    entry = AuditEntry.objects.filter(action="coordinator.recover").get()
    assert (entry.object, entry.result) == ("coordinator:3", "done")
    assert json.loads(entry.before)["finishing"] == 1
    assert json.loads(entry.after) == {"expired": 0, "ended": 1, "waiting": 0}
    assert admin.post("/coordinators/99/recover", {"reason": "no such one"}).status_code == 404


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_are_told_what_they_lack(engine: Engine, db: None, role: str) -> None:
    client = signed_in(role)
    assert "coordinator.scale" in client.get("/coordinators").content.decode()
    assert client.post("/coordinators/scale", SCALE).status_code == 403
    assert "coordinator.recover" in client.get("/coordinators/3").content.decode()
    assert client.post("/coordinators/3/recover", {"reason": "it is late"}).status_code == 403
