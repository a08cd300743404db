from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Sampler",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("previous", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="OwnerCost",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("owner", models.TextField()),
                ("offset_ms", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("hour", "owner"), name="trends_cost_of_an_hour")
                ],
            },
        ),
        migrations.CreateModel(
            name="Sample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("width_s", models.SmallIntegerField()),
                ("at", models.DateTimeField()),
                ("committed", models.BigIntegerField(default=0)),
                ("aborted", models.BigIntegerField(default=0)),
                ("durations", models.JSONField(default=dict)),
                ("open", models.BigIntegerField(null=True)),
                ("committing", models.BigIntegerField(null=True)),
                ("aborting", models.BigIntegerField(null=True)),
                ("oldest_open_ms", models.BigIntegerField(null=True)),
                ("held_partitions", models.IntegerField(null=True)),
                ("held_offsets", models.BigIntegerField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("width_s", "at"), name="trends_sample_of_a_span"
                    )
                ],
            },
        ),
    ]
