"""The severity that people were last told, so that they hear when an alert becomes more severe."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import F


def told_as_they_are(apps: Any, _schema_editor: object) -> None:
    """Alerts of before were told with the severity that they have."""
    told = apps.get_model("alerts", "Alert").objects.exclude(notified_at=None)
    told.update(notified_severity=F("severity"))


class Migration(migrations.Migration):
    dependencies = [("alerts", "0004_channel_failed_at")]

    operations = [
        migrations.AddField(
            model_name="alert",
            name="notified_severity",
            field=models.CharField(max_length=16, default="", db_default=""),
        ),
        migrations.RunPython(told_as_they_are, migrations.RunPython.noop),
    ]
