"""Each command, for people and for programs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.client.cutting import cut
from tests.client.txnctl.conftest import Txnctl
from tests.server import Served
from tests.support.eventually import eventually
from txnconsole.client import Client, Fetched, Reader
from txnconsole.client.txnctl import partitions
from txnconsole.client.txnctl.app import _leaves, command
from txnconsole.client.txnctl.session import Session


def test_arguments_are_named_in_one_way() -> None:
    parts = [part for leaf in _leaves(command()) for part in leaf.params]
    named = {part.metavar or part.name for part in parts if part.param_type_name == "argument"}
    assert {name for name in named if name != name.upper()} == set()


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        (leaf.name, part.name)
        for leaf in _leaves(command())
        for part in leaf.params
        if part.param_type_name == "option" and not getattr(part, "help", None)
    ]
    assert silent == []


def test_topics_are_created_described_and_deleted(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    assert txnctl("topics", "create", name, "--partitions", "2").code == 0
    described = txnctl("-o", "json", "topics", "describe", name).json[0]
    assert (described["partitions"], len(described["partition_states"])) == (2, 2)
    assert name in txnctl("topics", "list", "--limit", "10000").out
    assert "is deleted" in txnctl("topics", "delete", name, "--yes").out
    assert txnctl("topics", "describe", name).code == 3


def test_a_list_that_ends_before_its_end_says_so(txnctl: Txnctl, server: Served) -> None:
    for _ in range(2):
        assert txnctl("topics", "create", server.topic()).code == 0
    more = "There are more than these"
    for output in ("table", "json"):
        listed = ("-o", output, "topics", "list", "--limit")
        assert f"{more} 1." in txnctl(*listed, "1").err
        assert more not in txnctl(*listed, "10000").err


def test_a_topic_grows_and_stays_what_it_is(txnctl: Txnctl, server: Served) -> None:
    name = f"{server.topic()}-2"
    create = ("-o", "json", "topics", "create", name)
    made = txnctl(*create, "--buffer", "sidecar", "--retention", "1").json[0]
    assert (made["partitions"], made["buffer"], made["retention_ms"]) == (1, "sidecar", 3_600_000)
    grown = txnctl(*create, "--partitions", "2").json[0]
    assert grown == made | {"partitions": 2, "brokers": grown["brokers"]}
    assert txnctl(*create).json[0] == grown
    with Client(server.url, server.token("admin")) as client:
        assert client.create_topic(name).partitions == 2


def test_produced_messages_are_tailed_and_consumed(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    produced = txnctl("produce", name, "--key-separator", "=", stdin="a=1\nb=2\nc=3\n")
    assert "3 messages" in produced.out
    tailed = txnctl("tail", name, "--from-start", "--no-follow").out.splitlines()
    assert [line.split("\t") for line in tailed] == [["0@0 a", "1"], ["0@1 b", "2"], ["0@2 c", "3"]]
    behind = txnctl("tail", name, "--from-offset", "2", "--no-follow").out.splitlines()
    assert behind == tailed[2:]
    both = txnctl("tail", name, "--from-offset", "2", "--from-start")
    assert (both.code, "not both" in both.err) == (2, True)
    txnctl("subscriptions", "create", name, "s")
    consumed = txnctl("-o", "json", "consume", name, "s", "-n", "2", "--wait", "1").json
    assert [each["payload"] for each in consumed] == ["1", "2"]
    rest = txnctl("-o", "json", "consume", name, "s", "--wait", "0").json
    assert [each["payload"] for each in rest] == ["3"]
    assert txnctl("consume", name, "s", "--wait", "0").out == ""


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "FAILOVER", "KEY_SHARED"])
def test_who_has_consumed_makes_room_for_the_next(
    txnctl: Txnctl, server: Served, kind: str
) -> None:
    name = server.topic()
    txnctl("subscriptions", "create", name, "s", "--type", kind)
    txnctl("produce", name, "--key-separator", "=", stdin="a=1\na=2\n")
    for payload in ("1", "2"):
        ran = txnctl("-o", "json", "consume", name, "s", "-n", "1", "--wait", "5")
        assert [each["payload"] for each in ran.json] == [payload], ran.err


def test_a_line_is_produced_although_the_next_is_long_in_coming(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    found: list[bytes] = []

    class Typing(io.RawIOBase):
        """A line, and the next not before that one can be read."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            if not found:
                found.append(b"")
                buffer[:4] = b"one\n"
                return 4
            if len(found) == 1:
                with Client(server.url, server.token("admin")) as client:
                    messages = client.reader(name, 0).fetch(wait=60).messages
                found.extend([message.payload for message in messages] or [b"nothing came"])
            return 0

    assert "1 message\n" in txnctl("produce", name, stdin=io.BufferedReader(Typing())).out
    assert found[1:] == [b"one"]


def test_lines_that_are_no_text_are_produced_as_they_are(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    ran = txnctl("produce", name, stdin="ü\n".encode() + b"\xff\xfe\n")
    assert (ran.code, "2 messages" in ran.out) == (0, True), ran.err
    found = txnctl("-o", "json", "tail", name, "--from-start", "--no-follow").json
    assert [each["payload"] for each in found] == ["ü", "//4="]


def test_tail_follows_what_comes(txnctl: Txnctl, server: Served) -> None:
    name = server.topic(partitions=2)
    for partition in ("0", "1"):
        txnctl("produce", name, "-m", f"in {partition}", "--partition", partition)
    out = txnctl("tail", name, "--from-start", "-n", "2").out
    assert {line.split("\t")[1] for line in out.splitlines()} == {"in 0", "in 1"}


def test_tail_ends_when_its_reader_has_seen_enough_though_nothing_more_comes(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    txnctl("produce", name, "-m", "the only one")
    command = [sys.executable, "-m", "txnconsole.client.txnctl", "tail", name, "--from-start"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert tail.stdout.readline() == b"0@0\tthe only one\n"
        tail.stdout.close()
        try:
            assert (tail.wait(timeout=30), tail.stderr.read()) == (1, b"")
        finally:
            tail.kill()


def test_tail_goes_on_where_a_log_was_truncated_and_says_so(
    txnctl: Txnctl, server: Served, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = server.topic()
    txnctl("produce", name, "-m", "0", "-m", "1")
    fetch = Reader.__dict__["fetch"]
    new = [b"a", b"b", b"c"]

    def fetch_beside(reader: Reader, *, wait: float) -> Fetched:
        if reader.next_offset == 2 and new:  # All has been read: it is replaced before the next.
            cut(admin, name, 0)
            with admin.producer(name) as producer:
                while new:
                    producer.send(new.pop(0))
        found: Fetched = fetch.__get__(reader, Reader)(wait=wait)
        return found

    monkeypatch.setattr(Reader, "fetch", fetch_beside)
    ran = txnctl("tail", name, "--from-start", "-n", "5")
    assert [line.split("\t")[1] for line in ran.out.splitlines()] == ["0", "1", "a", "b", "c"]
    assert "truncated to offset 0" in ran.err


def test_a_consumer_that_does_not_acknowledge_gives_back(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    txnctl("produce", name, "-m", "x")
    txnctl("subscriptions", "create", name, "s")
    assert len(txnctl("consume", name, "s", "-n", "1", "--no-ack").out.splitlines()) == 1
    again = txnctl("-o", "json", "consume", name, "s", "-n", "1").json
    assert [each["redelivery_count"] for each in again] == [1]


def test_more_than_one_call_gives_are_looked_at_and_given_back(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    txnctl("produce", name, stdin="x\n" * 510)
    txnctl("subscriptions", "create", name, "s")
    seen = txnctl("consume", name, "s", "--no-ack", "-n", "505", "--wait", "5")
    assert len(seen.out.splitlines()) == 505
    again = txnctl("-o", "json", "consume", name, "s", "-n", "510", "--wait", "5").json
    assert len(again) == 510


def test_a_transactional_produce_is_one_transaction(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    (answer,) = txnctl("-o", "json", "produce", name, "-t", stdin="x\ny\n").json
    txn_id = answer["txn_id"]
    (described,) = txnctl("-o", "json", "transactions", "describe", txn_id).json
    assert described["client"] == "txnctl produce"
    assert [entry["metadata_op"] for entry in described["log"]][:2] == ["NEW", "ADD_PARTITION"]
    assert "COMMITTED" in txnctl("transactions", "outcome", txn_id).out


def test_the_one_who_holds_a_partition_up_is_found_explained_and_aborted(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    with server.client("producer") as program:
        txn_id = program.post(
            "/transactions", json={"client": "stuck", "timeout_ms": 600_000}
        ).json()["txn_id"]
        messages = f"/topics/{name}/partitions/0/messages"
        body = {"txn_id": txn_id, "messages": [{"payload": "held"}]}
        assert program.post(messages, json=body).status_code == 201
        assert program.post(messages, json={"messages": [{"payload": "x"}]}).status_code == 201
    partition = f"{name}:0"
    assert txn_id in txnctl("partitions", "describe", partition, role="viewer").out
    (blocker,) = txnctl("-o", "json", "partitions", "blockers", partition, role="viewer").json
    assert (blocker["txn_id"], blocker["client"]) == (txn_id, "stuck")
    held_back = ("partitions", "held-back", "--limit", "500")
    for order in ((), ("--longest",)):
        held = txnctl("-o", "json", *held_back, *order, role="viewer").json
        found = {each["partition"]: each for each in held}[partition]
        assert (found["txn_id"], found["hidden_messages"]) == (txn_id, 2)
    assert txn_id in txnctl(*held_back, role="viewer").out
    listed = txnctl("-o", "json", "transactions", "list", "--topic", name, "--status", "open").json
    assert [each["txn_id"] for each in listed] == [txn_id]
    slow = txnctl("-o", "json", "transactions", "slow", "--min-age", "0", "--limit", "500").json
    assert txn_id in {each["txn_id"] for each in slow}
    impact = txnctl("-o", "json", "transactions", "impact", txn_id, role="viewer").json[0]
    assert impact["partitions"][0]["messages_discarded"] == 1
    refused = txnctl("transactions", "abort", txn_id, "--yes", role="operator")
    assert refused.code == 2
    assert "reason" in refused.err
    ended = txnctl("transactions", "abort", txn_id, "--yes", "--reason", "hangs", role="operator")
    assert f"{txn_id} is ABORTED" in ended.out
    assert "Nothing holds" in txnctl("partitions", "blockers", partition).out
    log = txnctl("-o", "json", "partitions", "log", partition).json
    assert [each["visibility"] for each in log] == ["aborted", "visible", "marker"]


def test_an_abort_asks_first_and_takes_no_for_an_answer(txnctl: Txnctl, server: Served) -> None:
    with server.client("producer") as program:
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
    for answer in ("n\n", ""):  # No, and the end of the input.
        declined = txnctl("transactions", "abort", txn_id, "--reason", "why", stdin=answer)
        assert declined.code == 1
        assert "Nothing was done" in declined.err
        assert "Aborted" not in declined.err
    assert txnctl("transactions", "outcome", txn_id).out.strip() == "UNDECIDED"


def test_an_end_tells_who_is_still_to_carry_it_out_subscriptions_too(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    txnctl("subscriptions", "create", name, "billing")
    txnctl("produce", name, "-m", "x")
    with server.client("admin") as program:
        txn_id = program.post("/transactions", json={}).json()["txn_id"]
        path = f"/topics/{name}/subscriptions/billing"
        got = program.post(f"{path}/receive", json={"consumer": "c", "wait_ms": 5000}).json()
        body = {
            "consumer": "c",
            "txn_id": txn_id,
            "message_ids": [got["messages"][0]["message_id"]],
        }
        program.post(f"{path}/ack", json=body).raise_for_status()
    told = txnctl("transactions", "abort", txn_id, "--yes", "--reason", "x", "--wait", "0").out
    assert "still to carry it out" in told
    assert "billing" in told


def test_questions_are_asked_on_standard_error(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    txnctl("subscriptions", "create", name, "s")
    for asked in (
        ("topics", "delete", name),
        ("subscriptions", "delete", name, "s"),
        ("partitions", "truncate", f"{name}:0", "0", "--reason", "r"),
    ):
        ran = txnctl("-o", "json", *asked, stdin="n\n")
        assert (ran.code, ran.out, "[y/N]" in ran.err) == (1, "", True)
    assert txnctl("-o", "json", "topics", "delete", name, stdin="y\n").code == 0


def test_a_partition_is_operated_on(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    partition = f"{name}:0"
    txnctl("produce", name, "-m", "a", "-m", "b")
    assert "online" in txnctl("partitions", "snapshot", partition).out
    assert txnctl("partitions", "recover", partition, "--reason", "drill").code == 0
    assert "offline" in txnctl("partitions", "offline", partition, "--reason", "drill").out
    assert txnctl("--patience", "0", "tail", name, "--no-follow", "--from-start").code == 7
    truncated = txnctl("partitions", "truncate", partition, "0", "--reason", "drill", "--yes")
    assert "dropped entries" in truncated.out
    assert txnctl("partitions", "online", partition, "--reason", "done").code == 0
    assert txnctl("tail", name, "--no-follow", "--from-start").out == ""


def test_a_partition_is_looked_at_from_within(txnctl: Txnctl, server: Served) -> None:
    topic = server.topic()
    partition, ids = f"{topic}:0", []
    with server.client("producer") as program:
        for _ in range(2):
            ids.append(program.post("/transactions", json={}).json()["txn_id"])
            body = {"txn_id": ids[-1], "messages": [{"payload": "x"}]}
            program.post(f"/topics/{topic}/partitions/0/messages", json=body).raise_for_status()
            abort = f"/transactions/{ids[-1]}/abort"
            program.post(abort, json={"wait_ms": 20_000}).raise_for_status()
    rows = txnctl("-o", "json", "partitions", "aborted-index", partition, role="viewer").json
    assert [(row["txn_id"], row["outcome"]) for row in rows] == [(each, "ABORTED") for each in ids]
    shown = txnctl("partitions", "aborted-index", partition, "--limit", "1").out
    assert (ids[0] in shown, ids[1] in shown) == (True, False)
    elsewhere = ("--segment", str(rows[0]["ledger_id"] + 1))
    assert txnctl("-o", "json", "partitions", "aborted-index", partition, *elsewhere).json == []
    assert "last offset" in txnctl("partitions", "rehearse", partition, role="viewer").out
    checks = txnctl("-o", "json", "partitions", "check", partition, role="viewer").json
    assert len(checks) == len({each["name"] for each in checks}) > 3
    assert {each["holds"] for each in checks} <= {True, None}


def test_of_a_log_that_is_checked_in_parts_the_worst_counts(
    txnctl: Txnctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part(holds: bool | None, position: int | None) -> dict[str, Any]:
        check = {"invariant": 2, "name": "a", "counter_examples": [], "skipped": None}
        return {"checks": [check | {"holds": holds}], "next_position": position}

    parts = {0: part(True, 7), 7: part(False, 9), 9: part(None, None)}
    monkeypatch.setattr(Session, "get", lambda _self, _path, position: parts[position])
    found = txnctl("-o", "json", "partitions", "check", "public/default/x:0")
    assert (found.code, [each["holds"] for each in found.json]) == (1, [False])


def test_invariants_are_listed_and_one_that_is_broken_is_exit_code_1(
    txnctl: Txnctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert txnctl("invariants", "--limit", "5", role="viewer").code == 0
    row = {"invariant": 6, "name": "aborted_index", "subject": "a:0", "holds": False}
    monkeypatch.setattr(Session, "pages", lambda *_, **__: iter([row]))
    broken = txnctl("invariants", "--broken")
    assert (broken.code, "aborted_index" in broken.out) == (1, True)


def test_of_many_segments_the_first_are_shown_and_it_is_said(
    txnctl: Txnctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = partitions._SEGMENTS_SHOWN
    segment = dict.fromkeys((column.path for column in partitions._SEGMENTS), None)
    row = {path.partition(".")[0]: None for _, path, _ in partitions._PARTITION}
    for more, said in ((0, False), (1, True)):
        answer = row | {"segments": [segment] * (shown + more)}
        monkeypatch.setattr(Session, "get", lambda *_, found=answer: found)
        ran = txnctl("partitions", "describe", "public/default/x:0")
        assert (f"It has {shown + more} segments" in ran.out) is said, ran


def test_subscriptions_show_what_is_held_and_left(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    txnctl("produce", name, *(part for n in range(3) for part in ("-m", str(n))))
    txnctl("subscriptions", "create", name, "s", "--ack-timeout", "60")
    path = f"/topics/{name}/subscriptions/s"
    with server.client("consumer") as program:
        body = {"consumer": "c", "wait_ms": 30_000}
        received = program.post(f"{path}/receive", json=body).json()["messages"]
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
        ack = {"consumer": "c", "txn_id": txn_id, "message_ids": [received[1]["message_id"]]}
        assert program.post(f"{path}/ack", json=ack).status_code == 200
    shown = txnctl("subscriptions", "describe", name, "s").out
    assert f"{txn_id}: 1" in shown
    assert "c: " in shown
    held = txnctl("subscriptions", "delete", name, "s", "--yes")
    assert (held.code, "TopicInUse" in held.err) == (5, True)
    assert "s" in txnctl("subscriptions", "list", name).out
    txnctl("transactions", "abort", txn_id, "--reason", "end", "--yes")
    assert eventually(lambda: txnctl("subscriptions", "delete", name, "s", "--yes").code == 0)


def test_masking_rules_are_added_listed_and_deleted(txnctl: Txnctl, server: Served) -> None:
    topic = server.topic()
    added = txnctl("masking", "add", topic, "field", "**.iban", "--effect", "tail")
    assert "**.iban" in added.out
    listed = txnctl("-o", "json", "masking", "list", role="viewer").json
    [rule] = [each for each in listed if each["topics"] == topic]
    assert (rule["part"], rule["effect"]) == ("field", "tail")
    assert txnctl("masking", "delete", str(rule["id"]), role="operator").code == 4
    assert txnctl("masking", "delete", str(rule["id"])).code == 0
    assert topic not in txnctl("masking", "list").out
    again = txnctl("masking", "delete", str(rule["id"]))
    assert (again.code, "MaskingRuleNotFound" in again.err) == (3, True)
    nameless = txnctl("masking", "add", topic, "field")
    assert (nameless.code, nameless.err.count("Name the field")) == (2, 1)


def test_coordinators_are_listed(txnctl: Txnctl) -> None:
    found = txnctl("-o", "json", "coordinators", "list").json
    assert [each["coordinator_id"] for each in found][:2] == [0, 1]
    assert "LOW WATER MARK" in txnctl("coordinators", "list").out


def test_a_coordinator_is_described(txnctl: Txnctl) -> None:
    assert "low water mark" in txnctl("coordinators", "describe", "0", role="viewer").out
    assert txnctl("coordinators", "describe", "65535").code == 3


def test_more_coordinators_than_one_page_are_listed(txnctl: Txnctl) -> None:
    assert txnctl("coordinators", "scale", "51").code == 0
    assert len(txnctl("-o", "json", "coordinators", "list").json) >= 51


def test_the_output_may_also_be_chosen_after_the_command(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    (described,) = txnctl("topics", "describe", name, "--output", "json").json
    assert described["topic"] == name
    (listed,) = txnctl("-o", "table", "subscriptions", "create", name, "s", "-o", "json").json
    assert listed["subscription"] == "s"
    assert "s" in txnctl("-o", "json", "subscriptions", "list", name, "-o", "table").out.split()
    assert txnctl("topics", "describe", name, "--output", "xml").code == 2


def test_a_subscription_is_sent_back_to_the_start(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    txnctl("produce", name, "-m", "a", "-m", "b")
    txnctl("subscriptions", "create", name, "s")
    assert len(txnctl("consume", name, "s", "-n", "2").out.splitlines()) == 2
    declined = txnctl("subscriptions", "seek", name, "s", "--earliest", stdin="n\n")
    assert declined.code == 1
    assert txnctl("consume", name, "s", "--wait", "0").out == ""
    sought = txnctl("subscriptions", "seek", name, "s", "--offset", "1", "--yes")
    assert (sought.code, "MARK-DELETE" in sought.out) == (0, True)
    again = txnctl("-o", "json", "consume", name, "s", "--wait", "1").json
    assert [each["payload"] for each in again] == ["b"]
    assert txnctl("subscriptions", "seek", name, "s", "--yes").code == 2


def test_coordinators_are_added_and_never_taken_away(txnctl: Txnctl) -> None:
    there = len(txnctl("-o", "json", "coordinators", "list").json)
    grown = txnctl("coordinators", "scale", str(there + 1), "--reason", "more")
    assert (grown.code, str(there + 1) in grown.out) == (0, True)
    shrunk = txnctl("coordinators", "scale", str(there))
    assert (shrunk.code, "never shrinks" in shrunk.err) == (2, True)


def test_an_explanation_and_a_history_tell_who_holds_a_message_back(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    partition = f"{name}:0"
    with server.client("producer") as program:
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
        body = {"txn_id": txn_id, "messages": [{"payload": "x"}]}
        program.post(f"/topics/{name}/partitions/0/messages", json=body).raise_for_status()
    (explained,) = txnctl("-o", "json", "partitions", "explain", partition, "0").json
    assert explained["readable"] is False
    shown = txnctl("partitions", "explain", partition, "0").out
    assert explained["reasons"][0]["text"] in shown
    assert txn_id in shown
    points = txnctl("-o", "json", "partitions", "history", partition, "--offset", "0").json
    assert [(each["stable_position"], each["holder"]) for each in points] == [(-1, txn_id)]
    assert "HELD BY" in txnctl("partitions", "history", partition).out
    find = ("transactions", "find-hanging", "--late", "0", "--limit", "10000")
    late = txnctl("-o", "json", *find).json
    assert txn_id in {each["txn_id"] for each in late}
    assert "REMEDY" in txnctl("transactions", "find-hanging", "--late", "0").out
    txnctl("transactions", "abort", txn_id, "--yes", "--reason", "end")


def test_what_find_hanging_names_as_remedies_can_be_applied(txnctl: Txnctl, server: Served) -> None:
    topic = server.topic()
    with server.client("producer") as program:
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
    retry = ("transactions", "retry", txn_id)
    assert txnctl(*retry).code == 5  # It is open, and there is nothing to mend.
    txnctl("transactions", "abort", txn_id, "--yes", "--reason", "end")
    [again] = txnctl("-o", "json", *retry, "--reason", "by hand").json
    assert (again["txn_id"], again["status"], again["replayed"]) == (txn_id, "ABORTED", [])
    assert "ABORTED" in txnctl(*retry).out

    txnctl("subscriptions", "create", topic, "monitor")
    orphan = ("subscriptions", "force-abort", topic, "monitor", txn_id, "--reason", "by hand")
    ran = txnctl(*orphan)
    assert ran.code == 3
    assert "holds nothing" in ran.err


@pytest.mark.parametrize("what", ["topics", "subscriptions"])
def test_what_transactions_hold_is_deleted_by_force_and_they_are_named(
    txnctl: Txnctl, server: Served, what: str
) -> None:
    topic = server.topic()
    with server.client("producer,consumer") as program:
        program.put(f"/topics/{topic}/subscriptions/billing", json={}).raise_for_status()
        body = {"messages": [{"payload": "x"}]}
        program.post(f"/topics/{topic}/partitions/0/messages", json=body).raise_for_status()
        txn_id = program.post("/transactions", json={"timeout_ms": 600_000}).json()["txn_id"]
        here = f"/topics/{topic}/subscriptions/billing"
        [got] = program.post(f"{here}/receive", json={"consumer": "a"}).json()["messages"]
        ack = {"consumer": "a", "txn_id": txn_id, "message_ids": [got["message_id"]]}
        program.post(f"{here}/ack", json=ack).raise_for_status()
    name = (topic,) if what == "topics" else (topic, "billing")
    delete = (what, "delete", *name, "--yes")
    refused = txnctl(*delete)
    assert (refused.code, txn_id in refused.err) == (5, True)
    ran = txnctl(*delete, "--force")
    assert ran.code == 0, ran.err
    told = ran.out
    assert f"{' of '.join(reversed(name))} is deleted." in told
    assert txn_id in told
    txnctl("transactions", "abort", txn_id, "--yes", "--reason", "end")


def test_control_characters_of_users_do_not_reach_the_terminal(
    txnctl: Txnctl, server: Served
) -> None:
    name = server.topic()
    with server.client("producer") as program:
        body = {"messages": [{"payload": "\x1b[31mred\x07", "key": "[bold]k[/bold]\x1b[2J\n"}]}
        program.post(f"/topics/{name}/partitions/0/messages", json=body).raise_for_status()
    for out in (
        txnctl("tail", name, "--from-start", "--no-follow").out,
        txnctl("partitions", "log", f"{name}:0").out,
    ):
        assert "\x1b" not in out
        assert "\\x1b[31mred\\x07" in out
        assert "[bold]k[/bold]\\x1b[2J\\x0a" in out
    as_json = txnctl("-o", "json", "tail", name, "--from-start", "--no-follow").out
    assert json.loads(as_json)["payload"] == "\x1b[31mred\x07"


def test_a_message_in_json_is_what_the_contract_gives(txnctl: Txnctl, server: Served) -> None:
    name = server.topic()
    path = f"/topics/{name}/partitions/0/messages"
    with server.client("producer") as program:
        body = {
            "producer_name": "p",
            "sequence_id": 7,
            "messages": [{"payload": "a", "event_time": "2026-01-31T12:00:00+02:00"}],
        }
        program.post(path, json=body).raise_for_status()
    with server.client("consumer") as program:
        [given] = program.get(path).json()["messages"]
    shown = json.loads(txnctl("-o", "json", "tail", name, "--from-start", "--no-follow").out)
    assert given["event_time"] == "2026-01-31T10:00:00.000000Z"
    assert {field: shown[field] for field in given} == given


def test_a_list_is_one_json_array_and_an_object_one_json_object(
    server: Served, txnctl: Txnctl
) -> None:
    name = f"{server.topic()}-made"
    made = json.loads(txnctl("topics", "create", name, "-o", "json").out)
    assert made["topic"] == name
    listed = json.loads(txnctl("topics", "list", "-o", "json", "--limit", "500").out)
    assert name in {each["topic"] for each in listed}
    assert txnctl("subscriptions", "list", name, "-o", "json").out == "[]\n"
    assert txnctl("partitions", "blockers", f"{name}:0", "-o", "json").out == "[]\n"
