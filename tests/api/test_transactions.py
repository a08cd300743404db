from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.test import override_settings

from engine import Engine
from engine.coordinator.archive import Archive
from engine.coordinator.limits import OpenLimits
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from tests.api.conftest import MESSAGES, TOPIC, Caller
from txnconsole.audit.models import AuditEntry
from txnconsole.console.transaction_document import read_document
from txnconsole.wsgi_on_threads import CALLER_IS_GONE


def test_a_transaction_is_opened_with_everything_that_the_contract_names(program: Caller) -> None:
    answer = program.post(
        "/transactions",
        {"timeout_ms": 5000, "coordinator_id": 2, "client": "billing-7", "properties": {"a": "b"}},
    )
    assert answer.status == 201
    opened = answer.json
    assert opened["txn_id"] == "2:0"
    assert opened["coordinator_id"] == 2
    assert opened["txnid_most_bits"] == str(2 << 48)
    assert opened["txnid_least_bits"] == "0"
    assert (opened["status"], opened["owner"]) == ("OPEN", "program")
    assert (opened["client"], opened["properties"]) == ("billing-7", {"a": "b"})
    assert (opened["timeout_ms"], opened["overdue_ms"], opened["ended_at"]) == (5000, 0, None)
    assert opened["deadline"] > opened["opened_at"]
    assert opened["opened_at"].endswith("Z")
    assert len(opened["opened_at"]) == len("2026-01-31T12:00:00.000000Z")
    assert program.get("/transactions/2:0").json["partitions"] == []


def test_where_a_transaction_was_opened_from_is_kept_with_it(
    program: Caller, engine: Engine
) -> None:
    """Behind a proxy, what that says of the sender; the contract has no field for it."""
    direct = TxnID.parse(program.open())
    with override_settings(BEHIND_PROXY=True):
        answer = program.send("POST", "/transactions", b"{}", X_Forwarded_For="::1, 198.51.100.7")
    behind = TxnID.parse(answer.json["txn_id"])
    assert not [name for name in answer.json if "host" in name]
    assert engine.coordinator.get(direct).client_host == "127.0.0.1"
    assert engine.coordinator.get(behind).client_host == "198.51.100.7"
    assert engine.coordinator.get_many([behind])[behind].client_host == "198.51.100.7"
    ended = engine.coordinator.end(behind, TxnAction.ABORT)
    assert ended.client_host == "198.51.100.7"


def test_an_unknown_coordinator_is_404_and_a_timeout_above_the_maximum_400(
    program: Caller,
) -> None:
    answer = program.post("/transactions", {"coordinator_id": 999})
    assert answer.is_problem(404, "CoordinatorNotFound")
    for address in ("/transactions", f"/transactions/{program.open()}/extend"):
        answer = program.post(address, {"timeout_ms": 86_400_000})
        assert answer.is_problem(400, "InvalidRequest")
        assert [error["field"] for error in answer.json["errors"]] == ["timeout_ms"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/transactions/77:1/commit", {}),
        ("/transactions/77:1/abort", {}),
        ("/transactions/77:1/extend", {"timeout_ms": 1000}),
        ("/transactions/77:1/partitions", {"partitions": [f"{TOPIC}:0"]}),
        ("/transactions/end-group", {"group": "g", "guard": "x", "commit": ["77:1"]}),
        (MESSAGES, {"txn_id": "77:1", "messages": [{"payload": "a"}]}),
    ],
)
def test_a_transaction_of_an_unknown_coordinator_is_404_and_says_so(
    path: str, body: object, program: Caller, topic: str
) -> None:
    assert program.post(path, body).is_problem(404, "CoordinatorNotFound")


def test_a_list_is_paged_to_its_end_without_gap_or_repetition(program: Caller) -> None:
    opened = [program.open() for _ in range(7)]
    seen, cursor = [], ""
    while True:
        page = program.get(f"/transactions?limit=3{cursor}").json
        seen += [item["txn_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == opened[::-1]
    oldest = program.get("/transactions?order=oldest").json["items"]
    assert [item["txn_id"] for item in oldest] == opened


def test_filters_narrow_a_list(as_role: Callable[..., Caller], topic: str) -> None:
    one, other = as_role("producer", user="one"), as_role("producer", user="other")
    first = one.open(client="c1", coordinator_id=0)
    second = other.open(client="c2", coordinator_id=1)
    one.produce("x", txn_id=first)
    other.post(f"/transactions/{second}/abort")
    viewer = as_role("viewer")

    def found(query: str) -> list[str]:
        return [item["txn_id"] for item in viewer.get(f"/transactions?{query}").json["items"]]

    assert found("") == [second, first]
    assert found("owner=one") == [first]
    assert found("client=c2") == [second]
    assert found("coordinator_id=0") == [first]
    assert found(f"topic={TOPIC}") == [first]
    assert found("status=OPEN") == [first]
    assert found("status=ABORTING&status=ABORTED&status=OPEN") == [second, first]
    assert found("min_age_ms=3600000") == []
    assert found("overdue=true") == []
    assert found("opened_after=2000-01-01T00:00:00Z") == [second, first]
    assert found("opened_before=2000-01-01T00:00:00%2B02:00") == []


def test_a_log_tells_a_transactions_life_in_order(program: Caller, topic: str) -> None:
    txn_id = program.open()
    program.produce("x", txn_id=txn_id)
    program.post(f"/transactions/{txn_id}/commit")
    items = program.get(f"/transactions/{txn_id}/log").json["items"]
    assert [item["metadata_op"] for item in items] == ["NEW", "ADD_PARTITION", "UPDATE"]
    assert items[1]["partitions"] == [f"{TOPIC}:0"]
    assert (items[2]["expected_status"], items[2]["new_status"]) == ("OPEN", "COMMITTING")


def test_a_log_comes_in_pages_when_asked_for(program: Caller, topic: str) -> None:
    path = f"/transactions/{program.open()}/log"
    program.post(path.replace("log", "commit"))
    whole = program.get(path).json
    assert whole["next_cursor"] is None
    first = program.get(f"{path}?limit=1").json
    rest = program.get(f"{path}?limit=1&cursor={first['next_cursor']}").json
    assert (first["items"] + rest["items"], rest["next_cursor"]) == (whole["items"], None)
    assert program.get(f"{path}?cursor=x").is_problem(400, "InvalidRequest")


def test_an_outcome_is_known_from_the_decision_on(program: Caller) -> None:
    committed, aborted, opened = program.open(), program.open(), program.open()
    program.post(f"/transactions/{committed}/commit")
    program.post(f"/transactions/{aborted}/abort")
    outcomes = {
        txn_id: program.get(f"/transactions/{txn_id}/outcome").json
        for txn_id in (committed, aborted, opened)
    }
    assert outcomes == {
        committed: {"txn_id": committed, "outcome": "COMMITTED"},
        aborted: {"txn_id": aborted, "outcome": "ABORTED"},
        opened: {"txn_id": opened, "outcome": "UNDECIDED"},
    }


def test_ending_again_is_success_and_the_opposite_is_not(
    program: Caller, finalize: Callable[[], None]
) -> None:
    for action, opposite, decided in (
        ("commit", "abort", "COMMITTED"),
        ("abort", "commit", "ABORTED"),
    ):
        txn_id = program.open()
        first = program.post(f"/transactions/{txn_id}/{action}")
        again = program.post(f"/transactions/{txn_id}/{action}")
        assert (first.status, again.status) == (200, 200)
        assert program.post(f"/transactions/{txn_id}/{opposite}").is_problem(
            409, "InvalidTxnStatus"
        )
        finalize()
        assert program.post(f"/transactions/{txn_id}/{action}").json["status"] == decided
        assert program.post(f"/transactions/{txn_id}/{opposite}").json["current_status"] == decided


def test_a_commit_waits_no_longer_than_asked(program: Caller) -> None:
    answer = program.post(f"/transactions/{program.open()}/commit", {"wait_ms": 30})
    assert answer.json["status"] == "COMMITTING"
    assert program.post("/transactions/0:0/commit", {"wait_ms": 30_001}).is_problem(
        400, "InvalidRequest"
    )


@pytest.mark.parametrize("action", ["commit", "abort"])
def test_an_end_is_waited_for_no_longer_than_its_caller_does(program: Caller, action: str) -> None:
    """Else callers that give up and come again take all places to wait."""
    asked: list[str] = []

    def is_gone() -> bool:
        asked.append(action)
        return len(asked) > 1

    answer = program._client.generic(
        "POST",
        f"/api/v1/transactions/{program.open()}/{action}",
        b'{"wait_ms": 30000}',
        content_type="application/json",
        headers=program._headers,
        **{CALLER_IS_GONE: is_gone},
    )
    assert (answer.status_code, len(asked)) == (200, 2)


def test_a_subscription_of_partitions_on_two_brokers_takes_part_once(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    program.put(f"/topics/{TOPIC}/subscriptions/s")
    for number in (0, 1):
        message = {"messages": [{"payload": "x"}]}
        program.post(f"/topics/{TOPIC}/partitions/{number}/messages", message)
    received = program.post(f"/topics/{TOPIC}/subscriptions/s/receive", {"consumer": "c"}).json
    txn_id = program.open()
    ids = [each["message_id"] for each in received["messages"]]
    body = {"consumer": "c", "txn_id": txn_id, "message_ids": ids}
    assert len(program.post(f"/topics/{TOPIC}/subscriptions/s/ack", body).json["pending"]) == 2
    [before] = program.get(f"/transactions/{txn_id}").json["subscriptions"]
    assert (before["state"], before["acked_messages"]) == ("pending", 2)
    program.post(f"/transactions/{txn_id}/commit")
    finalize()
    [after] = program.get(f"/transactions/{txn_id}").json["subscriptions"]
    assert after == {
        "topic": TOPIC,
        "subscription": "s",
        "acked_messages": 2,
        "state": "committed",
        "attempts": 1,
        "last_error": None,
    }


def test_participants_are_added_once_and_only_while_it_is_open(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    program.put(f"/topics/{TOPIC}/subscriptions/s")
    txn_id = program.open()
    both = {"partitions": [f"{TOPIC}:0", f"{TOPIC}:1"]}
    for _ in range(2):
        answer = program.post(f"/transactions/{txn_id}/partitions", both)
        assert [each["partition"] for each in answer.json["partitions"]] == both["partitions"]
    body = {"subscriptions": [{"topic": TOPIC, "subscription": "s"}]}
    answer = program.post(f"/transactions/{txn_id}/subscriptions", body)
    assert [each["subscription"] for each in answer.json["subscriptions"]] == ["s"]
    unknown = {"subscriptions": [*body["subscriptions"], {"topic": TOPIC, "subscription": "u"}]}
    answer = program.post(f"/transactions/{txn_id}/subscriptions", unknown)
    assert answer.is_problem(404, "SubscriptionNotFound")
    program.post(f"/transactions/{txn_id}/commit")
    finalize()
    after = program.get(f"/transactions/{txn_id}").json
    assert {each["state"] for each in after["partitions"]} == {"committed"}
    assert program.post(f"/transactions/{txn_id}/partitions", both).is_problem(
        409, "InvalidTxnStatus"
    )


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("partitions", {"partitions": [f"{TOPIC}:0", "x"]}, "partitions[1]"),
        ("partitions", {"partitions": []}, "partitions"),
        (
            "subscriptions",
            {"subscriptions": [{"topic": "x", "subscription": "s"}]},
            "subscriptions[0].topic",
        ),
        ("subscriptions", {"subscriptions": [{"topic": TOPIC}]}, "subscriptions[0].subscription"),
    ],
)  # fmt: skip
def test_a_malformed_participant_is_named(
    path: str, body: object, field: str, program: Caller, topic: str
) -> None:
    answer = program.post(f"/transactions/{program.open()}/{path}", body)
    assert answer.is_problem(400, "InvalidRequest")
    assert answer.json["errors"][0]["field"] == field


def test_a_deadline_moves_while_the_transaction_is_open(program: Caller) -> None:
    txn_id = program.open(timeout_ms=1000)
    before = program.get(f"/transactions/{txn_id}").json["deadline"]
    after = program.post(f"/transactions/{txn_id}/extend", {"timeout_ms": 50_000}).json["deadline"]
    assert after > before
    program.post(f"/transactions/{txn_id}/abort")
    answer = program.post(f"/transactions/{txn_id}/extend", {"timeout_ms": 50_000})
    assert answer.is_problem(409, "InvalidTxnStatus")


def test_whoever_moves_a_deadline_or_adds_a_participant_is_told_what_a_get_tells(
    program: Caller, topic: str
) -> None:
    program.put(f"/topics/{TOPIC}/subscriptions/s", {})
    txn_id = program.open()
    program.produce("x", "y", txn_id=txn_id)
    subscription = {"topic": TOPIC, "subscription": "s"}
    for path, body in (
        ("extend", {"timeout_ms": 50_000}),
        ("partitions", {"partitions": [f"{TOPIC}:0"]}),
        ("subscriptions", {"subscriptions": [subscription]}),
    ):
        [part] = program.post(f"/transactions/{txn_id}/{path}", body).json["partitions"]
        assert (part["first_offset"], part["last_offset"], part["messages"]) == (0, 1, 2), path
        assert [part] == program.get(f"/transactions/{txn_id}").json["partitions"]


def test_an_operator_aborts_anybodys_transaction_and_says_why(
    program: Caller, as_role: Callable[..., Caller], topic: str
) -> None:
    operator = as_role("operator", user="olga")
    txn_id = program.open()
    program.produce("x", txn_id=txn_id)
    path = f"/transactions/{txn_id}/abort"
    for reason in ({}, {"reason": ""}, {"reason": "  "}):
        answer = operator.post(path, reason)
        assert answer.is_problem(400, "InvalidRequest")
        assert answer.json["errors"][0]["field"] == "reason"
    answer = operator.post(path, {"reason": "holds back flights"})
    assert answer.json["status"] == "ABORTING"
    assert answer.json["end_reason"] == "operator"
    assert answer.json["end_detail"] == "holds back flights"

    entries = list(AuditEntry.objects.filter(who="olga").order_by("sequence"))
    assert [entry.result for entry in entries] == ["InvalidRequest"] * 3 + ["done"]
    done = entries[-1]
    assert (done.action, done.object) == ("transaction.abort", f"transaction:{txn_id}")
    assert done.reason == "holds back flights"
    assert done.before == '{"owner":"program","status":"OPEN"}'
    assert done.after == '{"status":"ABORTING"}'
    assert done.request_id
    assert done.token_id is not None


_OWNERS: dict[str, tuple[dict[str, object], str]] = {
    "commit": ({}, "commit"),
    "extend": ({"timeout_ms": 1000}, "extend"),
    "partitions": ({"partitions": [f"{TOPIC}:0"]}, "add partitions to"),
    "subscriptions": (
        {"subscriptions": [{"topic": TOPIC, "subscription": "s"}]},
        "add subscriptions to",
    ),
}


@pytest.mark.parametrize("call", _OWNERS)
def test_only_its_owner_uses_a_transaction(
    program: Caller, as_role: Callable[..., Caller], topic: str, call: str
) -> None:
    """Who sees it is told so; to a program another's does not exist."""
    body, what = _OWNERS[call]
    program.put(f"/topics/{topic}/subscriptions/s")
    txn_id = program.open()
    before = program.get(f"/transactions/{txn_id}").json
    answer = as_role("admin").post(f"/transactions/{txn_id}/{call}", body)
    assert answer.is_problem(403, "PermissionDenied")
    assert answer.json["detail"] == f"Only its owner may {what} {txn_id}."
    thief = as_role("producer", "consumer", user="thief")
    answer = thief.post(f"/transactions/{txn_id}/{call}", body)
    assert answer.is_problem(404, "TransactionNotFound")
    after = program.get(f"/transactions/{txn_id}").json
    assert {**after, "age_ms": 0} == {**before, "age_ms": 0}


def test_ends_are_audited_and_produced_messages_are_not(program: Caller, topic: str) -> None:
    before = AuditEntry.objects.count()
    txn_id = program.open()
    program.produce("x", txn_id=txn_id)
    assert AuditEntry.objects.count() == before
    program.post(f"/transactions/{txn_id}/commit")
    program.post(f"/transactions/{txn_id}/abort")
    actions = AuditEntry.objects.order_by("sequence").values_list("action", "result")[before:]
    assert list(actions) == [
        ("transaction.commit", "done"),
        ("transaction.abort", "InvalidTxnStatus"),
    ]


def test_an_impact_tells_what_an_end_would_do_and_does_nothing(program: Caller, topic: str) -> None:
    txn_id = program.open()
    program.produce("a", "b", txn_id=txn_id)
    program.produce("c")
    impact = program.get(f"/transactions/{txn_id}/impact?action=abort").json
    (partition,) = impact["partitions"]
    assert (impact["action"], partition["partition"]) == ("abort", f"{TOPIC}:0")
    assert (partition["stable_position"], partition["stable_position_after"]) == (-1, 2)
    assert partition["messages_discarded"] == 2
    assert partition["next_blocker"] is None
    commit = program.get(f"/transactions/{txn_id}/impact?action=commit").json
    assert commit["partitions"][0]["messages_discarded"] == 0
    expiry = program.get(f"/transactions/{txn_id}/impact?action=expire").json
    assert (expiry["partitions"], commit["at"]) == (impact["partitions"], None)
    assert expiry["at"] == program.get(f"/transactions/{txn_id}").json["deadline"]
    program.post(f"/transactions/{txn_id}/abort")
    for action in ("commit", "expire"):
        refused = program.get(f"/transactions/{txn_id}/impact?action={action}")
        assert refused.is_problem(409, "InvalidTxnStatus")


def test_an_impact_leaves_the_transaction_open(program: Caller, topic: str) -> None:
    txn_id = program.open()
    program.get(f"/transactions/{txn_id}/impact")
    assert program.get(f"/transactions/{txn_id}").json["status"] == "OPEN"


def test_a_group_is_ended_once_and_as_one(program: Caller) -> None:
    winner, loser, other = program.open(), program.open(), program.open()
    body = {"group": "sink/1", "guard": "q1", "commit": [winner], "abort": [loser]}
    first = program.post("/transactions/end-group", body)
    assert (first.status, first.json["duplicate"]) == (200, False)
    statuses = {each["txn_id"]: each["status"] for each in first.json["transactions"]}
    assert statuses == {winner: "COMMITTING", loser: "ABORTING"}
    again = program.post("/transactions/end-group", body | {"commit": [other], "abort": []})
    assert again.json["duplicate"] is True
    assert program.get(f"/transactions/{other}").json["status"] == "OPEN"
    fenced = program.post("/transactions/end-group", body | {"guard": "q2"})
    assert fenced.is_problem(409, "ProducerFenced")


def test_a_group_takes_as_many_as_a_large_job_has_tasks_and_no_more(program: Caller) -> None:
    own = program.open()
    unknown = [f"0:{10**15 + number}" for number in range(9_999)]
    full = {"group": "sink/3", "guard": "q", "commit": [own], "abort": unknown}
    assert program.post("/transactions/end-group", full).is_problem(404, "TransactionNotFound")
    more = full | {"abort": [*unknown, "0:1"]}
    refused = program.post("/transactions/end-group", more)
    assert refused.is_problem(400, "InvalidRequest")
    assert "10000" in refused.json["detail"]
    assert program.get(f"/transactions/{own}").json["status"] == "OPEN"


def test_a_group_with_a_transaction_that_cannot_go_along_ends_nothing(program: Caller) -> None:
    good, ended = program.open(), program.open()
    program.post(f"/transactions/{ended}/abort")
    body = {"group": "sink/2", "guard": "q", "commit": [good, ended]}
    assert program.post("/transactions/end-group", body).is_problem(409, "InvalidTxnStatus")
    assert program.get(f"/transactions/{good}").json["status"] == "OPEN"


def test_slow_transactions_are_those_that_have_not_ended(
    program: Caller, as_role: Callable[..., Caller], finalize: Callable[[], None]
) -> None:
    slow, ended = program.open(), program.open()
    program.post(f"/transactions/{ended}/commit")
    finalize()
    viewer = as_role("viewer")
    items = viewer.get("/slow-transactions?min_age_ms=0").json["items"]
    assert [item["txn_id"] for item in items] == [slow]
    assert viewer.get("/slow-transactions").json == {"items": [], "next_cursor": None}


def test_another_principal_cannot_write_into_a_transaction(
    program: Caller, as_role: Callable[..., Caller], topic: str
) -> None:
    txn_id = program.open()
    thief = as_role("producer", "consumer", user="thief")
    body = {"txn_id": txn_id, "messages": [{"payload": "x"}]}
    assert thief.post(MESSAGES, body).is_problem(404, "TransactionNotFound")
    assert as_role("admin").post(MESSAGES, body).is_problem(404, "TransactionNotFound")


def test_an_open_transaction_tells_what_it_has_written_so_far(program: Caller, topic: str) -> None:
    txn_id = program.open()
    program.produce("before")
    program.produce("a", txn_id=txn_id)
    program.produce("b", txn_id=txn_id)
    [partition] = program.get(f"/transactions/{txn_id}").json["partitions"]
    assert (partition["first_offset"], partition["last_offset"]) == (1, 2)
    assert (partition["messages"], partition["state"]) == (2, "pending")


def test_an_archived_transaction_answers_id_status_and_owner_and_repeats_its_end(
    program: Caller, as_role: Callable[..., Caller], finalize: Callable[[], None], engine: Engine
) -> None:
    txn_id = program.open()
    path = f"/transactions/{txn_id}"
    program.post(f"{path}/commit")
    finalize()
    assert program.get(path).json["archived"] is False
    settings = replace(engine.settings, archive_after_ms=0)
    assert Archive(engine.database, settings).move() == 1
    found = program.get(path).json
    assert (found["txn_id"], found["status"], found["owner"]) == (txn_id, "COMMITTED", "program")
    assert (found["archived"], found["opened_at"], found["deadline"]) == (True, None, None)
    assert program.get(f"{path}/outcome").json["outcome"] == "COMMITTED"
    assert program.get(f"{path}/log").json == {"items": [], "next_cursor": None}
    again = program.post(f"{path}/commit", {"wait_ms": 100})
    assert (again.status, again.json["status"]) == (200, "COMMITTED")
    refused = program.post(f"{path}/abort")
    assert refused.is_problem(409, "InvalidTxnStatus")
    assert refused.json["current_status"] == "COMMITTED"
    stranger = as_role("producer", user="stranger")
    for answer in (
        stranger.get(path),
        stranger.get(f"{path}/outcome"),
        stranger.get(f"{path}/log"),
        stranger.post(f"{path}/commit"),
        stranger.post(f"{path}/extend", {"timeout_ms": 1000}),
    ):
        assert answer.is_problem(404, "TransactionNotFound")
    assert as_role("viewer").get(path).json["owner"] == "program"


def test_an_owner_at_its_limit_is_told_the_limit_and_the_count(
    program: Caller, engine: Engine
) -> None:
    engine.coordinator._limits = OpenLimits(replace(engine.settings, max_open_per_owner=1))
    program.open()
    answer = program.post("/transactions")
    assert answer.is_problem(429, "LimitExceeded")
    assert (answer.json["limit"], answer.json["count"]) == (1, 1)
    assert answer.headers["Retry-After"]


def test_the_document_of_a_transaction_can_be_read_in_a_console(
    topic: str, program: Caller, as_role: Callable[..., Caller]
) -> None:
    txn_id = program.open(client="billing-7")
    program.produce("secret", txn_id=txn_id)
    given = program.get(f"/transactions/{txn_id}/document")
    assert given.status == 200
    assert b"secret" not in given.content
    read = read_document(given.content)
    assert (read.transaction.txn_id, read.transaction.client) == (txn_id, "billing-7")
    assert [each.partition for each in read.partitions] == [f"{TOPIC}:0"]
    assert read.audit is None
    assert (
        as_role("operator").post(f"/transactions/{txn_id}/abort", {"reason": "why"}).status == 200
    )
    told = read_document(as_role("operator").get(f"/transactions/{txn_id}/document").content)
    assert told.audit is not None
    assert [each.reason for each in told.audit] == ["why"]
