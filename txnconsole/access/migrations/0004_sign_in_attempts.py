"""How often somebody has tried to sign in."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0003_masking_rule"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignInAttempts",
            fields=[
                (
                    "key",
                    models.CharField(
                        help_text="SHA-256 of address and name, hex.",
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("attempts", models.IntegerField()),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
    ]
