from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("preferences", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="preferences",
            name="pace",
            field=models.PositiveSmallIntegerField(
                choices=[
                    (1, "1 s"),
                    (2, "2 s"),
                    (5, "5 s"),
                    (10, "10 s"),
                    (30, "30 s"),
                    (60, "60 s"),
                ],
                default=1,
            ),
        ),
    ]
