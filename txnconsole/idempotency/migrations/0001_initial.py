from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("principal", models.TextField()),
                ("operation", models.TextField()),
                ("key", models.CharField(max_length=255)),
                ("digest", models.BinaryField(help_text="SHA-256 of the request.")),
                (
                    "attempt",
                    models.IntegerField(default=1, help_text="Grows when a call takes over."),
                ),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("expires_at", models.DateTimeField()),
                ("status", models.SmallIntegerField(null=True)),
                ("content_type", models.TextField(default="")),
                ("body", models.BinaryField(default=b"")),
            ],
            options={
                "indexes": [models.Index(fields=["expires_at"], name="idempotency_expiry")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "operation", "key"),
                        name="idempotency_key_of_a_principal",
                    )
                ],
            },
        ),
    ]
