from __future__ import annotations

from pathlib import Path

import django.db.models.functions.datetime
from django.db import migrations, models

_TABLE = (Path(__file__).parent.parent / "sql" / "audit_entry.sql").read_text()


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        # Irreversible on purpose: an audit log is not dropped by a migration.
        migrations.RunSQL(_TABLE),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "sequence",
                    models.BigIntegerField(db_default=0, primary_key=True, serialize=False),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("who", models.TextField()),
                ("token_id", models.BigIntegerField(null=True)),
                ("action", models.TextField()),
                ("object", models.TextField()),
                ("reason", models.TextField()),
                ("before", models.TextField()),
                ("after", models.TextField()),
                ("result", models.TextField()),
                ("request_id", models.TextField()),
                ("previous_hash", models.BinaryField(db_default=b"")),
                ("hash", models.BinaryField(db_default=b"")),
            ],
            options={"db_table": "audit_entry", "ordering": ["-sequence"], "managed": False},
        ),
    ]
