"""Traces from a request over the queue to the markers, with a real queue and a real worker."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from celery.contrib.testing.worker import start_worker
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

from engine import Engine, tracing
from engine.coordinator.due import DueTransaction
from engine.coordinator.end_traces import EndTraces
from engine.model.errors import TransactionConflict
from engine.model.transaction import EndCommand
from engine.model.txn_status import TxnAction, TxnStatus
from tests.engine.support import (
    P0,
    P1,
    SUBSCRIPTION,
    batch,
    commit,
    due_now,
    finalize,
    make_topic,
    open_txn,
    subscribe,
    unreachable,
)
from txnconsole import logs
from txnconsole.celery import app
from txnconsole.queue import wakeup
from txnconsole.request_log import RequestLogMiddleware
from txnconsole.tracing import TraceMiddleware, name_span

TRACE = "0af7651916cd43dd8448eb211c80319c"
GIVEN = f"00-{TRACE}-b7ad6b7169203331-01"


class Spans:
    """What has been exported."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def __iter__(self) -> Iterator[ReadableSpan]:
        return iter(self._exporter.get_finished_spans())


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Traces are on, and kept in memory."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.turn_on(provider.get_tracer("test"))
    yield Spans(exporter)
    tracing.turn_on(None)


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def is_within(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    return (
        inner.parent is not None
        and outer.context is not None
        and (inner.parent.span_id == outer.context.span_id)
    )


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_one_trace_leads_from_the_request_over_the_queue_to_every_marker(
    engine: Engine, spans: Spans, valkey_url: str
) -> None:
    make_topic(engine, partitions=2)
    subscribe(engine)
    engine.produce(P0, batch("read"))
    [message] = engine.receive(SUBSCRIPTION, "c1")
    txn = open_txn(engine)
    for partition in (P0, P1):
        engine.produce(partition, batch("secret payload"), txn_id=txn)
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=txn)

    def view(request: HttpRequest) -> HttpResponse:
        engine.coordinator.end(txn, TxnAction.COMMIT)
        wakeup.wake_finalizer(txn.tc_id)
        return HttpResponse()

    app.loader.import_default_modules()
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="WARNING"):
        TraceMiddleware(view)(RequestFactory().post("/x", headers={"traceparent": GIVEN}))
        ended = engine.coordinator.wait_for_end(txn, wait_ms=120_000)
    assert ended.status is TxnStatus.COMMITTED

    request, decide = spans.only("POST"), spans.only("decide")
    wake, task, end = spans.only("wake"), spans.only(wakeup.FINALIZE), spans.only("end transaction")
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == "b7ad6b7169203331"
    assert is_within(decide, request)
    assert is_within(wake, request)
    assert is_within(task, wake)
    assert is_within(end, decide)
    markers = {attributes(span)["partition"]: span for span in spans.named("marker")}
    assert markers.keys() == {str(P0), str(P1)}
    for partition, marker in zip((P0, P1), (markers[str(P0)], markers[str(P1)]), strict=True):
        assert is_within(marker, end)
        assert attributes(marker)["txn_id"] == str(txn)
        assert attributes(marker)["broker"] == engine.topics.get(P0.topic).brokers[partition.number]
        assert attributes(marker)["marker_offset"] == engine.log.status(partition).last_offset
    acks = spans.named("acks")
    assert {attributes(span)["subscription"] for span in acks} == {str(SUBSCRIPTION)}
    assert all(is_within(span, end) for span in acks)
    chain = [request, decide, wake, task, end, *markers.values(), *acks]
    assert {trace_of(span) for span in chain} == {TRACE}


def test_a_lost_wake_up_does_not_lose_the_trace(engine: Engine, spans: Spans) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    with tracing.continued(GIVEN, "request"):
        engine.coordinator.end(txn, TxnAction.ABORT)
    finalize(engine)  # A sweep, minutes later, in another process.
    assert trace_of(spans.only("end transaction")) == trace_of(spans.only("marker")) == TRACE


def test_transactions_of_one_run_are_each_in_their_own_trace(engine: Engine, spans: Spans) -> None:
    make_topic(engine)
    txns = [open_txn(engine) for _ in range(3)]
    for txn in txns:
        engine.produce(P0, batch("x"), txn_id=txn)
        engine.coordinator.end(txn, TxnAction.COMMIT)
    finalize(engine)
    decisions = {attributes(span)["txn_id"]: trace_of(span) for span in spans.named("decide")}
    ends = {attributes(span)["txn_id"]: trace_of(span) for span in spans.named("end transaction")}
    assert decisions == ends
    assert len(set(ends.values())) == 3


def test_a_participant_that_does_not_answer_fails_its_span_and_is_tried_again(
    engine: Engine, spans: Spans
) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    engine.coordinator.end(txn, TxnAction.COMMIT)
    with unreachable(engine, engine.topics.get(P0.topic).brokers[0]):
        finalize(engine)
    for name in ("marker", "end transaction"):
        assert attributes(spans.only(name))["error.type"] == "waiting"
    due_now(engine)
    finalize(engine)
    assert "error.type" not in attributes(spans.named("marker")[1])
    assert len({trace_of(span) for span in spans.named("end transaction")}) == 1


def test_an_unsampled_request_leaves_no_span(engine: Engine, spans: Spans) -> None:
    make_topic(engine)
    txn = open_txn(engine)
    with tracing.continued(GIVEN.removesuffix("01") + "00", "request"):
        engine.produce(P0, batch("x"), txn_id=txn)
        engine.coordinator.end(txn, TxnAction.COMMIT)
    finalize(engine)
    assert list(spans) == []


def test_spans_hold_ids_and_no_payload_key_or_error_text(engine: Engine, spans: Spans) -> None:
    make_topic(engine)
    subscribe(engine)
    engine.produce(P0, batch("secret"), producer_name="secret producer", sequence_id=1)
    [message] = engine.receive(SUBSCRIPTION, "c1")
    engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=open_txn(engine))
    with pytest.raises(TransactionConflict):
        engine.acknowledge(SUBSCRIPTION, "c1", [message.message_id], txn_id=open_txn(engine))
    assert attributes(spans.named("acknowledge")[1])["error.type"] == "TransactionConflict"
    assert all(not span.events and span.status.description is None for span in spans)
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_lines_of_the_log_name_the_span(
    spans: Spans, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    for _ in range(2):
        logs.configure(level="INFO", human=False, also=name_span)
    inner = RequestLogMiddleware(lambda _: HttpResponse())
    TraceMiddleware(inner)(RequestFactory().get("/x", headers={"traceparent": GIVEN}))
    for processors in (logs._SHARED, logs._PROCESSORS):
        processors.remove(name_span)
        assert name_span not in processors
    line = json.loads(capfd.readouterr().err)
    assert line["trace_id"] == TRACE
    context = spans.only("GET").context
    assert context is not None
    assert line["span_id"] == f"{context.span_id:016x}"


def test_a_malformed_traceparent_begins_a_trace_of_its_own(spans: Spans) -> None:
    for given in ("", "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01"):
        TraceMiddleware(lambda _: HttpResponse())(
            RequestFactory().get("/x", headers={"traceparent": given})
        )
    assert all(span.parent is None for span in spans)
    assert len(spans.named("GET")) == 3


def test_while_they_are_off_a_span_is_nothing(engine: Engine) -> None:
    assert not tracing.is_on()
    assert tracing.span("a") is tracing.span("b", txn_id=1) is tracing.continued(GIVEN, "c")
    assert (
        tracing.traceparent()
        is tracing.current_ids()
        is tracing.begun("d", traceparent=GIVEN)
        is None
    )
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        with tracing.span("a", txn_id="0:1", partition=P0):
            pass
    assert len(gc.get_objects()) <= before + 5
    make_topic(engine)
    txn = open_txn(engine)
    engine.produce(P0, batch("x"), txn_id=txn)
    commit(engine, txn)


@pytest.mark.programs
def test_while_they_are_off_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys, txnconsole.settings, txnconsole.tracing\n"
        "assert 'engine.coordinator.finalization' in sys.modules\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_run_ends_its_spans_while_a_late_broker_concludes_some(
    engine: Engine, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    txns = [open_txn(engine) for _ in range(3)]
    decided_at = datetime(2026, 11, 1, tzinfo=UTC)
    traces = EndTraces(
        DueTransaction(EndCommand(txn_id=txn, action=TxnAction.COMMIT), decided_at, GIVEN)
        for txn in txns
    )
    fail = tracing.fail

    def beside(span: Span, status: str) -> None:
        traces.conclude(txns)
        fail(span, status)

    monkeypatch.setattr(tracing, "fail", beside)
    traces.close()
    assert len(spans.named("end transaction")) == 3
