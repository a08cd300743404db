"""Tokens of programs."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Token(models.Model):
    """A program's credential. The secret itself is shown once and never stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens"
    )
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the secret, hex.")
    hint = models.CharField(max_length=16, help_text="How the secret begins, to recognise it.")
    roles = ArrayField(models.CharField(max_length=16), help_text="Names of roles.")
    topics = ArrayField(models.CharField(max_length=400))
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.hint}… of {self.user}"
