from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("trends", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="sample",
            name="coordinators",
            field=models.JSONField(null=True),
        ),
    ]
