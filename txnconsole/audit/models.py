"""The audit log's entries, to be read; :mod:`txnconsole.audit.recording` writes them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now


class AuditEntry(models.Model):
    """One change, or one attempt. The table is made by sql/audit_entry.sql.

    ``sequence``, ``at``, ``previous_hash`` and ``hash`` are the database's to give. ``before``
    and ``after`` are JSON texts, kept letter for letter, because the hash covers them.
    """

    sequence = models.BigIntegerField(primary_key=True, db_default=0)
    at = models.DateTimeField(db_default=Now())
    who = models.TextField()
    token_id = models.BigIntegerField(null=True)
    action = models.TextField()
    object = models.TextField()
    reason = models.TextField()
    before = models.TextField()
    after = models.TextField()
    result = models.TextField()
    request_id = models.TextField()
    previous_hash = models.BinaryField(db_default=b"")
    hash = models.BinaryField(db_default=b"")

    class Meta:
        # Not Django's to manage: its test runner truncates what it manages.
        managed = False
        db_table = "audit_entry"
        ordering: ClassVar = ["-sequence"]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.who} {self.action} {self.object}"

    @property
    def source(self) -> str:
        """Where it came from: a program's token, a person's session, or neither, which is a worker
        or a command on the server."""
        if self.token_id is not None:
            return "API"
        return "Console" if self.request_id else "Server"
