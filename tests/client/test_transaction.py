from __future__ import annotations

import httpx
import pytest

from tests.client.faults import TOPIC, FaultyLog, client
from txnconsole.client import (
    InvalidTxnStatus,
    PartitionUnavailable,
    TransactionAborted,
    Unreachable,
)

ABORT = "POST /transactions/0:7/abort"
COMMIT = "POST /transactions/0:7/commit"


def test_the_block_commits_after_its_messages_are_sent() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC)
    with server.transaction(timeout=5) as txn:
        producer.send(b"1", partition=0, txn=txn)
    assert txn.info.status == "COMMITTED"
    assert network.messages == [(0, "0:7", b"1")]
    assert network.requests[-2:] == [f"POST /topics/{TOPIC}/partitions/0/messages", COMMIT]


def test_an_exception_aborts_and_passes() -> None:
    network = FaultyLog()
    server, _ = client(network)
    producer = server.producer(TOPIC)

    def fail() -> None:
        with server.transaction() as txn:
            producer.send(b"1", txn=txn)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert network.requests[-1] == ABORT
    assert COMMIT not in network.requests
    assert producer.flush() == []
    assert network.messages == []


def test_a_failed_operation_aborts_even_when_its_exception_was_caught() -> None:
    network = FaultyLog([None, 409])
    server, _ = client(network)
    producer = server.producer(TOPIC)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    with pytest.raises(InvalidTxnStatus):
        producer.flush(txn)
    producer.send(b"2", txn=txn)
    with pytest.raises(TransactionAborted) as caught, txn:
        pass
    assert isinstance(caught.value.__cause__, InvalidTxnStatus)
    assert network.requests[-1] == ABORT
    assert COMMIT not in network.requests


def test_a_flush_that_fails_at_the_commit_aborts() -> None:
    network = FaultyLog([None, 503])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC)
    with pytest.raises(TransactionAborted) as caught, server.transaction() as txn:
        producer.send(b"1", txn=txn)
    assert isinstance(caught.value.__cause__, PartitionUnavailable)
    assert network.requests[-1] == ABORT
    assert producer.flush() == []


def test_a_commit_without_an_answer_is_not_turned_into_an_abort() -> None:
    network = FaultyLog([None, "lost answer"])
    server, _ = client(network, deadline=0)
    with pytest.raises(Exception, match="got no answer"), server.transaction():
        pass
    assert ABORT not in network.requests


def test_the_first_exception_wins_when_the_abort_fails_too() -> None:
    server, _ = client(FaultyLog([None, 503]), deadline=0)
    with pytest.raises(KeyError) as caught, server.transaction():
        raise KeyError
    assert "0:7 could not be aborted either" in caught.value.__notes__[0]


def test_a_transaction_ended_inside_its_block_is_left_alone() -> None:
    network = FaultyLog()
    server, _ = client(network)
    with server.transaction() as txn:
        txn.abort("changed my mind")
    assert network.requests == ["POST /transactions", ABORT]


def test_after_an_abort_without_an_answer_no_commit_publishes_a_part() -> None:
    network = FaultyLog([None, None, "refused"])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    producer.flush(txn)
    producer.send(b"2", txn=txn)
    with pytest.raises(Unreachable):
        txn.abort()
    with pytest.raises(TransactionAborted):
        txn.commit()
    assert COMMIT not in network.requests
    assert network.requests[-1] == ABORT


def test_a_commit_that_was_interrupted_and_not_aborted_publishes_no_part_later() -> None:
    class Interrupting(FaultyLog):
        def _answer(self, request: object, path: str) -> object:  # type: ignore[override]
            if path.endswith("/messages"):
                raise KeyboardInterrupt
            return super()._answer(request, path)  # type: ignore[arg-type]

    network = Interrupting([None, None, "refused"])
    server, _ = client(network, deadline=0)
    producer = server.producer(TOPIC)
    txn = server.transaction()
    producer.send(b"1", txn=txn)
    with pytest.raises(KeyboardInterrupt):
        txn.commit()
    with pytest.raises(TransactionAborted):
        txn.commit()
    assert COMMIT not in network.requests


def test_a_commit_without_an_answer_may_be_asked_for_again() -> None:
    network = FaultyLog([None, "lost answer"])
    server, _ = client(network, deadline=0)
    txn = server.transaction()
    with pytest.raises(Unreachable):
        txn.commit()
    assert txn.commit().status == "COMMITTED"


@pytest.mark.parametrize("action", ["commit", "abort"])
@pytest.mark.parametrize("fault", ["refused", "lost answer", 503])
def test_an_end_that_is_decided_stays_so_when_a_later_look_gets_no_answer(
    action: str, fault: str | int
) -> None:
    deciding = {"commit": "COMMITTING", "abort": "ABORTING"}[action]

    class Deciding(FaultyLog):
        def _answer(self, request: httpx.Request, path: str) -> httpx.Response:
            answer = super()._answer(request, path)
            if not path.endswith(action):
                return answer
            return httpx.Response(200, json=answer.json() | {"status": deciding})

    for by_id in (False, True):
        server, _ = client(Deciding([None, None, fault]), deadline=0)
        txn = server.transaction()
        if by_id:
            ended = getattr(server.transactions, action)(txn.txn_id, wait=60)
        else:
            ended = getattr(txn, action)(wait=60)
        assert ended.status == deciding
