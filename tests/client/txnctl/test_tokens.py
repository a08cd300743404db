"""``txnctl tokens`` and ``txnctl whoami``."""

from __future__ import annotations

import re

import pytest

from tests.client.txnctl.conftest import Txnctl
from tests.server import Served
from txnconsole.client import Client
from txnconsole.client.txnctl.session import Session


def test_a_token_is_created_used_listed_and_revoked(txnctl: Txnctl, server: Served) -> None:
    server.token("viewer", user="txnctl-tokens")
    options = ("--role", "producer", "--role", "consumer", "--topics", "public/default/*")
    made = txnctl("-o", "json", "tokens", "create", "txnctl-tokens", *options, "--days", "2").json
    token, secret = made[0]["token"], made[0]["secret"]
    assert (token["roles"], token["topics"]) == (["consumer", "producer"], ["public/default/*"])
    with Client(server.url, secret) as program:
        assert next(program.transactions.list(limit=1), None) is None
        listed = txnctl("-o", "json", "tokens", "list", "--user", "txnctl-tokens").json
        assert [each["state"] for each in listed if each["id"] == token["id"]] == ["valid"]
        assert secret not in txnctl("tokens", "list", "--user", "txnctl-tokens").out
        assert txnctl("tokens", "revoke", str(token["id"])).code == 0
    of_user = ("-o", "json", "tokens", "list", "--user", "txnctl-tokens")
    assert token["id"] not in [each["id"] for each in txnctl(*of_user).json]
    [ended] = [each for each in txnctl(*of_user, "--ended").json if each["id"] == token["id"]]
    assert ended["state"] == "revoked"
    assert txnctl("tokens", "create", "nobody-here", "--role", "viewer").code == 3
    assert txnctl("tokens", "create", "txnctl-tokens", "--role", "king").code == 2
    assert txnctl("tokens", "list", role="operator").code == 4


def test_a_secret_that_was_lost_on_its_way_is_said(
    txnctl: Txnctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = {"id": 7, "user": "a", "roles": ["viewer"], "topics": ["*"], "expires_at": None}
    monkeypatch.setattr(Session, "send", lambda *_: {"token": token, "secret": None})
    lost = txnctl("tokens", "create", "a", "--role", "viewer")
    assert (lost.code, "Revoke token 7" in lost.err) == (1, True)


def test_a_token_knows_whose_it_is(txnctl: Txnctl) -> None:
    shown = txnctl("whoami", role="viewer").out
    assert re.search(r"name +test-viewer", shown)
    assert re.search(r"roles +viewer", shown)
