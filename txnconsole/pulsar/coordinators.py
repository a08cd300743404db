"""Coordinators as Pulsar's admin API shows and grows them."""

from __future__ import annotations

from rest_framework.exceptions import NotAcceptable

from engine.model.errors import InvalidRequest
from engine.model.transaction import CoordinatorStats
from engine.model.txn_id import MAX_TC_ID, TxnID
from txnconsole.access.requests import django_request
from txnconsole.access.roles import Permission
from txnconsole.api.operation import Call, NoQuery, Shape, operation
from txnconsole.enginedb.wiring import engine
from txnconsole.operations.coordinators import scale
from txnconsole.pulsar.answers import (
    ManagedLedger,
    ManagedLedgerStats,
    TransactionCoordinatorInfo,
    TransactionCoordinatorInternalStats,
    TransactionCoordinatorStats,
)
from txnconsole.pulsar.endpoint import PulsarEndpoint
from txnconsole.pulsar.names import REASON, epoch_ms
from txnconsole.pulsar.queries import OfCoordinator, WithMetadata


class Coordinators(PulsarEndpoint):
    @operation(
        "pulsarCoordinators",
        Permission.COORDINATOR_READ,
        Shape(),
        summary="Pulsar: coordinators",
    )
    def get(self, call: Call[None, NoQuery]) -> list[TransactionCoordinatorInfo]:
        """All coordinators; each is reached at the address that was asked."""
        address = django_request(call.request).build_absolute_uri("/")
        return [
            TransactionCoordinatorInfo(id=each.tc_id, broker_service_url=address)
            for each in engine().coordinator.stats()
        ]


class Stats(PulsarEndpoint):
    @operation(
        "pulsarCoordinatorStats",
        Permission.COORDINATOR_READ,
        Shape(query=OfCoordinator),
        summary="Pulsar: coordinatorStats",
    )
    def get(
        self, call: Call[None, OfCoordinator]
    ) -> TransactionCoordinatorStats | dict[str, TransactionCoordinatorStats]:
        """One coordinator's counters, or those of all by id."""
        wanted = call.query.coordinator_id
        if wanted is not None:
            return _stats(engine().coordinator.stats_of(wanted))
        return {str(each.tc_id): _stats(each) for each in engine().coordinator.stats()}


class InternalStats(PulsarEndpoint):
    @operation(
        "pulsarCoordinatorInternalStats",
        Permission.COORDINATOR_READ,
        Shape(query=WithMetadata, answer=TransactionCoordinatorInternalStats),
        summary="Pulsar: coordinatorInternalStats",
    )
    def get(self, call: Call[None, WithMetadata]) -> TransactionCoordinatorInternalStats:
        """Where the coordinator's newest transaction stands in the transaction log."""
        tc_id = self.kwargs["coordinator_id"]
        stats = engine().coordinator.stats_of(tc_id)
        newest = f"{tc_id}:{_newest_record(stats)}"
        return TransactionCoordinatorInternalStats(
            transaction_log_stats=ManagedLedger(
                managed_ledger_name=f"pulsar/system/persistent/__transaction_log_{tc_id}",
                managed_ledger_internal_stats=ManagedLedgerStats(
                    state="LedgerOpened", last_confirmed_entry=newest
                ),
            )
        )


class Replicas(PulsarEndpoint):
    @operation(
        "pulsarScaleTransactionCoordinators",
        Permission.COORDINATOR_SCALE,
        Shape(body=int),
        summary="Pulsar: transactionCoordinator/replicas",
    )
    def post(self, call: Call[int, NoQuery]) -> None:
        """Grow the number of coordinators to the body, a bare number; 406 unless it is greater than
        the number that there are."""
        try:
            # What there is already is done for the engine, but not for Pulsar.
            scale(self.actor(), call.body, REASON, must_grow=True)
        except InvalidRequest as error:
            if call.body > MAX_TC_ID + 1:
                raise
            raise NotAcceptable(error.message) from error


def _stats(stats: CoordinatorStats) -> TransactionCoordinatorStats:
    return TransactionCoordinatorStats(
        state=stats.state,
        least_sig_bits=max(0, stats.sequence),
        low_water_mark=stats.low_water_mark,
        ongoing_txn_size=stats.ongoing_txns,
        recover_start_time=epoch_ms(stats.recover_started_at),
        recover_end_time=epoch_ms(stats.recover_ended_at),
    )


def _newest_record(stats: CoordinatorStats) -> int:
    if stats.sequence < 0:
        return -1
    log = engine().coordinator.log(TxnID(stats.tc_id, stats.sequence))
    return log[-1].log_id if log else -1  # Without any its records have been archived.
