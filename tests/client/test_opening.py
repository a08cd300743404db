"""A transaction whose opening was answered into nothing is not left behind (real server)."""

from __future__ import annotations

import httpx

from tests.server import Served
from txnconsole.client import Client, TransportOptions


class LosesAnswers(httpx.BaseTransport):
    """The real network, but the first ``losses`` answers to POST /transactions never arrive."""

    def __init__(self, losses: int) -> None:
        self._real = httpx.HTTPTransport()
        self._losses = losses
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._real.handle_request(request)
        if request.method == "POST" and request.url.path.endswith("/transactions"):
            response.read()
            self.keys.append(request.headers["Idempotency-Key"])
            if len(self.keys) <= self._losses:
                raise httpx.ReadError("lost", request=request)
        return response

    def close(self) -> None:
        self._real.close()


def test_a_lost_answer_to_an_opening_leaves_no_second_transaction(server: Served) -> None:
    token = server.token("producer", user="loses-answers")
    network = LosesAnswers(2)
    options = TransportOptions(http=network, sleep=lambda _: None)
    with Client(server.url, token, options=options) as client:
        with client.transaction() as transaction:
            txn_id = transaction.txn_id
        with client.transaction() as other:
            assert other.txn_id != txn_id
    assert len(network.keys) == 4
    assert len(set(network.keys[:3])) == 1
    assert network.keys[3] != network.keys[0]
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as http:
        listed = http.get(f"{server.url}/api/v1/transactions").json()["items"]
    assert {item["txn_id"] for item in listed} == {txn_id, other.txn_id}
