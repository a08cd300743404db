"""Whose requests have a session: people's, not programs'."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from txnconsole.console.sessions import SessionsMiddleware

_MADE_FOR_PEOPLE = ("session", "user")


class _View:
    """Keeps the request that reaches it."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.request = request
        return HttpResponse()

    def was_given(self) -> set[str]:
        return {name for name in _MADE_FOR_PEOPLE if hasattr(self.request, name)}


def _given(path: str, **headers: str) -> set[str]:
    view = _View()
    SessionsMiddleware(view)(RequestFactory().get(path, headers=headers))
    return view.was_given()


@pytest.mark.parametrize("path", ["/api/v1/me", "/admin/v3/transactions/coordinators"])
def test_a_program_has_no_session(path: str) -> None:
    assert _given(path, Authorization="Bearer txc_x") == set()
    assert _given(path, Authorization="Basic x") == set()


@pytest.mark.parametrize("headers", [{}, {"Authorization": ""}])
def test_the_api_asked_without_a_token_has_the_callers_session(headers: dict[str, str]) -> None:
    assert _given("/api/v1/me", **headers) == set(_MADE_FOR_PEOPLE)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer txc_x"}])
def test_a_page_has_its_readers_session(headers: dict[str, str]) -> None:
    assert _given("/topics", **headers) == set(_MADE_FOR_PEOPLE)


def test_the_live_channel_has_its_readers_session() -> None:
    seen = set()

    async def view(request: HttpRequest) -> HttpResponse:
        seen.update(name for name in _MADE_FOR_PEOPLE if hasattr(request, name))
        return HttpResponse()

    middleware: Any = SessionsMiddleware(view)

    async def ask() -> None:
        await middleware(RequestFactory().get("/live"))

    assert iscoroutinefunction(middleware)
    asyncio.run(ask())
    assert seen == set(_MADE_FOR_PEOPLE)
