from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from threading import Thread

import pyarrow as pa
import pytest

from engine import Engine
from engine.model.topic_name import PartitionName
from tests.server import Served
from txnconsole import connection_strings
from txnconsole.client import (
    Client,
    InvalidTxnStatus,
    ProducerFenced,
    RetryPolicy,
    TransportOptions,
)
from txnconsole.pipeline.sink import (
    Attempt,
    Batch,
    Sink,
    abort,
    abort_dead,
    abort_leftovers,
    await_visible,
    commit,
    is_committed,
)
from txnconsole.pipeline.subscription import _settle

NewTopic = Callable[[int], str]
Committed = Callable[[str], list[bytes]]
_BATCH = Batch("0", "query-1")


@pytest.fixture
def sink(new_topic: NewTopic) -> Sink:
    return Sink(f"sink-{uuid.uuid4().hex}", new_topic(2), timeout=60)


def _rows(*payloads: bytes) -> pa.RecordBatch:
    keys = [payload.decode() for payload in payloads]
    return pa.RecordBatch.from_pydict({"payload": list(payloads), "key": keys})


def _attempt(client: Client, sink: Sink, *payloads: bytes, batch: Batch = _BATCH) -> str:
    with Attempt(client, sink, batch) as attempt:
        for payload in payloads:
            attempt.write(_rows(payload))
        attempt.finish()
    assert attempt.txn_id is not None
    return attempt.txn_id


def _status(client: Client, txn_id: str) -> str:
    return client.transactions.get(txn_id).status.replace("TING", "TED")


@contextmanager
def locked_heads(server: Served, topic: str) -> Iterator[None]:
    """Let no marker be written in a topic's two partitions meanwhile."""
    urls = connection_strings.split(server.environment["BROKER_DATABASE_URLS"])
    brokers = {f"broker-{number}": url for number, url in enumerate(urls, 1)}
    engine = Engine(server.environment["DATABASE_URL"], brokers)
    with closing(engine), ExitStack() as locks:
        for number in range(2):
            at = engine.log.locate(PartitionName.parse(f"{topic}:{number}"))
            session = locks.enter_context(at.database.transaction())
            session.one("lock_head", partition_id=at.partition_id)
        yield


def test_an_attempt_is_invisible_until_its_batch_is_decided(
    client: Client, sink: Sink, committed: Committed
) -> None:
    winner = _attempt(client, sink, b"a", b"b")
    assert committed(sink.topic) == []
    commit(client, sink, _BATCH, [winner])
    assert sorted(committed(sink.topic)) == [b"a", b"b"]


def test_who_waits_for_a_batch_can_read_it_and_waits_no_longer_than_it_says(
    client: Client, sink: Sink, server: Served
) -> None:
    winner = _attempt(client, sink, b"a", b"b")
    with locked_heads(server, sink.topic):
        commit(client, sink, _BATCH, [winner])
        assert not await_visible(client, sink, seconds=0.2)
        assert client.transactions.get(winner).status == "COMMITTING"
    assert await_visible(client, sink, seconds=60)
    read = [message.payload for number in range(2) for message in client.reader(sink.topic, number)]
    assert sorted(read) == [b"a", b"b"]


def test_an_unreachable_server_makes_no_failure_of_a_batch_that_is_decided(sink: Sink) -> None:
    at_once = TransportOptions(retry=RetryPolicy(deadline=0))
    with Client("http://127.0.0.1:9", "token", at_once) as nobody:
        assert not await_visible(nobody, sink, seconds=60)


def test_the_attempts_that_do_not_count_are_aborted_by_the_same_decision(
    client: Client, sink: Sink, committed: Committed
) -> None:
    winner, loser = _attempt(client, sink, b"a"), _attempt(client, sink, b"a")
    commit(client, sink, _BATCH, [winner])
    assert _status(client, loser) == "ABORTED"
    assert committed(sink.topic) == [b"a"]


def test_a_batch_that_comes_again_changes_nothing_and_leaves_nothing_open(
    client: Client, sink: Sink, committed: Committed
) -> None:
    commit(client, sink, _BATCH, [_attempt(client, sink, b"a", b"b")])
    again = _attempt(client, sink, b"b", b"a")
    commit(client, sink, _BATCH, [again])
    assert _status(client, again) == "ABORTED"
    assert sorted(committed(sink.topic)) == [b"a", b"b"]


def test_a_decision_whose_answer_was_lost_can_be_asked_for_again(
    client: Client, sink: Sink, committed: Committed
) -> None:
    winner = _attempt(client, sink, b"a")
    commit(client, sink, _BATCH, [winner])
    commit(client, sink, _BATCH, [winner])
    assert _status(client, winner) == "COMMITTED"
    assert committed(sink.topic) == [b"a"]


def test_an_empty_batch_is_decided_too_so_that_a_deleted_checkpoint_is_noticed(
    client: Client, sink: Sink
) -> None:
    commit(client, sink, _BATCH, [])
    with pytest.raises(ProducerFenced):
        commit(client, sink, Batch("0", "query-2"), [])


def test_another_guard_is_refused_and_changes_nothing(
    client: Client, sink: Sink, committed: Committed
) -> None:
    commit(client, sink, _BATCH, [_attempt(client, sink, b"a")])
    other = Batch("0", "query-2")
    stranger = _attempt(client, sink, b"z", batch=other)
    with pytest.raises(ProducerFenced):
        commit(client, sink, other, [stranger])
    assert _status(client, stranger) == "OPEN"
    abort(client, sink, other.number)
    assert _status(client, stranger) == "ABORTED"
    assert committed(sink.topic) == [b"a"]


def test_a_repetition_that_covers_something_else_is_refused_and_leaves_what_stands(
    client: Client, sink: Sink, committed: Committed
) -> None:
    """A checkpoint restored from an older copy counts from below, and keeps its query's id."""
    batch = replace(_BATCH, covers="offsets 0 to 2")
    commit(client, sink, batch, [_attempt(client, sink, b"a", b"b", batch=batch)])
    commit(client, sink, batch, [_attempt(client, sink, b"b", b"a", batch=batch)])
    longer = replace(_BATCH, covers="offsets 0 to 3")
    attempt = _attempt(client, sink, b"a", b"b", b"c", batch=longer)
    with pytest.raises(ProducerFenced, match="restored from an older copy"):
        commit(client, sink, longer, [attempt])
    assert _status(client, attempt) == "OPEN"
    assert sorted(committed(sink.topic)) == [b"a", b"b"]


def test_a_batch_that_was_decided_before_batches_said_what_they_cover_can_be_repeated(
    client: Client, sink: Sink, committed: Committed
) -> None:
    commit(client, sink, _BATCH, [_attempt(client, sink, b"a")])
    batch = replace(_BATCH, covers="offsets 0 to 1")
    again = _attempt(client, sink, b"a", batch=batch)
    commit(client, sink, batch, [again])
    assert _status(client, again) == "ABORTED"
    assert committed(sink.topic) == [b"a"]


def test_a_winner_that_was_aborted_fails_the_whole_batch_which_can_be_written_again(
    client: Client, sink: Sink, committed: Committed
) -> None:
    lost, other = _attempt(client, sink, b"a"), _attempt(client, sink, b"b")
    client.transactions.abort(lost, reason="an operator was faster")
    with pytest.raises(InvalidTxnStatus):
        commit(client, sink, _BATCH, [lost, other])
    abort(client, sink, _BATCH.number)
    commit(client, sink, _BATCH, [_attempt(client, sink, b"a", b"b")])
    assert sorted(committed(sink.topic)) == [b"a", b"b"]


def test_aborting_a_decided_batch_leaves_it_decided(
    client: Client, sink: Sink, committed: Committed
) -> None:
    commit(client, sink, _BATCH, [_attempt(client, sink, b"a")])
    abort(client, sink, _BATCH.number)
    assert committed(sink.topic) == [b"a"]


def test_aborting_a_batch_leaves_the_sinks_other_batches_alone(client: Client, sink: Sink) -> None:
    kept = _attempt(client, sink, b"a", batch=Batch("1", "query-1"))
    abort(client, sink, "0")
    assert _status(client, kept) == "OPEN"


def test_what_a_dead_writer_left_is_aborted_before_the_next_one_starts(
    client: Client, sink: Sink
) -> None:
    dead = [_attempt(client, sink, b"a"), _attempt(client, sink, b"b")]
    assert abort_leftovers(client, sink) == 2
    assert {_status(client, txn_id) for txn_id in dead} == {"ABORTED"}
    assert abort_leftovers(client, sink) == 0


def test_leftovers_of_another_sink_are_not_touched(
    client: Client, sink: Sink, new_topic: NewTopic
) -> None:
    other = Sink(f"{sink.name}-other", new_topic(1), timeout=60)
    kept = _attempt(client, other, b"a")
    abort_leftovers(client, sink)
    assert _status(client, kept) == "OPEN"


def test_an_attempt_without_messages_opens_no_transaction(client: Client, sink: Sink) -> None:
    with Attempt(client, sink, _BATCH) as attempt:
        attempt.finish()
    assert attempt.txn_id is None
    assert not list(client.transactions.list(client=sink.client))


def test_an_attempt_that_takes_long_extends_its_transaction(
    client: Client, new_topic: NewTopic
) -> None:
    sink = Sink(f"sink-{uuid.uuid4().hex}", new_topic(1), timeout=30)
    with Attempt(client, sink, _BATCH) as attempt:
        attempt.write(_rows(b"a"))
        assert attempt.txn_id is not None
        first = client.transactions.get(attempt.txn_id).deadline
        attempt._extend_at = 0.0  # As if a third of the timeout had passed.
        attempt.finish()
    assert client.transactions.get(attempt.txn_id).deadline > first


def test_drivers_that_decide_one_batch_at_once_agree_on_one_of_them(
    client: Client, sink: Sink, committed: Committed
) -> None:
    winners = [_attempt(client, sink, b"a", b"b", b"c") for _ in range(4)]
    failures: list[Exception] = []

    def decide(winner: str) -> None:
        try:
            commit(client, sink, _BATCH, [winner])
        except InvalidTxnStatus as error:  # Another driver has aborted it as a loser.
            failures.append(error)

    drivers = [Thread(target=decide, args=(winner,)) for winner in winners]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert len(failures) < len(winners)
    assert sorted(committed(sink.topic)) == [b"a", b"b", b"c"]
    assert sorted(_status(client, winner) for winner in winners) == ["ABORTED"] * 3 + ["COMMITTED"]


def test_another_owners_transactions_under_the_sinks_name_are_left_alone(
    server: Served, sink: Sink, client: Client
) -> None:
    """As a replay's that was killed when somebody ran it by hand. The token sees them, as that of a
    pipeline run does, and may not end them."""
    token = server.token("viewer,producer,consumer", user="pipeline-run")
    with Client(server.url, token) as own:
        theirs = client.transaction(client=sink.client, timeout=60)
        done = client.transaction(client=sink.client, properties={"batch": "0"}, timeout=60)
        done.commit()
        assert not is_committed(own, sink, "0")
        assert abort_leftovers(own, sink) == abort_dead(own, sink, "run") == 0
        attempts = [_attempt(own, sink, b"x") for _ in range(2)]
        commit(own, sink, _BATCH, attempts[:1])
        assert [_status(own, each) for each in attempts] == ["COMMITTED", "ABORTED"]
        assert await_visible(own, sink, seconds=60)
        _settle(own, theirs.txn_id, sink.client)
        assert _status(own, theirs.txn_id) == "OPEN"
