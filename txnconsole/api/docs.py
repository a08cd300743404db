"""The published contract: OpenAPI 3.1 at ``schema``, and a page to browse it at ``docs``.

Both are open to everybody. The page's assets are served from here, so it works without a network
and under the same content security policy as the console.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from django.http import HttpResponse
from django.shortcuts import render
from drf_spectacular.generators import SchemaGenerator
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from txnconsole.access.requests import django_request
from txnconsole.api.decoding import JSON
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.renderers import HTMLRenderer, JSONRenderer


class Schema(Endpoint):
    """The OpenAPI document of this server."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    renderer_classes = (JSONRenderer,)
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(_document(), content_type=JSON)


class Docs(Endpoint):
    """The document as a page."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    renderer_classes = (HTMLRenderer,)
    schema = None

    def get(self, request: Request) -> HttpResponse:
        return render(django_request(request), "api/docs.html")


@lru_cache(maxsize=1)
def _document() -> bytes:
    """The document, made once: it depends on nothing but the code."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return msgspec.json.encode(schema)
