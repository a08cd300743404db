"""Writing down who was refused, and reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import islice

import structlog
from django.db import DatabaseError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from engine.model.errors import TransactionConflict
from engine.model.topic_name import SubscriptionName
from engine.model.txn_id import TxnID
from engine.postgres import deadlines
from txnconsole.refusals.models import Refusal

#: How long a refusal is kept after its last repetition, and how many old ones one call deletes.
KEPT = timedelta(days=2)
_DELETED = 100
#: Rows that one refusal writes at most: a caller that is refused waits for each of them.
_HOLDERS = 10
#: PostgreSQL's text holds no NUL; names come from programs.
_NUL = "\N{REPLACEMENT CHARACTER}"

_log = structlog.get_logger(__name__)


def record(
    name: SubscriptionName,
    conflict: TransactionConflict,
    *,
    refused: TxnID,
    consumer: str,
    who: str,
) -> None:
    """Write a refusal down, a row for each of the first holders that the conflict names in a
    partition."""
    conflicts = conflict.data.get("conflicts")
    if not isinstance(conflicts, list):
        return
    lowest: dict[tuple[int, str], int] = {}
    for each in conflicts:
        lowest.setdefault((each["partition"], str(each["txn_id"] or "")), each["offset"])
    seen = {"consumer": consumer.replace("\0", _NUL), "who": who.replace("\0", _NUL)}
    try:
        with deadlines.lifted():
            for (partition, holder), offset in islice(lowest.items(), _HOLDERS):
                key = {
                    "subscription": str(name),
                    "partition": partition,
                    "holder": holder,
                    "refused": str(refused),
                }
                _write(key, seen | {"first_offset": offset})
    except DatabaseError as error:
        _log.warning("refusal not recorded", subscription=str(name), reason=type(error).__name__)


def newest(name: SubscriptionName, limit: int) -> Sequence[Refusal]:
    """Refusals of a subscription, the newest first."""
    return list(Refusal.objects.filter(subscription=str(name)).order_by("-last_at")[:limit])


def about(txn_id: TxnID, limit: int) -> Sequence[Refusal]:
    """Refusals of a transaction, and those for what it held, the newest first."""
    mine = Q(refused=str(txn_id)) | Q(holder=str(txn_id))
    return list(Refusal.objects.filter(mine).order_by("-last_at")[:limit])


def _write(key: Mapping[str, object], seen: Mapping[str, object]) -> None:
    again = Refusal.objects.filter(**key).update(times=F("times") + 1, last_at=Now(), **seen)
    if again:
        return
    with transaction.atomic():
        old = Refusal.objects.filter(last_at__lt=Now() - KEPT).order_by("last_at")
        Refusal.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:_DELETED])).delete()
        Refusal.objects.bulk_create([Refusal(**key, **seen)], ignore_conflicts=True)
