"""The live channel of a page."""

from __future__ import annotations

import asyncio

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.http import require_safe

from engine.model.errors import EngineError, InvalidRequest
from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.roles import Permission
from txnconsole.console.live.channels import Channel, channel_named
from txnconsole.console.live.hub import hub, look
from txnconsole.console.live.sse import sse_response
from txnconsole.console.live.stream import frames
from txnconsole.console.page import wants_json
from txnconsole.statuses import status_of_code

_RETRY_SECONDS = "10"


@require_safe
async def live(request: HttpRequest) -> HttpResponseBase:
    """Stream the channel that ``ch`` names. A page whose stream does not work asks for JSON every
    few seconds instead: then the channel is read once, for this page only."""
    principal = await sync_to_async(_principal)(request)
    if principal is None:
        return HttpResponse("Signed out.", status=401)
    try:
        channel = channel_named(request.GET.get("ch", ""), principal)
    except InvalidRequest as error:
        return HttpResponse(error.message, status=400, content_type="text/plain")
    if not channel.may_be_heard_by(principal):
        return _refused(403, "Forbidden", f"This needs the permission {channel.permission}.")
    hears_alerts = principal.may(Permission.ALERT_READ)
    if wants_json(request):
        return await _look_once(channel, hears_alerts=hears_alerts)
    if hub().is_full:
        return HttpResponse(
            "Too many streams.", status=503, headers={"Retry-After": _RETRY_SECONDS}
        )
    stream = frames(channel, request.session.session_key or "", hears_alerts=hears_alerts)
    return await sse_response(stream)


async def _look_once(channel: Channel, *, hears_alerts: bool) -> HttpResponse:
    try:
        reading = await asyncio.to_thread(look, channel.make_feed())
    except EngineError as error:
        return _refused(status_of_code(error.code), error.code, error.message)
    found = {"position": reading.position, "change": reading.change}
    return JsonResponse(found | ({"firing": reading.firing} if hears_alerts else {}))


def _refused(status: int, code: str, message: str) -> HttpResponse:
    return JsonResponse({"code": code, "message": message}, status=status)


def _principal(request: HttpRequest) -> Principal | None:
    return principal_of(request.user)
