"""Addresses under ``/admin/v3/transactions/``."""

from __future__ import annotations

from django.urls import URLPattern, path

from txnconsole.pulsar import coordinators, partitions, subscriptions, transactions

_TXN = "<int:most>/<int:least>"
_TOPIC = "<str:tenant>/<str:namespace>/<str:topic>"
_SUBSCRIPTION = f"{_TOPIC}/<str:subscription>"

urlpatterns: list[URLPattern] = [
    path("coordinators", coordinators.Coordinators.as_view()),
    path("coordinatorStats", coordinators.Stats.as_view()),
    path("coordinatorInternalStats/<int:coordinator_id>", coordinators.InternalStats.as_view()),
    path("transactionCoordinator/replicas", coordinators.Replicas.as_view()),
    path(f"transactionMetadata/{_TXN}", transactions.Metadata.as_view()),
    path("slowTransactions/<int:timeout>", transactions.SlowTransactions.as_view()),
    path(f"abortTransaction/{_TXN}", transactions.Abort.as_view()),
    path(f"transactionInBufferStats/{_TOPIC}/{_TXN}", transactions.InBuffer.as_view()),
    path(f"transactionBufferStats/{_TOPIC}", partitions.TransactionBuffer.as_view()),
    path(
        f"transactionBufferInternalStats/{_TOPIC}", partitions.TransactionBufferInternal.as_view()
    ),
    path(f"pendingAckInternalStats/{_SUBSCRIPTION}", subscriptions.PendingAckInternal.as_view()),
    path(f"pendingAckStats/{_SUBSCRIPTION}", subscriptions.PendingAck.as_view()),
    path(
        f"transactionInPendingAckStats/{_SUBSCRIPTION}/{_TXN}",
        subscriptions.InPendingAck.as_view(),
    ),
    path(
        f"positionStatsInPendingAck/{_SUBSCRIPTION}/<int:ledger>/<int:entry>",
        subscriptions.PositionInPendingAck.as_view(),
    ),
]
