"""``txnctl transactions bulk-abort`` and ``txnctl jobs``, against a real worker."""

from __future__ import annotations

import secrets

import pytest

from tests.client.txnctl.conftest import Txnctl
from tests.server import Served

BULK = ("transactions", "bulk-abort")


@pytest.fixture
def stuck(server: Served) -> tuple[str, list[str]]:
    """A client's name, and its three open transactions."""
    name = f"batch-{secrets.token_hex(4)}"
    with server.client("producer") as program:
        body = {"client": name, "timeout_ms": 600_000}
        opened = [program.post("/transactions", json=body).json()["txn_id"] for _ in range(3)]
    return name, opened


def test_all_that_match_are_aborted_and_the_job_tells_each_result(
    txnctl: Txnctl, stuck: tuple[str, list[str]]
) -> None:
    client, opened = stuck
    assert "3 transactions match" in txnctl(*BULK, "--client", client, "--dry-run").out
    ran = txnctl(*BULK, "--client", client, "--reason", "stuck", role="operator", stdin="y\n")
    assert ran.code == 0, ran.err
    assert "Abort 3 transactions?" in ran.err
    assert "3 of 3 aborted, 0 refused" in ran.out
    for txn_id in opened:
        assert txnctl("transactions", "outcome", txn_id).out.strip() == "ABORTED"
    job = txnctl("-o", "json", "jobs", "list", "--kind", "bulk_abort").json[0]
    described = txnctl("-o", "json", "jobs", "describe", str(job["id"])).json[0]
    assert [item["object"] for item in described["items"]] == [f"transaction:{t}" for t in opened]
    shown = txnctl("jobs", "describe", str(job["id"])).out
    assert "stuck" in shown
    assert "already_ended" not in shown
    assert txnctl("jobs", "cancel", str(job["id"])).code == 5


def test_one_is_told_as_one(txnctl: Txnctl, stuck: tuple[str, list[str]]) -> None:
    client, opened = stuck
    for txn_id in opened[1:]:
        assert txnctl("transactions", "abort", txn_id, "--reason", "stuck", "--yes").code == 0
    why = ("--client", client, "--reason", "stuck")
    assert "1 transaction matches." in txnctl(*BULK, *why, "--dry-run").out
    assert "Abort 1 transaction?" in txnctl(*BULK, *why, stdin="n\n").err


def test_no_is_an_answer_and_another_count_is_a_conflict(
    txnctl: Txnctl, stuck: tuple[str, list[str]]
) -> None:
    client, opened = stuck
    why = ("--client", client, "--reason", "stuck")
    assert txnctl(*BULK, *why, stdin="n\n").code == 1
    other = txnctl(*BULK, *why, "--expect", "2", "--yes")
    assert (other.code, "CountChanged" in other.err) == (5, True)
    assert txnctl(*BULK, "--client", client, "--yes").code == 2
    assert txnctl("transactions", "outcome", opened[0]).out.strip() == "UNDECIDED"
    answered = txnctl("-o", "json", *BULK, *why, "--no-wait").json[0]
    assert answered["progress"]["total"] == 3


def test_without_a_filter_and_unasked_it_wants_their_number(
    txnctl: Txnctl, stuck: tuple[str, list[str]]
) -> None:
    for options in (("--yes",), ("--yes", "--status", "open")):
        unasked = txnctl(*BULK, *options, "--reason", "all of them")
        assert (unasked.code, "--expect" in unasked.err) == (2, True)
    asked = txnctl("-o", "json", *BULK, "--reason", "all of them")
    assert (asked.code, "--expect" in asked.err) == (2, True)
    assert "match" in txnctl(*BULK, "--dry-run").out
    counted = txnctl(*BULK, "--yes", "--expect", "1000000", "--reason", "all of them")
    assert (counted.code, "CountChanged" in counted.err) == (5, True)
    nobodys = txnctl(*BULK, "--yes", "--coordinator", "0", "--min-age", "86400", "--reason", "x")
    assert nobodys.code == 0
    assert txnctl("transactions", "outcome", stuck[1][0]).out.strip() == "UNDECIDED"


def test_those_opened_before_a_moment_alone_are_taken(
    txnctl: Txnctl, stuck: tuple[str, list[str]]
) -> None:
    client, (first, second, third) = stuck
    listed = txnctl("-o", "json", "transactions", "list", "--client", client).json
    opened_at = {each["txn_id"]: each["opened_at"] for each in listed}
    between = ("--opened-after", opened_at[second], "--opened-before", opened_at[third])
    found = txnctl("-o", "json", "transactions", "list", "--client", client, *between).json
    assert [each["txn_id"] for each in found] == [second]
    until = ("--client", client, "--opened-before", opened_at[second], "--reason", "the oldest")
    assert txnctl(*BULK, *until, "--yes").code == 0
    outcomes = [txnctl("transactions", "outcome", each).out.strip() for each in (first, second)]
    assert outcomes == ["ABORTED", "UNDECIDED"]


def _jobs(txnctl: Txnctl) -> list[int]:
    """Which there are; those of other tests may still be on their way."""
    return [job["id"] for job in txnctl("-o", "json", "jobs", "list").json]


def test_when_nothing_matches_it_asks_nothing_and_starts_no_job(txnctl: Txnctl) -> None:
    nobody = ("--client", f"nobody-{secrets.token_hex(4)}", "--reason", "stuck")
    before = _jobs(txnctl)
    for more in ((), ("--yes",), ("--expect", "0")):
        ran = txnctl(*BULK, *nobody, *more)
        assert (ran.code, ran.err) == (0, "")
        assert "nothing to abort" in ran.out
    assert _jobs(txnctl) == before
    assert txnctl(*BULK, *nobody, "--expect", "2", "--yes").code == 5


def test_a_program_may_not(txnctl: Txnctl) -> None:
    ran = txnctl(*BULK, "--expect", "1", "--reason", "x", "--yes", role="producer")
    assert (ran.code, "PermissionDenied" in ran.err) == (4, True)
