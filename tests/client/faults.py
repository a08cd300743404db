"""A network that loses requests and answers on purpose, in front of a small partition log.

Only for what a real server cannot be made to do at will: transport faults. The log keeps one
promise of the contract, that a batch is stored once under its producer and sequence id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

import httpx
import msgspec

from txnconsole.client import (
    AsyncClient,
    AsyncTransportOptions,
    Client,
    RetryPolicy,
    TransportOptions,
)

TOPIC = "public/default/flights"


def client(network: httpx.BaseTransport, *, deadline: float = 30) -> tuple[Client, list[float]]:
    """A client on that network, and what it slept; only sleeping takes time, and no real one."""
    slept: list[float] = []
    options = TransportOptions(
        retry=RetryPolicy(deadline=deadline),
        sleep=slept.append,
        clock=lambda: sum(slept),
        http=network,
    )
    return Client("http://127.0.0.1:1", "token", options), slept


async def _at_once(request: httpx.Request) -> None:
    """Nothing comes before."""


def async_client(
    network: FaultyLog,
    *,
    deadline: float = 30,
    before: Callable[[httpx.Request], Awaitable[None]] = _at_once,
) -> AsyncClient:
    """As ``client``, for an event loop; ``before`` is awaited with each request."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    options = AsyncTransportOptions(
        retry=RetryPolicy(deadline=deadline),
        sleep=sleep,
        clock=lambda: sum(slept),
        http=_Asynchronously(network, before),
    )
    return AsyncClient("http://127.0.0.1:1", "token", options)


class FaultyLog(httpx.BaseTransport):
    """Answers produce, open, commit and abort; ``faults`` says what happens to each exchange.

    A fault is None (all is well), "refused" (never sent), "no token" (never sent: the program's own
    function has none at the moment), "lost answer" (carried out, then the connection breaks) or an
    HTTP status that is answered without carrying anything out.
    """

    def __init__(
        self, faults: Iterable[str | int | None] = (), *, deduplication: bool = True
    ) -> None:
        self._faults: Iterator[str | int | None] = iter(faults)
        self._deduplication = deduplication
        self._stored: dict[tuple[object, ...], int] = {}
        self.partitions = 2
        self.messages: list[tuple[int, str | None, bytes]] = []
        self.requests: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        self.requests.append(f"{request.method} {path}")
        fault = next(self._faults, None) if request.method == "POST" else None
        if fault == "refused":
            raise httpx.ConnectError("refused", request=request)
        if fault == "no token":
            raise LookupError(fault)
        if isinstance(fault, int):
            return _problem(fault)
        answer = self._answer(request, path)
        if fault == "lost answer":
            raise httpx.ReadError("reset", request=request)
        return answer

    def _answer(self, request: httpx.Request, path: str) -> httpx.Response:
        handlers: dict[str, Callable[[httpx.Request, str], httpx.Response]] = {
            "messages": self._produce,
            "transactions": _open,
            "commit": _ended,
            "abort": _ended,
            "extend": _extended,
        }
        handler = handlers.get(path.rsplit("/", 1)[1], self._topic)
        return handler(request, path)

    def _produce(self, request: httpx.Request, path: str) -> httpx.Response:
        body = msgspec.msgpack.decode(request.content)
        partition = int(path.split("/")[-2])
        identity = (partition, body["txn_id"], body["producer_name"], body["sequence_id"])
        duplicate = self._deduplication and identity in self._stored
        if not duplicate:
            self._stored[identity] = len(self.messages)
            stored = [(partition, body["txn_id"], each["payload"]) for each in body["messages"]]
            self.messages += stored
        first = self._stored[identity]
        answer = {
            "first_offset": first,
            "last_offset": first + len(body["messages"]) - 1,
            "first_message_id": f"0:{first}:{partition}:0",
            "last_message_id": f"0:{first}:{partition}:{len(body['messages']) - 1}",
            "duplicate": duplicate,
        }
        content = msgspec.msgpack.encode(answer)
        return httpx.Response(201, content=content, headers={"Content-Type": "application/msgpack"})

    def _topic(self, request: httpx.Request, path: str) -> httpx.Response:
        settings = {"partitions": self.partitions, "deduplication": self._deduplication}
        return httpx.Response(200, json={"topic": TOPIC} | settings)


class _Asynchronously(httpx.AsyncBaseTransport):
    def __init__(
        self, network: FaultyLog, before: Callable[[httpx.Request], Awaitable[None]]
    ) -> None:
        self._network, self._before = network, before

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._before(request)
        return self._network.handle_request(request)


def _problem(status: int) -> httpx.Response:
    headers = {"Content-Type": "application/problem+json", "Retry-After": "1"}
    body = {"code": "PartitionUnavailable" if status == 503 else "InvalidTxnStatus"}
    return httpx.Response(status, json=body, headers=headers)


def _open(request: httpx.Request, path: str) -> httpx.Response:
    timeout_ms = msgspec.json.decode(request.content).get("timeout_ms", 60000)
    return httpx.Response(201, json=_transaction("OPEN") | {"timeout_ms": timeout_ms})


def _extended(request: httpx.Request, path: str) -> httpx.Response:
    return httpx.Response(200, json=_transaction("OPEN"))


def _ended(request: httpx.Request, path: str) -> httpx.Response:
    return httpx.Response(200, json=_transaction(f"{path.rsplit('/', 1)[1].upper()}TED"))


def _transaction(status: str) -> dict[str, object]:
    return {
        "txn_id": "0:7",
        "coordinator_id": 0,
        "status": status,
        "owner": "test",
        "client": "",
        "properties": {},
        "opened_at": "2026-01-31T12:00:00.000000Z",
        "timeout_ms": 60000,
        "deadline": "2026-01-31T12:01:00.000000Z",
        "age_ms": 0,
    }
