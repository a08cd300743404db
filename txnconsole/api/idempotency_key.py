"""``Idempotency-Key``: a call that is sent again under its key is answered again, not made again.

Calls take the header when repeating them would do something more. Others have a natural key (a
batch with its producer's sequence id, a group's name, the end state that they ask for) and ignore
it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import msgspec
import structlog
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from txnconsole.access.requests import django_request, principal_of_request
from txnconsole.api.decoding import invalid
from txnconsole.api.errors import answer_error, status_of
from txnconsole.api.long_poll import wait_until
from txnconsole.idempotency.answers import (
    Answer,
    Claim,
    IdempotencyKeyInUse,
    Question,
    claim,
    keep,
    release,
)

HEADER = "Idempotency-Key"
KEY = r"^[!-~]{1,255}$"
#: How long a call waits for another one under its key.
PATIENCE_MS = 5_000
#: Refusals that the same call may escape later, with other rights or at another time.
_PASSING = frozenset({401, 403, 429})

_log = structlog.get_logger(__name__)


def answered_once(
    request: Request, operation: str, run: Callable[[], HttpResponse], *, unkept: tuple[str, ...]
) -> HttpResponse:
    """Run a call, unless its key has an answer already.

    Args:
        unkept: fields of the answer that are secret: a repeated answer has null for them.

    Raises:
        InvalidRequest: the key has another form.
        IdempotencyKeyReused, IdempotencyKeyInUse: the key is another call's.
        Otherwise what ``run`` raises, when that is no final answer.
    """
    http = django_request(request)
    key = http.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return run()
    if not re.fullmatch(KEY, key):
        raise invalid(HEADER, "is not 1 to 255 visible ASCII characters")
    question = Question(principal_of_request(request).name, operation, key, _digest(http))
    found = wait_until(
        lambda state: state is not None, lambda: claim(question), wait_ms=PATIENCE_MS
    )
    if found is None:
        raise IdempotencyKeyInUse
    if isinstance(found, Answer):
        return _again(found)
    return _carried_out(request, found, run, unkept)


def _carried_out(
    request: Request, claimed: Claim, run: Callable[[], HttpResponse], unkept: tuple[str, ...]
) -> HttpResponse:
    try:
        response = run()
    except Exception as error:
        status = status_of(error)
        if status >= 500 or status in _PASSING:
            release(claimed)
            raise
        response = answer_error(error, {"request": request})
    body = _without(response.content, unkept) if response.status_code < 300 else response.content
    try:
        kind = response.get("Content-Type", "")
        keep(claimed, Answer(response.status_code, kind, body))
    except DatabaseError as error:  # What was done stands; only a repeated call cannot know.
        _log.warning("answer not kept", error=type(error).__name__)
    return response


def nothing() -> HttpResponse:
    """204: neither a body nor what it would be."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def _again(answer: Answer) -> HttpResponse:
    response = (
        HttpResponse(answer.body, status=answer.status, content_type=answer.content_type)
        if answer.content_type
        else nothing()
    )
    response["Idempotency-Replayed"] = "true"
    return response


def _without(body: bytes, fields: tuple[str, ...]) -> bytes:
    if not fields:
        return body
    answer = msgspec.json.decode(body, type=dict[str, object])
    return msgspec.json.encode(answer | dict.fromkeys(fields))


def _digest(http: HttpRequest) -> bytes:
    """Of everything that says what is asked; the headers only say how."""
    digest = hashlib.sha256()
    for part in (http.method or "", http.get_full_path(), http.content_type or ""):
        digest.update(b"%d:%b" % (len(part.encode()), part.encode()))
    digest.update(http.body)
    return digest.digest()
