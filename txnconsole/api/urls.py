"""Addresses under ``/api/v1/``."""

from __future__ import annotations

from django.urls import URLPattern, path, re_path

from txnconsole.api.docs import Docs, Schema
from txnconsole.api.views import (
    audit,
    coordinators,
    inspection,
    jobs,
    messages,
    partition_operations,
    partitions,
    subscriptions,
    tokens,
    topics,
    transaction_ends,
    transactions,
    users,
)
from txnconsole.api.views.nowhere import Nowhere

_TXN = "transactions/<str:txn_id>"
_TOPIC = "topics/<str:tenant>/<str:namespace>/<str:topic>"
_PARTITION = f"{_TOPIC}/partitions/<str:partition>"
_SUBSCRIPTION = f"{_TOPIC}/subscriptions/<str:subscription>"

urlpatterns: list[URLPattern] = [
    path("transactions", transactions.Transactions.as_view()),
    path("transactions/bulk-abort", jobs.BulkAborts.as_view()),
    path("transactions/end-group", transaction_ends.Groups.as_view()),
    path(_TXN, transactions.OneTransaction.as_view()),
    path(f"{_TXN}/log", transactions.LogOfTransaction.as_view()),
    path(f"{_TXN}/outcome", transactions.OutcomeOfTransaction.as_view()),
    path(f"{_TXN}/impact", transactions.ImpactOfTransaction.as_view()),
    path(f"{_TXN}/participants", inspection.ParticipantsOfTransaction.as_view()),
    path(f"{_TXN}/retry", inspection.RetryOfTransaction.as_view()),
    path(f"{_TXN}/partitions", transaction_ends.PartitionsOfTransaction.as_view()),
    path(f"{_TXN}/subscriptions", transaction_ends.SubscriptionsOfTransaction.as_view()),
    path(f"{_TXN}/commit", transaction_ends.CommitOfTransaction.as_view()),
    path(f"{_TXN}/abort", transaction_ends.AbortOfTransaction.as_view()),
    path(f"{_TXN}/extend", transaction_ends.DeadlineOfTransaction.as_view()),
    path("slow-transactions", transactions.SlowTransactionsOfAll.as_view()),
    path("hanging-transactions", inspection.HangingTransactionsOfAll.as_view()),
    path("topics", topics.Topics.as_view()),
    path(_TOPIC, topics.OneTopic.as_view()),
    path(f"{_TOPIC}/partitions", partitions.Partitions.as_view()),
    path(_PARTITION, partitions.OnePartition.as_view()),
    path(f"{_PARTITION}/messages", messages.Messages.as_view()),
    path(f"{_PARTITION}/aborted-index", partitions.IndexOfPartition.as_view()),
    path(f"{_PARTITION}/blockers", partitions.BlockersOfPartition.as_view()),
    path(f"{_PARTITION}/history", inspection.HistoryOfPartition.as_view()),
    path(f"{_PARTITION}/explain", inspection.ExplanationOfMessage.as_view()),
    path(f"{_PARTITION}/rehearsal", inspection.RehearsalOfRecovery.as_view()),
    path(f"{_PARTITION}/invariants", inspection.InvariantsOfPartition.as_view()),
    path(f"{_PARTITION}/offline", partition_operations.OfflinePartition.as_view()),
    path(f"{_PARTITION}/online", partition_operations.OnlinePartition.as_view()),
    path(f"{_PARTITION}/snapshot", partition_operations.SnapshotOfPartition.as_view()),
    path(f"{_PARTITION}/recover", partition_operations.RecoveryOfPartition.as_view()),
    path(f"{_PARTITION}/truncate", partition_operations.TruncationOfPartition.as_view()),
    path(f"{_PARTITION}/force-abort", partition_operations.OrphansOfPartition.as_view()),
    path(f"{_TOPIC}/subscriptions", subscriptions.Subscriptions.as_view()),
    path(_SUBSCRIPTION, subscriptions.OneSubscription.as_view()),
    path(f"{_SUBSCRIPTION}/receive", subscriptions.Deliveries.as_view()),
    path(f"{_SUBSCRIPTION}/ack", subscriptions.Acknowledgements.as_view()),
    path(f"{_SUBSCRIPTION}/force-abort", inspection.OrphansOfSubscription.as_view()),
    path(f"{_SUBSCRIPTION}/seek", subscriptions.Position.as_view()),
    path(f"{_SUBSCRIPTION}/nack", subscriptions.NegativeAcknowledgements.as_view()),
    path(f"{_SUBSCRIPTION}/leave", subscriptions.Departures.as_view()),
    path("coordinators", coordinators.AllCoordinators.as_view()),
    path("coordinators/scale", coordinators.NumberOfCoordinators.as_view()),
    path("coordinators/<int:coordinator_id>", coordinators.OneCoordinator.as_view()),
    path("invariants", inspection.AllInvariants.as_view()),
    path("me", tokens.Caller.as_view()),
    path("tokens", tokens.Tokens.as_view()),
    path("tokens/<str:token_id>", tokens.OneToken.as_view()),
    path("users", users.Users.as_view()),
    path("users/<str:user>", users.OneUser.as_view()),
    path("groups", users.AllGroups.as_view()),
    path("jobs", jobs.Jobs.as_view()),
    path("jobs/<int:job_id>", jobs.OneJob.as_view()),
    path("jobs/<int:job_id>/items", jobs.ItemsOfJob.as_view()),
    path("jobs/<int:job_id>/cancel", jobs.CancellationOfJob.as_view()),
    path("audit", audit.AuditLog.as_view()),
    path("audit/export", audit.AuditExport.as_view()),
    path("audit/verify", audit.AuditProof.as_view()),
    path("schema", Schema.as_view()),
    path("docs", Docs.as_view()),
    re_path(r"", Nowhere.as_view()),
]
