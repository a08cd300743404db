"""Rules of what viewers do not see of messages."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0002_role_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="MaskingRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "topics",
                    models.CharField(
                        help_text="A pattern over tenant/namespace/topic.", max_length=400
                    ),
                ),
                ("part", models.CharField(max_length=16)),
                ("name", models.CharField(blank=True, max_length=200)),
                ("effect", models.CharField(max_length=16)),
                ("created_by", models.CharField(max_length=150)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
    ]
