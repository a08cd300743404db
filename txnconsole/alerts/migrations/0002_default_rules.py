"""A sensible rule of each kind, and the place where evaluations are noted."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from txnconsole.alerts.kinds import KINDS


def add_defaults(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    rules = apps.get_model("alerts", "Rule")
    rules.objects.bulk_create(
        rules(
            name=terms.title,
            kind=kind.value,
            threshold=terms.threshold,
            for_ms=terms.for_ms,
            severity=terms.severity.value,
            changed_by="txnconsole",
        )
        for kind, terms in KINDS.items()
    )
    apps.get_model("alerts", "Evaluation").objects.create(pk=1)


class Migration(migrations.Migration):
    dependencies = [("alerts", "0001_initial")]

    operations = [migrations.RunPython(add_defaults, migrations.RunPython.noop)]
