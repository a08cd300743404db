"""The addresses of the console. Any of them can be pasted: filters and positions stand in them."""

from __future__ import annotations

from django.urls import include, path, register_converter
from django.views.generic import RedirectView

from txnconsole.console.converters import TopicConverter, TxnIDConverter
from txnconsole.console.views import (
    aborted_ranges,
    alert_settings,
    alerts,
    audit,
    coordinators,
    delivery_models,
    explain,
    held_back,
    history,
    invariants,
    live,
    overview,
    partition,
    partition_log,
    partition_operations,
    partition_subscriptions,
    pipeline,
    search,
    session,
    settings,
    snapshots,
    subscriptions,
    tokens,
    topic_changes,
    topics,
    transactions,
    users,
)

register_converter(TopicConverter, "topic")
register_converter(TxnIDConverter, "txn")

app_name = "console"
_PARTITION = "topics/<topic:topic>/partitions/<int:number>"
_USER = "settings/users/<str:name>"
_LOG = f"{_PARTITION}/log"
_CHANNEL = "alerts/channels/<int:channel_id>"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("trends", overview.trends, name="trends"),
    path("trends/figures", overview.figures, name="trends-figures"),
    path("held-back", held_back.held_back, name="held-back"),
    path("login", session.Login.as_view(), name="login"),
    path("logout", session.Logout.as_view(), name="logout"),
    path("search", search.search, name="search"),
    path("search/suggest", search.suggestions, name="search-suggest"),
    path("live", live.live, name="live"),
    path("transactions", transactions.transactions, name="transactions"),
    path("transactions/", include("txnconsole.console.transaction_urls")),
    path("topics/new", topic_changes.create, name="create-topic"),
    path("topics/<topic:topic>/delete", topic_changes.delete, name="delete-topic"),
    path("topics", topics.topics, name="topics"),
    path("topics/<topic:topic>", topics.topic, name="topic"),
    path(_PARTITION, partition.summary, name="partition"),
    path(f"{_PARTITION}/history", history.history, name="history"),
    path(f"{_PARTITION}/history/points", history.points, name="history-points"),
    path(f"{_PARTITION}/models", delivery_models.delivery_models, name="delivery-models"),
    path(f"{_PARTITION}/aborted", aborted_ranges.aborted_ranges, name="aborted-ranges"),
    path(f"{_PARTITION}/snapshots", snapshots.of_partition, name="partition-snapshots"),
    path(
        f"{_PARTITION}/subscriptions",
        partition_subscriptions.of_partition,
        name="partition-subscriptions",
    ),
    path(
        f"{_PARTITION}/operate/<str:name>",
        partition_operations.operate,
        name="operate-partition",
    ),
    path(_LOG, partition_log.log, name="log"),
    path(f"{_LOG}/window", partition_log.window, name="log-window"),
    path(f"{_LOG}/blocker", partition_log.blocker, name="log-blocker"),
    path(f"{_LOG}/entries/<int:offset>", partition_log.entry, name="log-entry"),
    path(f"{_LOG}/figures", partition_log.figures, name="log-figures"),
    path("subscriptions", subscriptions.subscriptions, name="subscriptions"),
    path("subscriptions/<topic:topic>/<str:name>", subscriptions.subscription, name="subscription"),
    path("subscriptions/<topic:topic>/<str:name>/seek", subscriptions.seek, name="seek"),
    path("coordinators", coordinators.coordinators, name="coordinators"),
    path("coordinators/scale", coordinators.scale, name="coordinators-scale"),
    path("coordinators/<int:tc_id>", coordinators.coordinator, name="coordinator"),
    path("invariants", invariants.invariants, name="invariants"),
    path("invariants/check", invariants.check_now, name="check-invariants"),
    path("explain", explain.explain, name="explain"),
    path("snapshots", snapshots.snapshots, name="snapshots"),
    path("pipeline", pipeline.pipeline, name="pipeline"),
    path("pipeline/<int:run_id>", pipeline.run, name="run"),
    path("pipeline/<int:run_id>/repeat", pipeline.repeat, name="repeat-run"),
    path("pipeline/<int:run_id>/cancel", pipeline.cancel, name="cancel-run"),
    path("pipeline/figures", pipeline.figures, name="figures"),
    path("pipeline/start/<str:kind>", pipeline.start, name="start-run"),
    path("alerts", alerts.alerts, name="alerts"),
    path("alerts/history", alerts.history, name="alert-history"),
    path("alerts/history/since", alerts.resolved_since, name="alert-resolved-since"),
    path("alerts/<int:alert_id>", alerts.alert, name="alert"),
    path("alerts/<int:alert_id>/acknowledge", alerts.acknowledge, name="alert-acknowledge"),
    path("alerts/silence", alerts.silence, name="alert-silence"),
    path("alerts/silences", alerts.silences, name="alert-silences"),
    path("alerts/silences/<int:silence_id>/end", alerts.end_silence, name="alert-silence-end"),
    path("alerts/rules", alert_settings.rules, name="alert-rules"),
    path("alerts/rules/new", alert_settings.new_rule, name="alert-rule-new"),
    path("alerts/rules/<int:rule_id>", alert_settings.rule, name="alert-rule"),
    path("alerts/rules/<int:rule_id>/delete", alert_settings.delete_rule, name="alert-rule-delete"),
    path("alerts/channels", alert_settings.channels, name="alert-channels"),
    path("alerts/channels/new", alert_settings.new_channel, name="alert-channel-new"),
    path(_CHANNEL, alert_settings.channel, name="alert-channel"),
    path(f"{_CHANNEL}/<str:action>", alert_settings.change_channel, name="alert-channel-change"),
    path(
        f"{_CHANNEL}/messages/<int:message_id>/resend",
        alert_settings.resend,
        name="alert-message-resend",
    ),
    path("audit", audit.audit, name="audit"),
    path("audit/added", audit.added, name="audit-added"),
    path("audit/export.<str:form>", audit.export, name="audit-export"),
    path(
        "settings", RedirectView.as_view(pattern_name="console:settings-profile"), name="settings"
    ),
    path("settings/profile", settings.profile, name="settings-profile"),
    path("settings/theme", settings.theme, name="settings-theme"),
    path("settings/limits", settings.effective, name="settings-limits"),
    path("settings/tokens", tokens.tokens, name="settings-tokens"),
    path("settings/tokens/<int:token_id>", tokens.revoke, name="settings-token-revoke"),
    path("settings/users", users.users, name="settings-users"),
    path(_USER, users.user, name="settings-user"),
    path(f"{_USER}/roles", users.roles, name="settings-user-roles"),
    path(f"{_USER}/activity", users.activity, name="settings-user-activity"),
    path(f"{_USER}/password", users.password, name="settings-user-password"),
]
