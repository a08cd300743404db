"""The live channel of a page."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from engine.model.errors import InvalidRequest
from txnconsole.access.principal import Principal, principal_of
from txnconsole.console.live.channels import channel_named
from txnconsole.console.live.hub import hub
from txnconsole.console.live.sse import sse_response
from txnconsole.console.live.stream import frames

_RETRY_SECONDS = "10"


async def live(request: HttpRequest) -> HttpResponseBase:
    """Stream the channel named by ``ch``. The page polls when it gets no stream."""
    principal = await sync_to_async(_principal)(request)
    if principal is None:
        return HttpResponse("Signed out.", status=401)
    try:
        channel = channel_named(request.GET.get("ch", ""))
    except InvalidRequest as error:
        return HttpResponse(error.message, status=400, content_type="text/plain")
    if not principal.may(channel.permission):
        return HttpResponse(f"Needs {channel.permission}.", status=403)
    if hub().is_full:
        return HttpResponse(
            "Too many streams.", status=503, headers={"Retry-After": _RETRY_SECONDS}
        )
    return await sse_response(frames(channel, request.session.session_key or ""))


def _principal(request: HttpRequest) -> Principal | None:
    return principal_of(request.user)
