"""Spans for OpenTelemetry.

Tracing is off by default. Then a span is one shared object that does nothing, and OpenTelemetry is
not even imported (docs/decisions/0015 has the figures). Attributes are ids, names and counts. They
are never payloads, keys, or texts that may contain these, such as an error's message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_HEADER = "traceparent"
_NOTHING: AbstractContextManager[Span | None] = nullcontext()


class Kind(Enum):
    """Where a span stands between programs; names are OpenTelemetry's."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


class _State:
    tracer: Tracer | None = None


def turn_on(tracer: Tracer | None) -> None:
    """Give spans to a tracer from now on; None turns them off."""
    _State.tracer = tracer


def is_on() -> bool:
    """Whether tracing is on."""
    return _State.tracer is not None


def span(
    name: str, kind: Kind = Kind.INTERNAL, **attributes: object
) -> AbstractContextManager[Span | None]:
    """A span for the length of a block, within the current one. An error is recorded by its
    code."""
    if _State.tracer is None:
        return _NOTHING
    return _spanned(_State.tracer, name, kind, None, attributes)


def continued(
    traceparent: str | None, name: str, kind: Kind = Kind.INTERNAL, **attributes: object
) -> AbstractContextManager[Span | None]:
    """As :func:`span`, but within the span of another program, which ``traceparent`` names. Without
    a valid one it begins a trace of its own."""
    if _State.tracer is None:
        return _NOTHING
    return _spanned(_State.tracer, name, kind, _context(traceparent), attributes)


def begun(
    name: str, *, traceparent: str | None = None, within: Span | None = None, **attributes: object
) -> Span | None:
    """Begin a span that is not bound to a block: within another span, or the one that
    ``traceparent`` names. The caller ends it. None while tracing is off, and when neither is
    given."""
    if _State.tracer is None or (traceparent is None and within is None):
        return None
    if within is None:
        context = _context(traceparent)
    else:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        context = set_span_in_context(within)
    return _State.tracer.start_span(
        name, context, attributes=_plain(attributes), record_exception=False
    )


def traceparent() -> str | None:
    """The current span as a W3C ``traceparent``, to send with a message or store with a record;
    None while tracing is off, and without a span."""
    if _State.tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(_HEADER)


def current_ids() -> tuple[str, str] | None:
    """Trace and span id of the current span, as hexadecimal digits."""
    if _State.tracer is None:
        return None
    from opentelemetry.trace import (  # noqa: PLC0415
        format_span_id,
        format_trace_id,
        get_current_span,
    )

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return format_trace_id(context.trace_id), format_span_id(context.span_id)


@contextmanager
def _spanned(
    tracer: Tracer, name: str, kind: Kind, context: Context | None, attributes: dict[str, object]
) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    with tracer.start_as_current_span(
        name,
        context,
        SpanKind[kind.name],
        _plain(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except Exception as error:
            fail(started, str(getattr(error, "code", type(error).__name__)))
            raise


def fail(span: Span | None, code: str) -> None:
    """Mark a span as failed, with an error's code."""
    if span is not None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

        span.set_attribute("error.type", code)
        span.set_status(Status(StatusCode.ERROR))


def _context(traceparent: str | None) -> Context:
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    carrier = {} if traceparent is None else {_HEADER: traceparent}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _plain(attributes: dict[str, object]) -> dict[str, str | int]:
    """Attributes in OpenTelemetry's types, without those that are None."""
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
