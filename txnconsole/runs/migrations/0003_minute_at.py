from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_figure"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="figure",
            index=models.Index(
                condition=models.Q(("resolution", "minute")), fields=["at"], name="minute_at"
            ),
        ),
    ]
