"""The media types that can be asked for; ``operation`` does the encoding itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from txnconsole.api.decoding import JSON, MSGPACK
from txnconsole.api.json_lines import JSON_LINES


class Negotiation(DefaultContentNegotiation):
    """DRF's, which parses lists and weights, behind what nearly all requests say: nothing, or one
    media type and no more."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        accepted = request.META.get("HTTP_ACCEPT", "*/*")
        for renderer in renderers:
            if accepted in (renderer.media_type, "*/*"):
                return renderer, renderer.media_type
        chosen: tuple[BaseRenderer, str] = super().select_renderer(
            request, renderers, format_suffix
        )
        return chosen


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
