"""What every endpoint does before its operation: rights, and the names in its path."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
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
from txnconsole.access.refusing import record_refusal
from txnconsole.access.requests import django_request, principal_behind, principal_of_request
from txnconsole.api.decoding import named
from txnconsole.api.operation import Operation
from txnconsole.api.renderers import JSONRenderer, MessagePackRenderer, Negotiation
from txnconsole.api.throttling import PrincipalThrottle, tell_rate
from txnconsole.audit.chain import Actor
from txnconsole.enginedb.wiring import engine
from txnconsole.request_log import about

T = TypeVar("T")

#: Programs call the same addresses again and again.
_NAMES = 4096
_NEGOTIATION = Negotiation()
#: What all answers of an address say of it.
_headers_of: dict[type[APIView], dict[str, str]] = {}


class HasPermission(BasePermission):
    """The caller's roles grant what the method's operation needs."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        needed = operation_of(view, django_request(request).method or "")
        if needed is None:  # The method is not one of this address; 405 follows.
            return True
        principal = principal_behind(request)
        if principal is not None and principal.may(needed.needs):
            return True
        self.message = f"This needs the permission {needed.needs}; GET /api/v1/me tells yours."
        return False


class Endpoint(APIView):
    """An address of the API; its methods carry ``@operation``. What keeps nothing of a request is
    shared by all (docs/decisions/0046)."""

    authentication_classes: Sequence[type[BaseAuthentication]] = (
        TokenAuthentication,
        ConsoleAuthentication,
    )
    permission_classes: Sequence[type[BasePermission]] = (HasPermission,)
    throttle_classes: Sequence[type[BaseThrottle]] = (PrincipalThrottle,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer,)
    format_kwarg = None
    #: Without OPTIONS: the schema tells more, and ``Allow`` names what there is.
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
            parsers=_made(tuple(self.parser_classes)),  # A form may hold a session's CSRF token.
            authenticators=self.get_authenticators(),
            negotiator=_NEGOTIATION,
        )

    def initial(self, request: Request, *args: Any, **path: Any) -> None:
        """Let a request pass that asks for an answer that there is, and may ask for it."""
        chosen = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = chosen
        try:
            self.perform_authentication(request)
        except AuthenticationFailed:
            self.check_throttles(request)  # Guessing tokens has its address's rate.
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
            request.user = request.auth = principal  # None too: so that nobody asks once more.

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        self.check_throttles(request)  # What is refused has its rate as well.
        if principal_behind(request) is None:
            raise NotAuthenticated
        self.refuse(message or "This is not allowed to the caller.")

    def refuse(self, why: str) -> NoReturn:
        """Refuse a call for want of a right; one that would change something is recorded.

        Raises:
            PermissionDenied: always.
        """
        method = self.request.method or ""
        wanted = operation_of(self, method)
        if wanted is not None:
            record_refusal(self.actor(), wanted.needs, method=method, path=self.request.path)
        raise PermissionDenied(why)

    def finalize_response(self, request: Request, response: Any, *args: Any, **path: Any) -> Any:
        """Add what is said of the address and of the caller's rate. The framework's own way looks
        for a ``Vary`` to add to; no operation's answer brings one."""
        for name, text in self.headers.items():
            response.headers[name] = text
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            tell_rate(request, response)
        return response

    def allow_topic(self, topic: TopicName) -> None:
        """Let the request go on if the caller may touch the topic.

        A topic outside its patterns is refused whether it exists or not, so nothing is told.
        """
        principal = principal_of_request(self.request)
        if not principal.may_use(topic):
            self.refuse(f"The token is for {', '.join(principal.topics)}; {topic} is none of them.")

    def actor(self) -> Actor:
        """The caller, as the audit log knows it."""
        principal = principal_of_request(self.request)
        request_id = str(self.request.META.get("REQUEST_ID", ""))
        return Actor(principal.name, principal.token_id, request_id)


class AccessEndpoint(Endpoint):
    """An address of users, tokens and masking rules. A token that is limited to topics would pass
    its limits by making another, and rules are of any topic, so it is refused here."""

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
        """The transaction; another's does not exist for a program (semantics §2).

        Raises:
            TransactionNotFound: there is none that the caller may see.
        """
        return engine().coordinator.get(self.txn_id, owner=self._owner())

    def inspected(self) -> Transaction:
        """As :meth:`visible`, with what brokers know of partitions that have not ended it.

        Raises:
            TransactionNotFound: there is none that the caller may see.
        """
        return engine().inspect.transaction(self.txn_id, owner=self._owner())

    def _owner(self) -> str | None:
        return principal_of_request(self.request).owner_filter


class TopicEndpoint(Endpoint):
    """An address with a topic in its path, which one of the caller's patterns matches."""

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
    """Mixed in where answers may be MessagePack."""

    renderer_classes = (JSONRenderer, MessagePackRenderer)


@cache
def _made(kinds: tuple[type[T], ...]) -> tuple[T, ...]:
    """One of each, shared by all requests: they keep nothing of any."""
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
    """The operation behind a method of an endpoint; HEAD is answered by GET's."""
    name = "get" if method == "HEAD" else method.lower()
    return getattr(getattr(view, name, None), "operation", None)
