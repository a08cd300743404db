"""``Idempotency-Key``: a call that is sent again with the same key gets the first answer again, and
is not carried out again.

A call takes the header when repeating it would have another effect. Other calls have a natural key
(a batch with its producer's sequence id, a group's name, the state that is asked for) and ignore
it.

An answer is kept in the media type in which it was first given, and repeated in the one that the
repeated call asks for. Refusals are problem documents, which have one form.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import structlog
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from txnconsole.access.requests import django_request, principal_of_request
from txnconsole.api.decoding import JSON, MSGPACK, invalid
from txnconsole.api.errors import answer_error, status_of
from txnconsole.api.long_poll import wait_until
from txnconsole.idempotency.answers import (
    Answer,
    AnswerNotKept,
    Claim,
    IdempotencyKeyInUse,
    Question,
    claim,
    keep,
    release,
)

HEADER = "Idempotency-Key"
KEY = r"^[!-~]{1,255}$"
#: How long a call waits for another one with the same key that is being carried out.
PATIENCE_MS = 5_000
#: Refusals that are not kept, because the call may succeed later, with other rights for example.
_PASSING = frozenset({401, 403, 429})
_FORMS: Mapping[str, Any] = {JSON: msgspec.json, MSGPACK: msgspec.msgpack}

_log = structlog.get_logger(__name__)


def answered_once(
    request: Request,
    operation: str,
    run: Callable[[], HttpResponse],
    *,
    wait_ms: int,
    unkept: tuple[str, ...],
    forms: Mapping[str, type[Any]],
) -> HttpResponse:
    """Run a call, unless there is an answer for its key already.

    Args:
        wait_ms: how long it may wait on purpose.
        unkept: secret fields of the answer, which are null when it is repeated.
        forms: the struct of the answer in each media type in which it can be given. Where these
            are two structs, each has a method ``in_other_form``.

    Raises:
        InvalidRequest: the key is malformed.
        IdempotencyKeyReused: another request was made with the key.
        IdempotencyKeyInUse: the first call with the key is still being carried out.
        KeptAnswersFull: the caller has no room for another answer.
        Otherwise what ``run`` raises, when the call may be made again.
    """
    http = django_request(request)
    key = http.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return run()
    if not re.fullmatch(KEY, key):
        raise invalid(HEADER, "is not 1 to 255 visible ASCII characters")
    name, wait = principal_of_request(request).name, timedelta(milliseconds=wait_ms)
    question = Question(name, operation, key, _digests(http), wait)
    found = wait_until(
        lambda state: state is not None, lambda: claim(question), wait_ms=PATIENCE_MS
    )
    if found is None:
        raise IdempotencyKeyInUse
    if isinstance(found, Answer):
        return _again(_in_form(found, request.accepted_renderer.media_type, forms))
    return _carried_out(request, found, run, unkept)


def _carried_out(
    request: Request, claimed: Claim, run: Callable[[], HttpResponse], unkept: tuple[str, ...]
) -> HttpResponse:
    try:
        response = run()
    except Exception as error:
        status = status_of(error)
        if status >= 500 or status in _PASSING:
            _release(claimed)
            raise
        response = answer_error(error, {"request": request})
    body = _without(response.content, unkept) if response.status_code < 300 else response.content
    try:
        if not keep(claimed, _kept(response, body)):
            instead = answer_error(AnswerNotKept(), {"request": request})
            keep(claimed, _kept(instead, instead.content))
            _log.warning("answer not kept", bytes=len(body), error=AnswerNotKept.code)
    except DatabaseError as error:  # The call has been carried out; only its answer is not kept.
        _log.warning("answer not kept", error=type(error).__name__)
    return response


def _release(claimed: Claim) -> None:
    """Let a repetition run. Where that cannot be written, it has to wait until the claim is over;
    the caller is to hear of what has failed before."""
    try:
        release(claimed)
    except DatabaseError as error:
        _log.warning("claim not released", error=type(error).__name__)


def _kept(response: HttpResponse, body: bytes) -> Answer:
    return Answer(response.status_code, response.get("Content-Type", ""), body)


def nothing() -> HttpResponse:
    """204: without a body, hence without a Content-Type."""
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def _in_form(answer: Answer, asked: str, forms: Mapping[str, type[Any]]) -> Answer:
    """A kept answer in the media type that is asked for, if it can be given in that."""
    kept = answer.content_type
    if asked == kept or not forms.keys() >= {asked, kept}:
        return answer
    body = _FORMS[kept].decode(answer.body, type=forms[kept])
    if forms[asked] is not forms[kept]:
        body = body.in_other_form()
    return Answer(answer.status, asked, _FORMS[asked].encode(body))


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


def _digests(http: HttpRequest) -> tuple[bytes, ...]:
    """Digests of what is asked: method, path, query and body. Headers only tell how to answer.

    They are made with the server's secret, and with each that holds beside it: a body may hold a
    password, which nobody who reads the table may find by trying.
    """
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return tuple(_digest(http, _key(secret)) for secret in secrets)


def _digest(http: HttpRequest, key: bytes) -> bytes:
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in (http.method or "", http.get_full_path(), http.content_type or ""):
        digest.update(b"%d:%b" % (len(part.encode()), part.encode()))
    digest.update(http.body)
    return digest.digest()


@cache
def _key(secret: str) -> bytes:
    return hashlib.sha256(b"txnconsole.idempotency" + secret.encode()).digest()
