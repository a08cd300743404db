"""Spans of what happens, for OpenTelemetry; nothing at all while traces are off.

Off is the default: then a span is one shared object that does nothing, and OpenTelemetry is not
even imported (docs/decisions/0015 has the figures). Attributes are ids, names and counts; never a
payload, a key, or a text that may repeat one, such as an error's message.
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
    return _State.tracer is not None


def span(
    name: str, kind: Kind = Kind.INTERNAL, **attributes: object
) -> AbstractContextManager[Span | None]:
    """A span for the length of a block, within the current one. An error is told by its code."""
    if _State.tracer is None:
        return _NOTHING
    return _spanned(_State.tracer, name, kind, None, attributes)


def continued(
    traceparent: str | None, name: str, kind: Kind = Kind.INTERNAL, **attributes: object
) -> AbstractContextManager[Span | None]:
    """As :func:`span`, within the span of another program that a ``traceparent`` names; what is
    none begins a trace of its own."""
    if _State.tracer is None:
        return _NOTHING
    return _spanned(_State.tracer, name, kind, _context(traceparent), attributes)


def begun(
    name: str, *, traceparent: str | None = None, within: Span | None = None, **attributes: object
) -> Span | None:
    """Begin a span that stands on its own, within another one or what a ``traceparent`` names; the
    caller ends it. None while traces are off, and where there is nothing to be within."""
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
    """The current span, as W3C's ``traceparent``: to send with a message, to keep with a record."""
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
    """Say that what a span stands for has failed."""
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
    """OpenTelemetry's attribute types; what is not known yet is left out."""
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in attributes.items()
        if value is not None
    }
