from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rule_name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("overdue", "Transaction overdue"),
                            ("held_back", "Partition held back"),
                            ("blocker_timeout", "Blocker near its timeout"),
                            ("stuck_ending", "Ending stuck"),
                            ("abort_ratio", "Many aborts"),
                            ("conflict_rate", "Many ack conflicts"),
                            ("snapshot_age", "Snapshot late"),
                            ("coordinator_recovering", "Coordinator recovering"),
                            ("invariant_broken", "Invariant broken"),
                            ("database_away", "Broker away"),
                            ("worker_silent", "Workers silent"),
                        ],
                        max_length=32,
                    ),
                ),
                (
                    "severity",
                    models.CharField(
                        choices=[
                            ("info", "Info"),
                            ("warning", "Warning"),
                            ("critical", "Critical"),
                        ],
                        max_length=16,
                    ),
                ),
                ("threshold", models.FloatField()),
                ("object", models.TextField()),
                ("detail", models.TextField(default="")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("firing", "Firing"),
                            ("resolved", "Resolved"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("value", models.FloatField()),
                ("peak", models.FloatField()),
                (
                    "samples",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.FloatField(), default=list, size=None
                    ),
                ),
                ("pending_since", models.DateTimeField()),
                ("fired_at", models.DateTimeField(null=True)),
                ("clear_since", models.DateTimeField(null=True)),
                ("resolved_at", models.DateTimeField(null=True)),
                ("resolution", models.TextField(default="")),
                ("measured_at", models.DateTimeField()),
                ("notified_at", models.DateTimeField(null=True)),
                ("silenced_until", models.DateTimeField(null=True)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.TextField(default="")),
                ("acknowledgement", models.TextField(default="")),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=120, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("email", "Email"), ("webhook", "Webhook")], max_length=16
                    ),
                ),
                (
                    "recipients",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), default=list, size=None
                    ),
                ),
                ("url", models.TextField(default="")),
                ("secret", models.TextField(default="")),
                (
                    "min_severity",
                    models.CharField(
                        choices=[
                            ("info", "Info"),
                            ("warning", "Warning"),
                            ("critical", "Critical"),
                        ],
                        default="info",
                        max_length=16,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("changed_by", models.TextField(default="")),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name="Rule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=120, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("overdue", "Transaction overdue"),
                            ("held_back", "Partition held back"),
                            ("blocker_timeout", "Blocker near its timeout"),
                            ("stuck_ending", "Ending stuck"),
                            ("abort_ratio", "Many aborts"),
                            ("conflict_rate", "Many ack conflicts"),
                            ("snapshot_age", "Snapshot late"),
                            ("coordinator_recovering", "Coordinator recovering"),
                            ("invariant_broken", "Invariant broken"),
                            ("database_away", "Broker away"),
                            ("worker_silent", "Workers silent"),
                        ],
                        max_length=32,
                    ),
                ),
                ("topics", models.CharField(default="*", max_length=400)),
                ("threshold", models.FloatField()),
                ("for_ms", models.BigIntegerField(default=0)),
                ("clear_ms", models.BigIntegerField(default=15000)),
                ("remind_ms", models.BigIntegerField(default=14400000)),
                (
                    "severity",
                    models.CharField(
                        choices=[
                            ("info", "Info"),
                            ("warning", "Warning"),
                            ("critical", "Critical"),
                        ],
                        max_length=16,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("changed_by", models.TextField(default="")),
                (
                    "measured_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("content", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[("queued", "Queued"), ("sent", "Sent"), ("dead", "Dead")],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("attempts", models.IntegerField(default=0)),
                (
                    "next_attempt_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("lease", models.BigIntegerField(default=0)),
                ("leased_until", models.DateTimeField(null=True)),
                ("last_error", models.TextField(default="")),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="alerts.channel",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("firing", "Firing"),
                            ("reminder", "Reminder"),
                            ("resolved", "Resolved"),
                        ],
                        max_length=16,
                    ),
                ),
                ("value", models.FloatField()),
                ("at", models.DateTimeField()),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="alerts.alert",
                    ),
                ),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="alerts.channel",
                    ),
                ),
                (
                    "message",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="notices",
                        to="alerts.message",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.AddField(
            model_name="alert",
            name="rule",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="alerts",
                to="alerts.rule",
            ),
        ),
        migrations.CreateModel(
            name="Silence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("objects_matching", models.TextField(default="*")),
                ("until", models.DateTimeField()),
                ("reason", models.TextField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("created_by", models.TextField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("ended_by", models.TextField(default="")),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="silences",
                        to="alerts.rule",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                models.F("next_attempt_at"),
                models.F("id"),
                condition=models.Q(("state", "queued")),
                name="message_queued",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["channel", "-id"], name="message_by_channel"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("state", "queued"), _negated=True),
                fields=["ended_at"],
                name="message_ended",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("message", None)),
                fields=["channel", "id"],
                name="notice_waiting",
            ),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["state", "-id"], name="alert_by_state"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["rule_name", "-id"], name="alert_by_rule"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["object", "-id"], name="alert_by_object"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(
                condition=models.Q(("state", "resolved")),
                fields=["resolved_at"],
                name="alert_resolved",
            ),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["pending", "firing"])),
                fields=("rule", "object"),
                name="alert_active",
            ),
        ),
        migrations.AddIndex(
            model_name="silence",
            index=models.Index(
                condition=models.Q(("ended_at", None)), fields=["until"], name="silence_open"
            ),
        ),
    ]
