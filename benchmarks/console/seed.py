"""A system at size: history by plain SQL, everything that is unfinished by the engine itself."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psycopg
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from engine import Engine
from engine.model.message import NewMessage
from engine.model.subscription import SubscriptionSettings
from engine.model.topic import TopicSettings
from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from engine.model.txn_status import TxnAction
from txnconsole.enginedb.wiring import engine

_TRANSACTIONS, _TOPICS, _PARTITIONS, _OPEN = 1_000_000, 100, 100, 300
_COORDINATORS = 4

_HISTORY = (
    # Two a second, for not quite six days: none is due to be archived.
    """
    INSERT INTO coordinator.transaction (tc_id, sequence, status, owner, client, properties,
        opened_at, timeout_ms, deadline, decided_at, ended_at, end_reason)
    SELECT n % %(coordinators)s, n / %(coordinators)s, CASE WHEN n % 11 = 0 THEN 'ABORTED'
        ELSE 'COMMITTED' END::coordinator.txn_status, 'owner-' || n % 20, 'pod-' || n % 50, '{}',
        t.at, 60000, t.at + interval '1 minute', t.at + t.took, t.at + t.took, 'client'
    FROM generate_series(0, %(transactions)s - 1) n
    CROSS JOIN LATERAL (
        SELECT clock_timestamp() - (%(transactions)s - n) * interval '0.5 second' AS at,
            n % 977 * interval '1 millisecond' AS took
    ) t
    """,
    """
    INSERT INTO coordinator.txn_partition (tc_id, sequence, topic_id, topic, partition, broker,
        state, first_offset, last_offset, messages)
    SELECT n % %(coordinators)s, n / %(coordinators)s, t.topic_id,
        t.tenant || '/' || t.namespace || '/' || t.topic, n % cardinality(t.brokers),
        t.brokers[n % cardinality(t.brokers) + 1],
        CASE WHEN n % 11 = 0 THEN 'aborted' ELSE 'committed' END, n, n + 9, 10
    FROM generate_series(0, %(transactions)s - 1) n
    JOIN (SELECT *, row_number() OVER (ORDER BY topic_id) - 1 AS place FROM coordinator.topic) t
        ON t.place = n % %(topics)s
    """,
    """
    UPDATE coordinator.coordinator
    SET next_sequence = %(transactions)s / %(coordinators)s
    """,
    # As a worker would have kept them.
    """
    INSERT INTO trends_sample (width_s, at, committed, aborted, durations, open, committing,
        aborting, oldest_open_ms, held_partitions, held_offsets)
    SELECT w.seconds, date_bin(w.seconds * interval '1 second', clock_timestamp(), '2020-01-01Z')
        - n * w.seconds * interval '1 second', 18 * w.seconds / 10, 2 * w.seconds / 10,
        '{"20": 9, "28": 6, "33": 4, "40": 1}', 300, 1, 1, 60000 + n, 300, 900
    FROM (VALUES (10, 1080), (300, 2304)) w (seconds, kept)
    CROSS JOIN LATERAL generate_series(1, w.kept) n
    """,
    "INSERT INTO trends_sampler (at, previous) VALUES (clock_timestamp(), clock_timestamp())",
    "ANALYZE",
)
_SAMPLES = """
    INSERT INTO broker.position_sample (partition_id, at, stable_position, last_offset)
    SELECT partition_id, clock_timestamp() - n * interval '5 minutes', 12 - n, 12 - n
    FROM broker.partition, generate_series(1, 12) n
"""


def seeded() -> dict[str, str]:
    """Fill the databases that the settings name.

    Returns:
        What stands for ``{topic}``, ``{txn}`` and ``{subscription}`` in the pages' addresses.
    """
    started = time.perf_counter()
    call_command("migrate", verbosity=0, interactive=False)
    call_command("migrate_engine")
    call_command("collectstatic", verbosity=0, interactive=False)
    User.objects.create_superuser("admin", password=None)
    User.objects.create_user("flights-feed")  # The one whose page is in the table of pages.
    topics = [TopicName("public", "default", f"t-{number:03}") for number in range(_TOPICS)]
    for topic in topics:
        engine().topics.create(topic, TopicSettings(partitions=_PARTITIONS))
    print(f"topics after {time.perf_counter() - started:.0f} s")
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        for statement in _HISTORY:
            connection.execute(_written(statement))
    for url in settings.BROKER_DATABASE_URLS:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_SAMPLES)
    print(f"history after {time.perf_counter() - started:.0f} s")
    subscription, blocking = _traffic(engine(), topics)
    for url in settings.BROKER_DATABASE_URLS:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
    print(f"filled in {time.perf_counter() - started:.0f} s")
    return {
        "topic": str(topics[0]),
        "txn": str(blocking),
        "subscription": subscription.name,
    }


def _traffic(engine: Engine, topics: Iterable[TopicName]) -> tuple[SubscriptionName, TxnID]:
    """A message in every partition of a tenth of the topics, ends, and what is still open."""
    busy = list(topics)[: _TOPICS // 10]
    names = [PartitionName(topic, number) for topic in busy for number in range(_PARTITIONS)]
    subscriptions = [SubscriptionName(topic, "billing") for topic in busy]
    for each in subscriptions:
        engine.subscriptions.create(each, SubscriptionSettings())
    for name in names:
        engine.produce(name, _batch("plain"))
    for number in range(100):
        _transaction(
            engine, names[:1], end=TxnAction.ABORT if number % 5 == 0 else TxnAction.COMMIT
        )
    blocking = _transaction(engine, names[:2])
    for name in names[2 : _OPEN + 1]:
        _transaction(engine, [name])
    for name in names[: _OPEN + 1]:
        engine.produce(name, _batch("hidden", "too"))
    received = engine.receive(subscriptions[0], "c1", max_messages=20)
    engine.acknowledge(subscriptions[0], "c1", [one.message_id for one in received[:10]])
    engine.acknowledge(
        subscriptions[0], "c1", [one.message_id for one in received[10:]], txn_id=blocking
    )
    return subscriptions[0], blocking


def _transaction(
    engine: Engine, partitions: Iterable[PartitionName], *, end: TxnAction | None = None
) -> TxnID:
    txn_id = engine.coordinator.open(owner="bench", timeout_ms=3_600_000).txn_id
    for partition in partitions:
        engine.produce(partition, _batch("in", "a", "transaction"), txn_id=txn_id)
    if end is not None:
        engine.coordinator.end(txn_id, end)
        engine.finalizer.finalize(txn_id.tc_id)
    return txn_id


def _batch(*payloads: str) -> list[NewMessage]:
    return [NewMessage(payload=text.encode(), key=text) for text in payloads]


def _written(statement: str) -> str:
    values = {"coordinators": _COORDINATORS, "transactions": _TRANSACTIONS, "topics": _TOPICS}
    for name, value in values.items():
        statement = statement.replace(f"%({name})s", str(value))
    return statement
