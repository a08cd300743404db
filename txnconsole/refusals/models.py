"""Refused acknowledgements."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class Refusal(models.Model):
    """``holder``: the transaction that holds the messages, or empty when they were acknowledged
    already. ``refused``: the one that wanted them. ``first_offset`` is the newest time's lowest."""

    subscription = models.TextField(help_text="topic/name")
    partition = models.IntegerField()
    holder = models.TextField()
    refused = models.TextField()
    consumer = models.TextField()
    who = models.TextField(help_text="The principal.")
    first_offset = models.BigIntegerField()
    times = models.BigIntegerField(default=1)
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["subscription", "partition", "holder", "refused"],
                name="refusal_of_a_pair",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["subscription", "-last_at"], name="refusal_newest"),
            models.Index(fields=["last_at"], name="refusal_age"),
            models.Index(fields=["refused"], name="refusal_refused"),
            models.Index(fields=["holder"], name="refusal_holder"),
        ]

    def __str__(self) -> str:
        return f"{self.refused} refused by {self.holder or 'an acknowledgement'}"
