"""Tokens, and who the caller is. A secret is only in the answer that creates its token."""

from __future__ import annotations

import re
from datetime import timedelta

from rest_framework.request import Request

from txnconsole.access.roles import Permission
from txnconsole.access.token_changes import create_token, revoke_token
from txnconsole.access.tokens import find_token, list_tokens
from txnconsole.api.decoding import invalid
from txnconsole.api.endpoint import AccessEndpoint, Endpoint
from txnconsole.api.operation import Call, NoBody, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import page_by_number
from txnconsole.api.structs.access import (
    CreatedToken,
    CreateToken,
    ListTokens,
    Me,
    Token,
    TokenPage,
)
from txnconsole.api.structs.fields import INT64_MAX


class Caller(Endpoint):
    @operation("getMe", Permission.SELF_READ, Shape(answer=Me), summary="Tell who the caller is")
    def get(self, call: Call[None, NoQuery]) -> Me:
        """The caller's roles, what they permit, its topic patterns, and its token."""
        principal = call.principal
        return Me(
            name=principal.name,
            roles=sorted(principal.roles),
            permissions=sorted(principal.permissions),
            topics=list(principal.topics),
            token=None if principal.token_id is None else _token(principal.token_id),
        )


class Tokens(AccessEndpoint):
    @operation(
        "listTokens",
        Permission.ACCESS_MANAGE,
        Shape(query=ListTokens, answer=TokenPage),
        summary="List tokens",
    )
    def get(self, call: Call[None, ListTokens]) -> TokenPage:
        """Newest first, including revoked and expired ones unless `ended` is false; of one `user`
        or of all."""
        query = call.query
        page, next_cursor = page_by_number(list_tokens(query.user, ended=query.ended), query)
        return TokenPage(
            items=[Token.of(token) for token in page],
            next_cursor=next_cursor,
        )

    @operation(
        "createToken",
        Permission.ACCESS_MANAGE,
        Shape(
            keyed=True, unkept=("secret",), body=CreateToken, answer=CreatedToken, statuses=(201,)
        ),
        summary="Create a token",
    )
    def post(self, call: Call[CreateToken, NoQuery]) -> Reply:
        """For a program of the user, limited to roles and topics. Its secret is shown only in this
        answer."""
        body = call.body
        ms = body.lifetime_ms
        token, secret = create_token(
            self.actor(),
            body.user,
            body.roles,
            topics=body.topics,
            lifetime=None if ms is None else timedelta(milliseconds=ms),
        )
        return Reply(CreatedToken(token=Token.of(token), secret=secret), 201)


class OneToken(AccessEndpoint):
    token_id: int

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        text = path["token_id"]
        if not re.fullmatch("[0-9]{1,19}", text, re.ASCII) or not 0 < int(text) <= INT64_MAX:
            raise invalid("token_id", "is not the number of a token")
        self.token_id = int(text)

    @operation("getToken", Permission.ACCESS_MANAGE, Shape(answer=Token), summary="Show a token")
    def get(self, call: Call[None, NoQuery]) -> Token:
        """What it is limited to, and when it was last used; never its secret."""
        return _token(self.token_id)

    @operation(
        "revokeToken",
        Permission.ACCESS_MANAGE,
        Shape(keyed=True, statuses=(204,)),
        summary="Revoke a token",
    )
    def delete(self, call: Call[NoBody, NoQuery]) -> None:
        """Revokes it for good; every process notices within two seconds. Revoking it again changes
        nothing."""
        revoke_token(self.actor(), self.token_id)


def _token(token_id: int) -> Token:
    return Token.of(find_token(token_id))
