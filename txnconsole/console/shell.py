"""The template context that the frame around every page needs (a context processor)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from txnconsole.access.principal import Principal, principal_of
from txnconsole.access.roles import Permission, Role
from txnconsole.alerts.reading import Standing, standing
from txnconsole.console.command_lines import command_lines
from txnconsole.preferences.models import Pace

#: Title, address name, permission; in the order of the navigation.
_PAGES = (
    ("Overview", "overview", Permission.TOPIC_READ),
    ("Transactions", "transactions", Permission.TRANSACTION_READ),
    ("Topics", "topics", Permission.TOPIC_READ),
    ("Subscriptions", "subscriptions", Permission.TOPIC_READ),
)
_GROUPS = (
    (
        "Engine",
        (
            ("Coordinators", "coordinators", Permission.COORDINATOR_READ),
            ("Snapshots", "snapshots", Permission.TOPIC_READ),
            ("Invariants", "invariants", Permission.OPERATION_READ),
            ("Pipeline", "pipeline", Permission.JOB_READ),
        ),
    ),
    (
        "Operations",
        (
            ("Alerts", "alerts", Permission.ALERT_READ),
            ("Audit log", "audit", Permission.AUDIT_READ),
            ("Settings", "settings", Permission.SELF_READ),
        ),
    ),
)
#: Pages that are not in the navigation; other pages, the search box and the palette lead to them.
_ELSEWHERE = (
    ("Held-back partitions", "held-back", Permission.TOPIC_READ),
    ("Hanging transactions", "hanging", Permission.TRANSACTION_READ_ANY),
    ("Timeout advice", "timeouts", Permission.TRANSACTION_READ_ANY),
    ("Read a transaction's document", "transaction-document", Permission.SELF_READ),
    ("Bulk aborts", "bulk-aborts", Permission.JOB_READ),
    ("Why is a message not seen", "explain", Permission.TOPIC_READ),
    ("Alert rules", "alert-rules", Permission.ALERT_READ),
    ("Tokens", "settings-tokens", Permission.TOKEN_OWN),
    ("Users", "settings-users", Permission.ACCESS_MANAGE),
    ("Masking rules", "settings-masking", Permission.OPERATION_READ),
    ("Limits and retention", "settings-limits", Permission.OPERATION_READ),
)
#: From the role that may do most to the one that may do least.
_RANK = (Role.ADMIN, Role.OPERATOR, Role.VIEWER, Role.PRODUCER, Role.CONSUMER)


def pages_for(principal: Principal) -> list[tuple[str, str]]:
    """The title and address of every page without a subject that the principal may open."""
    groups = (_PAGES, *(pages for _, pages in _GROUPS), _ELSEWHERE)
    return [
        (title, reverse(f"console:{name}"))
        for pages in groups
        for title, name, permission in pages
        if principal.may(permission)
    ]


@dataclass(frozen=True, slots=True)
class NavLink:
    """A page in the navigation."""

    title: str
    icon: str
    address: str
    current: bool
    #: How many alerts fire; None on other pages than theirs.
    firing: int | None = None


def shell(request: HttpRequest) -> dict[str, Any]:
    """The navigation of the signed-in user, with only the pages that they may open."""
    user = getattr(request, "user", None)
    principal = getattr(request, "principal", None) or (user and principal_of(user))
    if not principal:
        return {"principal": None}
    in_dialog = "HX-Request" in request.headers
    firing = cache(partial(_firing, request, principal))
    return {
        "principal": principal,
        "preferences": getattr(request, "preferences", None),
        "paces": Pace.choices,
        "role": next((role for role in _RANK if role in principal.roles), None),
        "environment_name": settings.ENVIRONMENT_NAME,
        "read_only": settings.READ_ONLY,
        # Asked for by the frame, and not by what it is not around.
        "navigation": partial(_navigation, request, principal, firing),
        "alerts_firing": firing,
        "command_lines": partial(command_lines, request, principal.name),
        "in_dialog": in_dialog,
        "title_level": 2 if in_dialog else 1,  # In a dialog, or on a page of its own.
    }


def _firing(request: HttpRequest, principal: Principal) -> int:
    """How many alerts fire that the principal may know of."""
    if not principal.may(Permission.ALERT_READ):
        return 0
    read: Callable[[], Standing] = getattr(request, "standing", standing)
    return read().firing


def _navigation(
    request: HttpRequest, principal: Principal, firing: Callable[[], int]
) -> list[tuple[str, list[NavLink]]]:
    """The groups of pages that the principal may open."""
    return [
        (title, links)
        for title, pages in (("", _PAGES), *_GROUPS)
        if (links := _links(request, principal, pages, firing))
    ]


def _links(
    request: HttpRequest,
    principal: Principal,
    pages: tuple[tuple[str, str, Permission], ...],
    firing: Callable[[], int],
) -> list[NavLink]:
    links = []
    for title, name, permission in pages:
        if principal.may(permission):
            address = reverse(f"console:{name}")
            here = (
                request.path == address if name == "overview" else request.path.startswith(address)
            )
            count = firing() if name == "alerts" else None
            links.append(NavLink(title, name, address, here, count))
    return links
