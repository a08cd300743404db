from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial

import httpx
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span

from txnconsole.client import AsyncClient, Client, TransportOptions
from txnconsole.client.asynchronous import AsyncTransportOptions

_TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("test")


def answer(requests: list[httpx.Request], request: httpx.Request) -> httpx.Response:
    requests.append(request)
    return httpx.Response(200, json={"items": [], "next_cursor": None})


def traced(requests: list[httpx.Request]) -> list[str | None]:
    return [request.headers.get("traceparent") for request in requests]


def expected(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_requests_within_a_span_carry_it_and_others_carry_none() -> None:
    requests: list[httpx.Request] = []
    http = httpx.MockTransport(partial(answer, requests))
    with Client("http://127.0.0.1:1", "token", TransportOptions(http=http)) as client:
        with _TRACER.start_as_current_span("mine") as span:
            list(client.transactions.list())
        list(client.transactions.list())
    assert traced(requests) == [expected(span), None]


def test_each_task_of_an_event_loop_passes_on_its_own_span() -> None:
    requests: list[httpx.Request] = []
    http = httpx.MockTransport(partial(answer, requests))

    async def work(client: AsyncClient) -> str:
        with _TRACER.start_as_current_span("mine") as span:
            async for _ in client.transactions.list():
                pass
        return expected(span)

    async def run() -> set[str]:
        options = AsyncTransportOptions(http=http)
        async with AsyncClient("http://127.0.0.1:1", "token", options) as client:
            return set(await asyncio.gather(*(work(client) for _ in range(3))))

    spans = asyncio.run(run())
    assert len(spans) == 3
    assert set(traced(requests)) == spans


def test_the_client_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, txnconsole.client.runtime\n"
        "from txnconsole.client.trace_context import trace_headers\n"
        "assert trace_headers() == {}\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
