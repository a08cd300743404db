"""The addresses below ``/transactions``."""

from __future__ import annotations

from django.urls import path

from txnconsole.console.views import (
    abort,
    bulk_aborts,
    hanging,
    saved_views,
    timeouts,
    transaction,
    transaction_document,
    transaction_exports,
    transactions,
)

_ONE = "<txn:txn_id>"

urlpatterns = [
    path("rows", transactions.rows, name="transaction-rows"),
    path("count", transactions.count, name="transactions-count"),
    path("suggestions", transactions.suggestions, name="transaction-suggestions"),
    path("export.<file:form>", transaction_exports.export, name="transactions-export"),
    path("views", saved_views.counted, name="transaction-views"),
    path("views/keep", saved_views.keep, name="keep-view"),
    path("views/<int:view_id>/forget", saved_views.forget, name="forget-view"),
    path("bulk", bulk_aborts.bulk_aborts, name="bulk-aborts"),
    path("bulk/new", bulk_aborts.bulk_abort_dialog, name="bulk-abort"),
    path("bulk/<int:job_id>", bulk_aborts.bulk_job, name="bulk-job"),
    path("bulk/<int:job_id>/cancel", bulk_aborts.cancel_job, name="cancel-job"),
    path("hanging", hanging.hanging, name="hanging"),
    path("timeouts", timeouts.timeouts, name="timeouts"),
    path("document", transaction_document.read_file, name="transaction-document"),
    path(_ONE, transaction.transaction, name="transaction"),
    path(f"{_ONE}/bundle.json", transaction_exports.bundle, name="transaction-bundle"),
    path(f"{_ONE}/abort", abort.abort, name="abort"),
    path(f"{_ONE}/retry", hanging.retry, name="retry-transaction"),
    path(f"{_ONE}/force-abort", hanging.force_abort, name="force-abort"),
    path(f"{_ONE}/timeline", transaction.timeline, name="transaction-timeline"),
    path(f"{_ONE}/lineage", transaction.lineage, name="transaction-lineage"),
    path(f"{_ONE}/participants", transaction.participants, name="transaction-participants"),
    path(f"{_ONE}/conflicts", transaction.conflicts, name="transaction-conflicts"),
    path(f"{_ONE}/messages", transaction.messages, name="transaction-messages"),
    path(f"{_ONE}/audit", transaction.audited, name="transaction-audit"),
]
