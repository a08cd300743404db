"""Since when a channel fails, so that others need not wait for it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0003_dead_letters_stranded")]

    operations = [
        migrations.AddField(
            model_name="channel",
            name="failed_at",
            field=models.DateTimeField(null=True),
        ),
    ]
