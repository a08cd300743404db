"""A user who may read and end only their own transactions does so in the console as over REST."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from engine import Engine
from engine.model.txn_id import TxnID
from engine.model.txn_status import EndReason, TxnStatus
from tests.console.conftest import Orders, begin
from txnconsole.audit.models import AuditEntry

REASON = "my own program is stuck"


def owner(*roles: str) -> Client:
    """A browser of ``alice``, whose transactions the tests open."""
    user = User.objects.create_user("alice")
    user.groups.set([Group.objects.get_or_create(name=role)[0] for role in roles])
    client = Client()
    client.force_login(user)
    return client


def named(txn_id: TxnID, text: str) -> bool:
    """Whether the text has the id, and not only a time of day that looks like it."""
    return re.search(rf"(?<![\d:]){txn_id}(?![\d:])", text) is not None


def another(engine: Engine) -> TxnID:
    return engine.coordinator.open(owner="bob", tc_id=3, timeout_ms=60_000).txn_id


@pytest.mark.parametrize("roles", [("producer",), ("viewer", "consumer")])
def test_an_owner_aborts_its_own_and_the_audit_log_has_it(
    orders: Orders, engine: Engine, db: None, roles: tuple[str, ...]
) -> None:
    alice, address = owner(*roles), f"/transactions/{orders.open}/abort"
    assert f'hx-get="{address}"' in alice.get(f"/transactions/{orders.open}").content.decode()
    assert alice.get(address).status_code == 200
    assert alice.post(address, {"reason": REASON}).status_code == 302
    ended = engine.coordinator.get(orders.open)
    assert (ended.status, ended.end_reason) == (TxnStatus.ABORTING, EndReason.CLIENT)
    entry = AuditEntry.objects.get()
    assert (entry.who, entry.action, entry.reason) == ("alice", "transaction.abort", REASON)


def test_the_transaction_of_another_is_not_theirs_to_abort(engine: Engine, db: None) -> None:
    txn_id, alice = another(engine), owner("viewer", "consumer")
    text = alice.get(f"/transactions/{txn_id}").content.decode()
    assert 'needs <span class="mono">transaction.abort_any</span>' in text
    for answer in (
        alice.get(f"/transactions/{txn_id}/abort"),
        alice.post(f"/transactions/{txn_id}/abort", {"reason": REASON}),
    ):
        assert answer.status_code == 403
        assert "transaction.abort_any" in answer.content.decode()
    assert engine.coordinator.get(txn_id).status is TxnStatus.OPEN


@pytest.mark.parametrize(
    "part",
    [
        "/",
        "/abort",
        "/bundle.json",
        "/timeline",
        "/lineage",
        "/participants",
        "/conflicts",
        "/messages",
    ],
)
def test_to_a_program_s_user_another_s_transaction_does_not_exist(
    engine: Engine, db: None, part: str
) -> None:
    answer = owner("producer").get(f"/transactions/{another(engine)}{part}")
    assert answer.status_code == 404


def test_the_list_and_its_files_have_one_s_own_only(engine: Engine, db: None) -> None:
    own, other, alice = begin(engine), another(engine), owner("producer")
    for address in (
        "/transactions",
        "/transactions/export.csv",
        f"/transactions/rows?id={own}&id={other}",
        f"/transactions/export.csv?q={own}+{other}",
        f"/transactions/export.json?q={own}+{other}",
    ):
        text = alice.get(address).getvalue().decode()
        assert named(own, text), address
        assert not named(other, text), address
    text = alice.get(f"/transactions?q={own}+{other}").content.decode()
    assert f"/transactions/{own}" in text
    assert f"/transactions/{other}" not in text
    assert "You see the transactions of <b>alice</b>" in alice.get("/transactions").content.decode()
    refused = alice.get("/transactions?owner=bob")
    assert refused.status_code == 400
    assert "your own transactions only" in refused.content.decode()
