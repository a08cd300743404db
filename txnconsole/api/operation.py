"""An operation of the API: the permission that it needs, what it takes and what it answers.

The decorator ``@operation`` of an endpoint's method declares all of it in one place: the permission
that the endpoint checks, the structs that the request is decoded into, and the structs of the
answer. The operation's part of the OpenAPI schema is made from these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, TypeVar

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request

from engine.postgres import absences
from engine.postgres.pool_cache import hurried
from txnconsole.access.principal import Principal
from txnconsole.access.requests import django_request, principal_of_request
from txnconsole.access.roles import Permission
from txnconsole.api.decoding import JSON, MSGPACK, BodyDecoder, QueryDecoder
from txnconsole.api.errors import PROBLEM_JSON
from txnconsole.api.examples import ANSWERS, BODIES
from txnconsole.api.idempotency_key import HEADER, KEY, answered_once, nothing
from txnconsole.api.json_lines import JSON_LINES, Lines, stream
from txnconsole.api.limits import BODY_BYTES
from txnconsole.api.paging import Cursors
from txnconsole.api.structs.fields import Body, Query
from txnconsole.api.structs.problem import Problem

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")


class NoBody(Body):
    """The body of a call that takes none."""


class NoQuery(Query):
    """The query string of a call that takes none."""


class Call(msgspec.Struct, Generic[BodyT, QueryT], frozen=True):
    """A decoded request."""

    request: Request
    principal: Principal
    body: BodyT
    query: QueryT

    @property
    def packed(self) -> bool:
        """Whether the answer goes out as MessagePack."""
        return bool(self.request.accepted_renderer.media_type == MSGPACK)

    @property
    def wait_ms(self) -> int:
        """How long the call may wait on purpose."""
        waits: int = getattr(self.query, "wait_ms", 0) or getattr(self.body, "wait_ms", 0)
        return waits


class Reply(msgspec.Struct, frozen=True):
    """An answer with a status of its own; without it the status is 200."""

    body: msgspec.Struct
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an operation takes and answers.

    Attributes:
        body: the struct of its JSON body; only Pulsar's paths have other types.
        packed_body: the struct of its MessagePack body, if it takes one.
        body_limit: the largest body, in bytes.
        query: the struct of its query string.
        answer: the struct of its answer; None for an empty one.
        packed_answer: the struct of a MessagePack answer, if it gives one.
        statuses: of success; all have the same answer, except 204, which has none.
        lines: whether the answer is JSON lines, each of them an ``answer``.
        keyed: whether it takes an ``Idempotency-Key``, or for which of its bodies it does.
        unkept: secret fields of the answer, which are null when the answer is repeated.
        pages: the operation that goes on with the answer's ``next_cursor``, if it is another one.
    """

    body: type[Any] = NoBody
    packed_body: type[msgspec.Struct] | None = None
    body_limit: int = BODY_BYTES
    query: type[msgspec.Struct] = NoQuery
    answer: type[msgspec.Struct] | None = None
    packed_answer: type[msgspec.Struct] | None = None
    statuses: tuple[int, ...] = (200,)
    lines: bool = False
    keyed: bool | Callable[[Any], bool] = False
    unkept: tuple[str, ...] = ()
    pages: str = ""


#: What an operation may return; only Pulsar's paths return maps and lists of structs.
Result = (
    msgspec.Struct | Reply | Lines | Mapping[str, msgspec.Struct] | Sequence[msgspec.Struct] | None
)
Handler = Callable[[Any, Call[Any, Any]], Result]


@dataclass(frozen=True, slots=True)
class Operation:
    """What the endpoint, and tests, can learn of a decorated method."""

    name: str
    needs: Permission
    shape: Shape = field(repr=False)


def operation(
    name: str, needs: Permission, shape: Shape, *, summary: str
) -> Callable[[Handler], Callable[..., HttpResponseBase]]:
    """Make an endpoint's method an operation. Its docstring becomes the description in the
    schema."""
    read_body = BodyDecoder(shape.body, packed=shape.packed_body, limit=shape.body_limit).decode
    read_query = QueryDecoder(shape.query).decode
    forms = _media_types(shape.answer, shape.packed_answer)
    cursors = Cursors(shape.pages or name) if _is_list(shape) else None

    def decorate(handler: Handler) -> Callable[..., HttpResponseBase]:
        @wraps(handler)
        def run(view: Any, request: Request, **path: object) -> HttpResponseBase:
            http = django_request(request)
            body = None if http.method in ("GET", "HEAD") else read_body(http)
            query = read_query(http)
            if cursors is not None:
                query = cursors.opened(query, path)
            call = Call(request, principal_of_request(request), body, query)
            with _absences_of(call):
                if cursors is not None:
                    page = handler(view, call)
                    cursors.sealed(page, path)
                    return _answer(page, packed=call.packed)
                if not (shape.keyed(body) if callable(shape.keyed) else shape.keyed):
                    return _answer(handler(view, call), packed=call.packed)
                return answered_once(
                    request,
                    name,
                    lambda: _whole(handler(view, call), call),
                    wait_ms=call.wait_ms,
                    unkept=shape.unkept,
                    forms=forms,
                )

        run.operation = Operation(name, needs, shape)  # type: ignore[attr-defined]
        return extend_schema(
            operation_id=name,
            summary=summary,
            request=_media_types(shape.body, shape.packed_body) or None,
            responses=_responses(shape),
            parameters=_parameters(shape),
            examples=_examples(name, shape),
        )(run)

    return decorate


def _is_list(shape: Shape) -> bool:
    """Whether it answers pages (design/api.md, Conventions)."""
    return {"items", "next_cursor"} <= set(getattr(shape.answer, "__struct_fields__", ()))


def _absences_of(call: Call[Any, Any]) -> AbstractContextManager[None]:
    """How a call meets a database that is away. Usually it waits for it once, however many parts
    its answer has. A call that waits on purpose asks again and again, so it does not wait for it at
    all."""
    return hurried() if call.wait_ms else absences.remembered()


def _answer(result: Result, *, packed: bool) -> HttpResponseBase:
    if result is None:
        return nothing()
    if isinstance(result, Lines):
        return stream(result)
    body, status = (result.body, result.status) if isinstance(result, Reply) else (result, 200)
    encode = msgspec.msgpack.encode if packed else msgspec.json.encode
    return HttpResponse(encode(body), status=status, content_type=MSGPACK if packed else JSON)


def _whole(result: Result, call: Call[Any, Any]) -> HttpResponse:
    """The answer of a keyed call, which has to be kept, so it cannot be a stream."""
    response = _answer(result, packed=call.packed)
    if not isinstance(response, HttpResponse):
        raise TypeError("a keyed call answers no lines")
    return response


def _parameters(shape: Shape) -> list[Any]:
    return ([] if shape.query is NoQuery else [shape.query]) + ([_KEY] if shape.keyed else [])


def _examples(name: str, shape: Shape) -> list[OpenApiExample]:
    found = []
    if name in BODIES:
        body = BODIES[name]
        found.append(OpenApiExample("A call", value=body, request_only=True, media_type=JSON))
    if name in ANSWERS:
        status = [str(each) for each in shape.statuses if each != 204][:1]
        answer = ANSWERS[name]
        found.append(
            OpenApiExample(
                "An answer",
                value=answer,
                response_only=True,
                status_codes=status,
                media_type=JSON,
            )
        )
    return found


_KEY = OpenApiParameter(
    name=HEADER,
    location=OpenApiParameter.HEADER,
    type={"type": "string", "pattern": KEY},
    description=(
        "The same call again under its key gets the same answer, for 24 hours. A caller whose kept"
        " answers are too many bytes has the oldest forgotten sooner, though none within ten"
        " minutes."
    ),
    examples=[OpenApiExample("A random key", value="7d4a6c0e-5f0b-4f0e-9d1f-2b6f0c8a1e55")],
)


def _media_types(
    plain: type[Any] | None, packed: type[msgspec.Struct] | None
) -> Mapping[str, type[Any]]:
    if plain is None or plain is NoBody:
        return {}
    return {JSON: plain} if packed is None else {JSON: plain, MSGPACK: packed}


def _responses(shape: Shape) -> dict[Any, Any]:
    responses: dict[Any, Any] = {
        ("4XX", PROBLEM_JSON): Problem,
        ("5XX", PROBLEM_JSON): Problem,
    }
    if shape.answer is None:
        responses[204] = None
    else:
        for status in shape.statuses:
            if status == 204:
                responses[204] = None
                continue
            responses[(status, JSON_LINES if shape.lines else JSON)] = shape.answer
            if shape.packed_answer is not None:
                responses[(status, MSGPACK)] = shape.packed_answer
    return responses
