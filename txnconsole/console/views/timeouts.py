"""Which timeout suits each owner, judging by how long its transactions took."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from engine.inspect.timeouts import SAMPLE
from engine.model.timeout_advice import HEADROOM, MIN_TRANSACTIONS
from txnconsole.access.roles import Permission
from txnconsole.console.page import ConsoleRequest, page, show
from txnconsole.console.reads import region
from txnconsole.enginedb.wiring import engine


@require_safe
@page(Permission.TRANSACTION_READ_ANY)
def timeouts(request: ConsoleRequest) -> HttpResponse:
    """The measured durations beside the timeouts of each owner, with advice."""
    maximum = engine().settings.max_timeout_ms
    context = {
        "advice": region(lambda: engine().inspect.transactions.timeouts(max_timeout_ms=maximum)),
        "sample": SAMPLE,
        "headroom": HEADROOM,
        "least": MIN_TRANSACTIONS,
        "default_ms": engine().settings.default_timeout_ms,
        "max_ms": maximum,
    }
    return show(request, "console/timeouts.html", context)
