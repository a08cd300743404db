"""Tokens of programs, what of messages is masked, and attempts to sign in."""

from __future__ import annotations

from typing import ClassVar, Literal

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

TokenState = Literal["valid", "expired", "revoked", "disabled"]


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

    @property
    def state(self) -> TokenState:
        """Whether it lets anybody in; of a token that was read with ``tokens.list_tokens`` or
        ``find_token``, which ask the database's clock."""
        if self.revoked_at is not None:
            return "revoked"
        if getattr(self, "is_past", False):
            return "expired"
        return "valid" if self.user.is_active else "disabled"


class MaskingRule(models.Model):
    """What viewers do not see of the messages of some topics (txnconsole/access/masking.py)."""

    topics = models.CharField(max_length=400, help_text="A pattern over tenant/namespace/topic.")
    part = models.CharField(max_length=16)
    name = models.CharField(max_length=200, blank=True)
    effect = models.CharField(max_length=16)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        part = f"{self.part} {self.name}" if self.name else self.part
        return f"{self.effect} the {part} in {self.topics}"


class SignInAttempts(models.Model):
    """Attempts to sign in within one window of time (txnconsole/access/sign_ins.py)."""

    key = models.CharField(
        max_length=64, primary_key=True, help_text="SHA-256 of address and name, hex."
    )
    attempts = models.IntegerField()
    since = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.attempts} attempts since {self.since}"
