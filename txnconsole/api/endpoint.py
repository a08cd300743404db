"""What every endpoint does before its operation: check rights, and parse the names in its path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import (
    AuthenticationFailed,
    MethodNotAllowed,
    NotAuthenticated,
    PermissionDenied,
)
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.transaction import Transaction
from engine.model.txn_id import TxnID
from txnconsole.access.authentication import ConsoleAuthentication, TokenAuthentication
from txnconsole.access.principal import ALL_TOPICS
from txnconsole.access.refusal_log import record_refusal
from txnconsole.access.requests import django_request, principal_behind, principal_of_request
from txnconsole.api.decoding import named
from txnconsole.api.operation import Operation
from txnconsole.api.renderers import JSONRenderer, MessagePackRenderer, Negotiation
from txnconsole.api.throttling import PrincipalThrottle, tell_rate
from txnconsole.audit.recording import Actor
from txnconsole.enginedb.wiring import engine
from txnconsole.request_log import about, request_id_of

T = TypeVar("T")

#: How many parsed names are kept, because programs call the same addresses again and again.
_NAMES = 4096
_NEGOTIATION = Negotiation()
#: The headers that all answers of an address have.
_headers_of: dict[type[APIView], dict[str, str]] = {}


class HasPermission(BasePermission):
    """Checks that the caller's roles grant the permission that the method's operation needs.

    Raises:
        MethodNotAllowed: the address has no operation of that method, whoever asks; so nothing that
            comes after this check has to do without a caller.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        method = django_request(request).method or ""
        needed = operation_of(view, method)
        if needed is None:
            view.check_throttles(request)  # Refused requests count as well.
            raise MethodNotAllowed(method)
        principal = principal_behind(request)
        if principal is not None and principal.may(needed.needs):
            return True
        self.message = f"This needs the permission {needed.needs}; GET /api/v1/me tells yours."
        if principal is not None and principal.read_only:
            self.message += " While the console is read-only, its sessions only read; tokens go on."
        return False


class Endpoint(APIView):
    """An address of the API. Its methods are decorated with ``@operation``. Objects of the
    framework that keep nothing of a request are made once and shared (docs/decisions/0046)."""

    authentication_classes: Sequence[type[BaseAuthentication]] = (
        TokenAuthentication,
        ConsoleAuthentication,
    )
    permission_classes: Sequence[type[BasePermission]] = (HasPermission,)
    throttle_classes: Sequence[type[BaseThrottle]] = (PrincipalThrottle,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer,)
    format_kwarg = None
    #: Without OPTIONS, because the schema tells more and ``Allow`` names the methods.
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]  # noqa: RUF012 - its base says so

    @property
    def default_response_headers(self) -> dict[str, str]:
        kind = type(self)
        if kind not in _headers_of:
            _headers_of[kind] = super().default_response_headers
        return _headers_of[kind].copy()

    def get_authenticators(self) -> list[BaseAuthentication]:
        return list(_made(tuple(self.authentication_classes)))

    def get_renderers(self) -> list[BaseRenderer]:
        return list(_made(tuple(self.renderer_classes)))

    def get_content_negotiator(self) -> Negotiation:
        return _NEGOTIATION

    def initialize_request(self, request: HttpRequest, *args: Any, **path: Any) -> Request:
        return Request(
            request,
            parsers=_made(tuple(self.parser_classes)),  # A form may have a session's CSRF token.
            authenticators=self.get_authenticators(),
            negotiator=_NEGOTIATION,
        )

    def initial(self, request: Request, *args: Any, **path: Any) -> None:
        """Check that the answer can be given in the form asked for, who the caller is, what it may
        do, and its rate."""
        chosen = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = chosen
        try:
            self.perform_authentication(request)
        except AuthenticationFailed:
            self.check_throttles(request)  # Guessing tokens is limited by the address's rate.
            raise
        self.check_permissions(request)
        self.check_throttles(request)

    def perform_authentication(self, request: Request) -> None:
        principal: Any = None
        try:
            for authentication in request.authenticators or ():
                if (found := authentication.authenticate(request)) is not None:
                    principal, _ = found
                    break
        finally:
            request.user = request.auth = principal  # Even None, or the framework asks once more.

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        self.check_throttles(request)  # Refused requests count as well.
        if principal_behind(request) is None:
            raise NotAuthenticated
        self.refuse(message or "This is not allowed to the caller.")

    def refuse(self, why: str) -> NoReturn:
        """Refuse a call because the caller lacks a right; a call that would change something is
        recorded in the audit log.

        Raises:
            PermissionDenied: always.
        """
        method = self.request.method or ""
        wanted = operation_of(self, method)
        if wanted is not None:
            record_refusal(self.actor(), wanted.needs, method=method, path=self.request.path)
        raise PermissionDenied(why)

    def finalize_response(self, request: Request, response: Any, *args: Any, **path: Any) -> Any:
        """Add the headers of the address and of the caller's rate. The framework's own method also
        merges ``Vary``, which no operation's answer has."""
        for name, text in self.headers.items():
            response.headers[name] = text
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            tell_rate(request, response)
        return response

    def allow_topic(self, topic: TopicName) -> None:
        """Check that the caller may use a topic. A topic outside its patterns is refused whether it
        exists or not, so that the answer does not tell.

        Raises:
            PermissionDenied: it may not.
        """
        principal = principal_of_request(self.request)
        if not principal.may_use(topic):
            self.refuse(f"The token is for {', '.join(principal.topics)}; {topic} is none of them.")

    def actor(self) -> Actor:
        """The caller, as the audit log knows it."""
        principal = principal_of_request(self.request)
        return Actor(principal.name, principal.token_id, request_id_of(self.request))


class OneFormEndpoint(Endpoint):
    """An address whose answers have one form, whatever ``Accept`` names (RFC 9110, 12.5.1)."""

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[BaseRenderer, str]:
        return super().perform_content_negotiation(request, force=True)


class AccessEndpoint(Endpoint):
    """An address of users, tokens and masking rules. Tokens that are limited to topics are refused
    here: with them one could make a token without that limit, and rules may concern any topic."""

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        if principal_of_request(request).topics != ALL_TOPICS:
            self.refuse(
                "A token that is limited to topics manages no tokens, users or masking rules."
            )


class TransactionEndpoint(Endpoint):
    """An address with ``{txn_id}`` in its path."""

    txn_id: TxnID

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        self.txn_id = named("txn_id", TxnID.parse, path["txn_id"])
        about(self.txn_id)

    def visible(self) -> Transaction:
        """The transaction. For a program, transactions of others do not exist (semantics §2).

        Raises:
            TransactionNotFound: there is none that the caller may see.
        """
        return engine().coordinator.get(self.txn_id, owner=self._owner())

    def inspected(self) -> Transaction:
        """As :meth:`visible`, with what brokers know where it has not ended.

        Raises:
            TransactionNotFound: there is none that the caller may see.
        """
        return engine().inspect.transaction(self.txn_id, owner=self._owner())

    def _owner(self) -> str | None:
        return principal_of_request(self.request).owner_filter


class TopicEndpoint(Endpoint):
    """An address with a topic in its path; the caller has to be allowed to use the topic."""

    topic: TopicName

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        self.topic = _topic(path["tenant"], path["namespace"], path["topic"])
        self.allow_topic(self.topic)


class PartitionEndpoint(TopicEndpoint):
    """An address with a partition in its path."""

    partition: PartitionName

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        self.partition = _partition(self.topic, path["partition"])


class SubscriptionEndpoint(TopicEndpoint):
    """An address with a subscription in its path."""

    subscription: SubscriptionName

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        self.subscription = _subscription(self.topic, path["subscription"])


class PackingEndpoint(Endpoint):
    """Mixed in where answers can be MessagePack."""

    renderer_classes = (JSONRenderer, MessagePackRenderer)


@cache
def _made(kinds: tuple[type[T], ...]) -> tuple[T, ...]:
    """One object of each class, shared by all requests, since they keep nothing of a request."""
    return tuple(kind() for kind in kinds)


@lru_cache(_NAMES)
def _topic(tenant: str, namespace: str, topic: str) -> TopicName:
    return named("topic", TopicName.parse, f"{tenant}/{namespace}/{topic}")


@lru_cache(_NAMES)
def _partition(topic: TopicName, number: str) -> PartitionName:
    return named("partition", PartitionName.parse, f"{topic}:{number}")


@lru_cache(_NAMES)
def _subscription(topic: TopicName, name: str) -> SubscriptionName:
    return named("subscription", lambda text: SubscriptionName(topic, text), name)


def operation_of(view: APIView | type[APIView], method: str) -> Operation | None:
    """The operation behind a method of an endpoint, None when there is none. HEAD is answered by
    GET."""
    name = "get" if method == "HEAD" else method.lower()
    return getattr(getattr(view, name, None), "operation", None)
