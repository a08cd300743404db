"""The media types that can be asked for; ``operation`` does the encoding itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from txnconsole.access.requests import django_request
from txnconsole.api.decoding import JSON, MSGPACK
from txnconsole.api.json_lines import JSON_LINES


class Negotiation(DefaultContentNegotiation):
    """Django's, which knows weights, behind what nearly all requests say: nothing, or one media
    type and no more. DRF's own takes what the server names first."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        accepted = request.META.get("HTTP_ACCEPT") or "*/*"
        for renderer in renderers:
            if accepted in (renderer.media_type, "*/*"):
                return renderer, renderer.media_type
        by_type = {renderer.media_type: renderer for renderer in renderers}
        chosen = django_request(request).get_preferred_type(list(by_type))
        if chosen is None:
            raise NotAcceptable(f"The answer is {' or '.join(by_type)}; name that in Accept.")
        return by_type[chosen], chosen


class JSONRenderer(BaseRenderer):
    media_type = JSON
    format = "json"
    charset = None

    def render(
        self,
        data: object,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        return msgspec.json.encode(data)


class MessagePackRenderer(JSONRenderer):
    media_type = MSGPACK
    format = "msgpack"

    def render(
        self,
        data: object,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        return msgspec.msgpack.encode(data)


class JSONLinesRenderer(JSONRenderer):
    media_type = JSON_LINES
    format = "ndjson"


class HTMLRenderer(BaseRenderer):
    media_type = "text/html"
    format = "html"
    charset = "utf-8"
