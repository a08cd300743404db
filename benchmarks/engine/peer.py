"""What the engine is measured beside: pgmq and a bare table in the broker's own database."""

from __future__ import annotations

from importlib.resources import files

import psycopg
from psycopg.types.json import Jsonb

from engine.model import batch
from engine.model.message import NewMessage


def _payload(number: int) -> bytes:
    """200 bytes of JSON that no two messages share."""
    text = f'{{"id": {number}, "account": "acc-{number * 7919 % 100_003}", "amount": {number % 997}'
    return (text + ', "note": "').ljust(198, "x").encode() + b'"}'


MESSAGES = [NewMessage(payload=_payload(number), key=str(number % 100)) for number in range(1000)]
_BODIES = [Jsonb({"payload": message.payload.decode()}) for message in MESSAGES]


class Peer:
    """pgmq's queues and a table of bodies."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute((files("pgmq") / "sql" / "pgmq.sql").read_bytes())
        self._connection.execute("SELECT pgmq.create('bench')")
        self._connection.execute("SELECT pgmq.create('consumed')")
        self._connection.execute(
            "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
        )

    def close(self) -> None:
        self._connection.close()

    def send(self) -> None:
        self._connection.execute("SELECT pgmq.send('bench', %s)", (_BODIES[0],))

    def send_batch(self, queue: str = "bench") -> None:
        self._connection.execute("SELECT pgmq.send_batch(%s, %s)", (queue, _BODIES))

    def insert(self) -> None:
        body = batch.encode(MESSAGES)
        self._connection.execute("INSERT INTO bare (body) VALUES (%s)", (body,))

    def read_and_delete(self, messages: int) -> None:
        rows = self._connection.execute(
            "SELECT msg_id, message FROM pgmq.read('consumed', 30, %s)", (messages,)
        ).fetchall()
        if len(rows) != messages:
            raise RuntimeError(f"pgmq had {len(rows)} messages, not {messages}")
        self._connection.execute(
            "SELECT pgmq.delete('consumed', %s::bigint[])", ([row[0] for row in rows],)
        )
