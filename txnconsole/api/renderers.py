"""The media types of answers, and how a request chooses one. ``operation`` encodes its answers
itself; the renderers encode what the framework answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from txnconsole.access.requests import django_request
from txnconsole.api.decoding import JSON, MSGPACK
from txnconsole.api.json_lines import JSON_LINES

_WEIGHT = re.compile(r";\s*q=([01](?:\.\d{0,3})?)\s*(?:;|$)", re.IGNORECASE)


class Negotiation(DefaultContentNegotiation):
    """Content negotiation with weights (``q=``), which the framework's own ignores; Django's
    refuses requests that name a charset. What nearly all requests ask for, nothing or a single
    media type, is decided first."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        accepted = django_request(request).META.get("HTTP_ACCEPT") or "*/*"
        for renderer in renderers:
            if accepted in (renderer.media_type, "*/*"):
                return renderer, renderer.media_type
        weights = _weights(accepted)
        chosen = max(renderers, key=lambda each: _weight(each.media_type, weights))
        if _weight(chosen.media_type, weights)[0] == 0:
            types = " or ".join(renderer.media_type for renderer in renderers)
            raise NotAcceptable(f"The answer is {types}; name that in Accept.")
        return chosen, chosen.media_type


def _weights(accepted: str) -> Mapping[str, float]:
    """The weights of media types and ranges in an ``Accept`` header; other parameters are
    ignored."""
    weights = {}
    for each in accepted.split(","):
        form, separator, parameters = each.partition(";")
        found = _WEIGHT.search(separator + parameters)
        weights[form.strip().lower()] = 1.0 if found is None else float(found[1])
    return weights


def _weight(media_type: str, weights: Mapping[str, float]) -> tuple[float, int]:
    """The weight of a media type, and how specifically it is named: itself, its kind, or any."""
    ranges = ("*/*", f"{media_type.partition('/')[0]}/*", media_type)
    named = [(weights[each], place) for place, each in enumerate(ranges) if each in weights]
    return named[-1] if named else (0.0, 0)


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
