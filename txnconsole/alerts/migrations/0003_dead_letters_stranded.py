"""A rule of a kind that deployments of before do not have yet."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from txnconsole.alerts.kinds import KINDS, Kind

_KINDS = [
    ("overdue", "Transaction overdue"),
    ("held_back", "Partition held back"),
    ("blocker_timeout", "Blocker near its timeout"),
    ("stuck_ending", "Ending stuck"),
    ("abort_ratio", "Many aborts"),
    ("conflict_rate", "Many ack conflicts"),
    ("dead_letters_stranded", "Dead letters stranded"),
    ("snapshot_age", "Snapshot late"),
    ("coordinator_recovering", "Coordinator recovering"),
    ("invariant_broken", "Invariant broken"),
    ("database_away", "Broker away"),
    ("worker_silent", "Workers silent"),
]


def add_rule(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    rules = apps.get_model("alerts", "Rule").objects
    kind = Kind.DEAD_LETTERS_STRANDED
    terms = KINDS[kind]
    # A new database has it already (0002), and somebody may have given its name to another rule.
    if rules.filter(models.Q(kind=kind.value) | models.Q(name=terms.title)).exists():
        return
    rules.create(
        name=terms.title,
        kind=kind.value,
        threshold=terms.threshold,
        for_ms=terms.for_ms,
        severity=terms.severity.value,
        changed_by="txnconsole",
    )


class Migration(migrations.Migration):
    dependencies = [("alerts", "0002_default_rules")]

    operations = [
        *(
            migrations.AlterField(
                model_name=name,
                name="kind",
                field=models.CharField(choices=_KINDS, max_length=32),
            )
            for name in ("alert", "rule")
        ),
        migrations.RunPython(add_rule, migrations.RunPython.noop),
    ]
