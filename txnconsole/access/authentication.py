"""How a request proves who sent it: a bearer token, or the console's session."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.requests import django_request
from txnconsole.access.tokens import recognise

_CHALLENGE = 'Bearer realm="txnconsole"'


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>``.

    When a request has this header, nothing else counts: with a bad token it is refused, even if it
    also has a good session.
    """

    def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:
        """Return the token's principal, or None when the request carries no header.

        Raises:
            AuthenticationFailed: the header has another form or the token is not valid.
        """
        header: str = django_request(request).META.get("HTTP_AUTHORIZATION", "")
        if not header:
            return None
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer" or not secret or not secret.isascii():
            raise AuthenticationFailed("Write the header as 'Authorization: Bearer <token>'.")
        principal = recognise(secret.strip())
        if principal is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        return principal, principal

    def authenticate_header(self, request: Request) -> str:
        """The ``WWW-Authenticate`` header of a 401 answer."""
        return _CHALLENGE


class ConsoleAuthentication(SessionAuthentication):
    """The console's session; changes need its CSRF token."""

    def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:
        """Return the session user's principal, or None for an anonymous request.

        Raises:
            PermissionDenied: the request would change something and its CSRF token is missing
                or wrong.
        """
        principal = principal_of(django_request(request).user)
        if principal is None:
            return None
        self.enforce_csrf(request)
        return principal, principal
