"""Django's users, each read together with what every page needs of its reader."""

from __future__ import annotations

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef


class UserBackend(ModelBackend):
    """A session's user comes with the names of their groups (``group_names``) and their
    preferences, all in one question."""

    def get_user(self, user_id: int) -> User | None:
        groups = Group.objects.filter(user=OuterRef("pk")).values("name")
        found = User.objects.select_related("preferences").annotate(
            group_names=ArraySubquery(groups)
        )
        user: User | None = found.filter(pk=user_id).first()
        return user if self.user_can_authenticate(user) else None
