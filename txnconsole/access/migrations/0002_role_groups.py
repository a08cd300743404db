from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_ROLES = ("viewer", "producer", "consumer", "operator", "admin")


def make_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """A console user gets a role by joining the group of its name."""
    group = apps.get_model("auth", "Group")
    for name in _ROLES:
        group.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
