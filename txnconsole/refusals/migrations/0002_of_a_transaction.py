from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("refusals", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="refusal", index=models.Index(fields=["refused"], name="refusal_refused")
        ),
        migrations.AddIndex(
            model_name="refusal", index=models.Index(fields=["holder"], name="refusal_holder")
        ),
    ]
