"""The caller's trace, passed on with each request (W3C Trace Context).

The client does not depend on OpenTelemetry and never loads it. It only looks whether the program
that uses the client has loaded it, and whether a span is current there.
"""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """``traceparent``, and ``tracestate`` where there is one; nothing outside a span."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
