"""The media types that can be asked for; ``operation`` does the encoding itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from rest_framework.renderers import BaseRenderer

from txnconsole.api.decoding import JSON, MSGPACK
from txnconsole.api.json_lines import JSON_LINES


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
