"""Users and groups. A user's roles are the groups of their names."""

from __future__ import annotations

from rest_framework.request import Request

from txnconsole.access.roles import GRANTS, Permission, Role
from txnconsole.access.user_changes import change_user
from txnconsole.access.users import find_user, list_users, members, user_name
from txnconsole.api.decoding import named
from txnconsole.api.endpoint import AccessEndpoint
from txnconsole.api.operation import Call, NoQuery, Reply, Shape, operation
from txnconsole.api.paging import name_in, page_of
from txnconsole.api.structs.access import Group, Groups, PutUser, User, UserPage
from txnconsole.api.structs.fields import PageQuery


class Users(AccessEndpoint):
    @operation(
        "listUsers",
        Permission.ACCESS_MANAGE,
        Shape(query=PageQuery, answer=UserPage),
        summary="List users",
    )
    def get(self, call: Call[None, PageQuery]) -> UserPage:
        """By name: people and owners of programs' tokens, including disabled ones."""
        found = list_users(above=name_in(call.query.cursor), limit=call.query.limit + 1)
        page, next_cursor = page_of(found, call.query.limit, lambda each: each.get_username())
        return UserPage(
            items=[User.of(user) for user in page],
            next_cursor=next_cursor,
        )


class OneUser(AccessEndpoint):
    name: str

    def initial(self, request: Request, *args: object, **path: str) -> None:
        super().initial(request, *args, **path)
        self.name = named("user", user_name, path["user"])

    @operation("getUser", Permission.ACCESS_MANAGE, Shape(answer=User), summary="Show a user")
    def get(self, call: Call[None, NoQuery]) -> User:
        """Its roles, and whether it is active and may log in."""
        return User.of(find_user(self.name))

    @operation(
        "putUser",
        Permission.ACCESS_MANAGE,
        Shape(keyed=True, body=PutUser, answer=User, statuses=(200, 201)),
        summary="Create or change a user",
    )
    def put(self, call: Call[PutUser, NoQuery]) -> Reply:
        """201 when it was created, 200 when it existed. What is left out stays as it is.

        Nobody may disable themselves or take the role admin from themselves: 403. The tokens and
        sessions of a disabled user are refused within two seconds.
        """
        _, created = change_user(self.actor(), call.principal, self.name, call.body.settings())
        return Reply(User.of(find_user(self.name)), 201 if created else 200)


class AllGroups(AccessEndpoint):
    @operation("listGroups", Permission.ACCESS_MANAGE, Shape(answer=Groups), summary="List groups")
    def get(self, call: Call[None, NoQuery]) -> Groups:
        """One for each role: what it permits, and how many users are in it."""
        users = members()
        return Groups(
            items=[
                Group(name=role, permissions=sorted(GRANTS[role]), users=users.get(role, 0))
                for role in Role
            ]
        )
