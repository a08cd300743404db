"""Saved views."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class SavedView(models.Model):
    """A query of the transactions page under a user's own name for it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500, blank=True)
    sort = models.CharField(max_length=16, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "name"], name="saved_view_name")
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.query}"
