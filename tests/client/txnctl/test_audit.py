"""``txnctl audit``."""

from __future__ import annotations

import pytest

from tests.client.txnctl.conftest import Txnctl
from tests.server import Served
from txnconsole.client.txnctl import audit


def test_what_was_done_is_listed_and_the_log_verified_in_several_calls(
    txnctl: Txnctl, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = server.topic()
    partition = f"{topic}:0"
    for reason in ("first", "second"):
        assert txnctl("partitions", "snapshot", partition, "--reason", reason).code == 0
    about = ("--object", f"partition:{partition}")
    entries = txnctl("-o", "json", "audit", "list", *about).json
    assert [each["reason"] for each in entries] == ["second", "first"]
    shown = txnctl("audit", "list", *about, "--limit", "1").out
    assert "second" in shown
    assert "first" not in shown
    assert txnctl("-o", "json", "audit", "list", *about, "--before", entries[1]["at"]).json == []

    monkeypatch.setattr(audit, "_ENTRIES", 1)
    proof = txnctl("-o", "json", "audit", "verify").json[0]
    assert proof["valid"]
    assert proof["entries"] == proof["sequence"] >= entries[0]["sequence"]
    newest = ("--after-entry", str(proof["sequence"]), "--hash")
    assert txnctl("audit", "verify", *newest, proof["hash"]).code == 0
    broken = txnctl("audit", "verify", *newest, "0" * 64)
    assert (broken.code, "valid" in broken.out) == (1, True)
