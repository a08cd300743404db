from __future__ import annotations

from collections.abc import Callable

from engine import Engine
from engine.model.topic_name import TopicName
from tests.api.conftest import TOPIC, Caller
from tests.engine.support import unreachable

_PARTITION = f"/topics/{TOPIC}/partitions/0"


def test_an_empty_partition_has_no_stable_position(program: Caller, topic: str) -> None:
    status = program.get(_PARTITION).json
    assert (status["last_offset"], status["stable_position"], status["last_stable_offset"]) == (
        -1,
        -1,
        0,
    )
    assert (status["state"], status["blocker"], status["ongoing_txns"]) == ("online", None, 0)


def test_a_partition_names_the_transaction_that_holds_it_back(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    program.produce("a")
    txn_id = program.open(client="billing-7")
    program.produce("b", "c", txn_id=txn_id)
    program.produce("d")
    status = program.get(_PARTITION).json
    assert (status["stable_position"], status["last_stable_offset"]) == (0, 1)
    assert (status["last_offset"], status["ongoing_txns"]) == (3, 1)
    blocker = status["blocker"]
    assert blocker["age_ms"] >= 0
    assert {name: blocker[name] for name in blocker if name != "age_ms"} == {
        "txn_id": txn_id,
        "first_offset": 1,
        "owner": "program",
        "client": "billing-7",
        "hidden_messages": 3,
    }
    program.post(f"/transactions/{txn_id}/abort")
    finalize()
    status = program.get(_PARTITION).json
    assert (status["blocker"], status["aborted_txns"]) == (None, 1)
    assert status["stable_position"] == status["last_offset"] == 4


def test_what_is_held_back_is_told_over_all_topics_the_most_first(
    program: Caller, as_role: Callable[..., Caller], topic: str, engine: Engine
) -> None:
    viewer = as_role("viewer")
    nothing = {"items": [], "complete": True, "unavailable": []}
    assert viewer.get("/held-back-partitions").json == nothing
    first, second = program.open(client="billing-7"), program.open()
    program.produce("a", txn_id=first)
    body = {"txn_id": second, "messages": [{"payload": "b"}, {"payload": "c"}]}
    program.post(f"/topics/{TOPIC}/partitions/1/messages", body)
    answer = viewer.get("/held-back-partitions").json
    most, least = answer["items"]
    assert (answer["complete"], answer["unavailable"]) == (True, [])
    assert (most["partition"], most["txn_id"], most["hidden_messages"]) == (f"{TOPIC}:1", second, 2)
    assert least.pop("held_ms") >= most.pop("held_ms") >= 0
    assert least == {
        "partition": f"{TOPIC}:0",
        "broker": engine.topics.get(TopicName.parse(TOPIC)).broker_of(0),
        "stable_position": -1,
        "last_offset": 0,
        "hidden_messages": 1,
        "ongoing_txns": 1,
        "txn_id": first,
        "status": "OPEN",
        "owner": "program",
        "client": "billing-7",
        "deadline": viewer.get(f"/transactions/{first}").json["deadline"],
    }
    for order, wanted in (("most", second), ("longest", first)):
        cut = viewer.get(f"/held-back-partitions?limit=1&order={order}").json
        assert ([each["txn_id"] for each in cut["items"]], cut["complete"]) == ([wanted], False)
    with unreachable(engine, most["broker"]):
        answer = viewer.get("/held-back-partitions").json
    assert [each["txn_id"] for each in answer["items"]] == [first]
    assert [each["broker"] for each in answer["unavailable"]] == [most["broker"]]


def test_blockers_come_in_the_order_in_which_they_hold_the_partition(
    program: Caller, topic: str
) -> None:
    first, second = program.open(), program.open()
    program.produce("a", txn_id=first)
    program.produce("b")
    program.produce("c", txn_id=second)
    items = program.get(f"{_PARTITION}/blockers").json["items"]
    assert [item["txn_id"] for item in items] == [first, second]
    assert [item["stable_position_after"] for item in items] == [1, 2]
    assert [item["messages_freed"] for item in items] == [2, 3]
    assert {item["status"] for item in items} == {"OPEN"}
    page = program.get(f"{_PARTITION}/blockers?limit=1").json
    assert page["items"][0]["messages_freed"] == 2
    rest = program.get(f"{_PARTITION}/blockers?limit=1&cursor={page['next_cursor']}").json
    assert rest["next_cursor"] is None
    assert _without_ages(page["items"] + rest["items"]) == _without_ages(items)
    assert program.get(f"{_PARTITION}/blockers?cursor=x").is_problem(400, "InvalidRequest")


def _without_ages(items: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: each[name] for name in each if name != "age_ms"} for each in items]


def test_the_index_gives_its_rows_with_the_inclusive_stable_offset(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    txn_id = program.open()
    program.produce("a", "b", txn_id=txn_id)
    program.post(f"/transactions/{txn_id}/abort")
    finalize()
    (row,) = program.get(f"{_PARTITION}/aborted-index").json["items"]
    assert (row["txn_id"], row["outcome"]) == (txn_id, "ABORTED")
    assert (row["first_offset"], row["last_offset"], row["last_stable_offset"]) == (0, 2, 2)
    path = f"{_PARTITION}/aborted-index?segment={row['ledger_id']}"
    assert program.get(path).json["items"] == [row]
    assert program.get(f"{_PARTITION}/aborted-index?segment=987654").json["items"] == []


def test_the_index_comes_in_pages(
    program: Caller, topic: str, finalize: Callable[[], None]
) -> None:
    opened = [program.open() for _ in range(5)]
    for txn_id in opened:
        program.produce("a", txn_id=txn_id)
        program.post(f"/transactions/{txn_id}/{'abort' if txn_id != opened[2] else 'commit'}")
        finalize()
    path = f"{_PARTITION}/aborted-index?limit=3"
    first = program.get(path).json
    second = program.get(f"{path}&cursor={first['next_cursor']}").json
    assert [row["txn_id"] for row in first["items"]] == [opened[0], opened[1], opened[3]]
    assert [row["txn_id"] for row in second["items"]] == [opened[4]]
    assert second["next_cursor"] is None
    assert program.get(f"{path}&cursor=x").is_problem(400, "InvalidRequest")
    assert program.get(f"{_PARTITION}/aborted-index?limit=501").is_problem(400, "InvalidRequest")


def test_all_partitions_of_a_topic_are_listed(program: Caller, topic: str) -> None:
    program.produce("a")
    listed = program.get(f"/topics/{TOPIC}/partitions").json
    assert [(item["partition"], item["last_offset"]) for item in listed["items"]] == [
        (f"{TOPIC}:0", 0),
        (f"{TOPIC}:1", -1),
    ]
    assert listed["next_cursor"] is None


def test_the_partitions_of_a_topic_come_in_pages_by_number(program: Caller, topic: str) -> None:
    path = f"/topics/{TOPIC}/partitions?limit=1"
    first = program.get(path).json
    second = program.get(f"{path}&cursor={first['next_cursor']}").json
    assert [item["partition"] for item in first["items"]] == [f"{TOPIC}:0"]
    assert [item["partition"] for item in second["items"]] == [f"{TOPIC}:1"]
    assert second["next_cursor"] is None
    assert program.get(f"{path}&cursor=x").is_problem(400, "InvalidRequest")
    assert program.get(f"/topics/{TOPIC}/partitions?limit=501").is_problem(400, "InvalidRequest")
