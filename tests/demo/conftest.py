"""The flights, a client that may do everything, and topics of its own for each test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.server import Served
from txnconsole.client import Client
from txnconsole.demo import topics
from txnconsole.demo.flights import Flights
from txnconsole.demo.topics import Topics


@pytest.fixture(scope="session")
def flights() -> Flights:
    return Flights.load()


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url, server.token("admin")) as client:
        yield client


@pytest.fixture
def demo_topics(client: Client) -> Topics:
    found = Topics(f"demo/{secrets.token_hex(6)}")
    topics.prepare(client, found)
    return found
