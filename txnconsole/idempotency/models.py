"""Keys and the answers given under them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class KeptAnswer(models.Model):
    """A key of a principal for an operation; ``status`` is null while its call is under way."""

    principal = models.TextField()
    operation = models.TextField()
    key = models.CharField(max_length=255)
    digest = models.BinaryField(help_text="SHA-256 of the request.")
    attempt = models.IntegerField(default=1, help_text="Grows when a call takes over.")
    started_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    status = models.SmallIntegerField(null=True)
    content_type = models.TextField(default="")
    body = models.BinaryField(default=b"")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["principal", "operation", "key"], name="idempotency_key_of_a_principal"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["expires_at"], name="idempotency_expiry"),
            models.Index(fields=["principal", "expires_at"], name="idempotency_oldest"),
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.principal} for {self.operation}"


class KeptBytes(models.Model):
    """What a principal's keys and answers take; triggers keep it (sql/sum.sql)."""

    principal = models.TextField(primary_key=True)
    bytes = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bytes} bytes of {self.principal}"
