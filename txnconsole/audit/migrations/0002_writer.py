from __future__ import annotations

from pathlib import Path

from django.db import migrations

_GRANTS = (Path(__file__).parent.parent / "sql" / "grant_writer.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    # Irreversible on purpose, as the log is: a right that was taken is not given back.
    operations = [migrations.RunSQL(_GRANTS)]
