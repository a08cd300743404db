"""Keeping views and letting go of them."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from engine.model.errors import InvalidRequest
from txnconsole.saved_views.models import SavedView

MAX_VIEWS = 20
MAX_NAME = 60


def views_of(user_id: int) -> list[SavedView]:
    """A user's views, in the order in which they were kept."""
    return list(SavedView.objects.filter(user_id=user_id).order_by("id")[:MAX_VIEWS])


def keep(user_id: int, name: str, query: str, sort: str) -> SavedView:
    """Keep a view; one of the same name is replaced.

    Raises:
        InvalidRequest: the user keeps :data:`MAX_VIEWS` others.
    """
    with transaction.atomic():
        # The user's row, because views that are kept at once are none that could be locked yet.
        User.objects.select_for_update(no_key=True).get(pk=user_id)
        if SavedView.objects.filter(user_id=user_id).exclude(name=name).count() >= MAX_VIEWS:
            raise InvalidRequest(
                f"You keep {MAX_VIEWS} views, the most there can be. Delete one first.",
                field="name",
            )
        view, _ = SavedView.objects.update_or_create(
            user_id=user_id, name=name, defaults={"query": query, "sort": sort}
        )
    return view


def forget(user_id: int, view_id: int) -> bool:
    """Delete a user's view; False when there was none."""
    deleted, _ = SavedView.objects.filter(user_id=user_id, pk=view_id).delete()
    return deleted > 0
