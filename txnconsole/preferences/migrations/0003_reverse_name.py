"""A user's preferences are read together with the user; nothing changes in the database."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("preferences", "0002_pace"),
    ]

    operations = [
        migrations.AlterField(
            model_name="preferences",
            name="user",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name="preferences",
                serialize=False,
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
