"""One Spark for all tests that need one, and topics of their own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.server import Served
from txnconsole.client import Client, TransactionInfo
from txnconsole.pipeline.session import build_session, stop_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse").as_uri()
    config = {
        "spark.sql.warehouse.dir": warehouse,
        "spark.default.parallelism": "2",
        # To compile queries that run once took a fourth of the time. The drivers that tests start
        # compile theirs.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    session = build_session("txnconsole-tests", config=config)
    yield session
    stop_session(session)


@pytest.fixture
def credentials(server: Served) -> dict[str, str]:
    """Options of a connection that may do everything."""
    return {"url": server.url, "token": server.token("admin")}


@pytest.fixture
def client(credentials: dict[str, str]) -> Iterator[Client]:
    with Client(credentials["url"], credentials["token"]) as client:
        yield client


@pytest.fixture
def new_topic(server: Served) -> Callable[[int], str]:
    """Create a topic of its own with so many partitions, and name it."""
    return server.topic


@pytest.fixture
def produce(client: Client) -> Callable[..., None]:
    """Produce to one partition in a transaction, end it, and wait until its marker stands."""

    def run(
        topic: str, payloads: Iterable[bytes], *, partition: int = 0, commit: bool = True
    ) -> None:
        transaction = client.transaction(client="test")
        producer = client.producer(topic)
        for payload in payloads:
            producer.send(payload, txn=transaction, partition=partition)
        producer.flush(transaction)
        end = transaction.commit if commit else transaction.abort
        assert end(wait=60).status == ("COMMITTED" if commit else "ABORTED")

    return run


@pytest.fixture
def committed(client: Client) -> Callable[[str], list[bytes]]:
    """The payloads that READ_COMMITTED readers see, partition by partition, in order.

    Waits until every ended transaction's marker stands, so that none is missing for a moment.
    """

    def read(topic: str) -> list[bytes]:
        for transaction in client.transactions.list(topic=topic):
            wait_for_end(client, transaction)
        partitions = range(client.topic(topic).partitions)
        return [
            message.payload for number in partitions for message in client.reader(topic, number)
        ]

    return read


def wait_for_end(client: Client, transaction: TransactionInfo) -> None:
    """An end that is repeated answers once it is complete; an open transaction is left alone."""
    if transaction.status == "COMMITTING":
        client.transactions.commit(transaction.txn_id, wait=60)
    if transaction.status == "ABORTING":
        client.transactions.abort(transaction.txn_id, reason="test", wait=60)
