from __future__ import annotations

from pathlib import Path

from django.db import migrations, models

_SUM = (Path(__file__).parent.parent / "sql" / "sum.sql").read_text()
_NO_SUM = """
DROP TRIGGER idempotency_sum_of_added ON idempotency_keptanswer;
DROP TRIGGER idempotency_sum_of_changed ON idempotency_keptanswer;
DROP TRIGGER idempotency_sum_of_removed ON idempotency_keptanswer;
DROP FUNCTION idempotency_sum();
"""


class Migration(migrations.Migration):
    dependencies = [("idempotency", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="KeptBytes",
            fields=[
                ("principal", models.TextField(primary_key=True, serialize=False)),
                ("bytes", models.BigIntegerField()),
            ],
        ),
        migrations.AddIndex(
            model_name="keptanswer",
            index=models.Index(fields=["principal", "expires_at"], name="idempotency_oldest"),
        ),
        migrations.RunSQL(_SUM, _NO_SUM),
    ]
