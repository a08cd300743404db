"""The state of the whole system in a few figures, for the overview and its channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from engine import Engine
from engine.inspect.blockers import HeldBack
from engine.model.errors import EngineError
from engine.model.transaction import CoordinatorStats, Load
from engine.model.txn_status import TxnStatus
from txnconsole.console.live.feed import digest
from txnconsole.console.reads import Region, region
from txnconsole.quantities import duration, percent, rate
from txnconsole.trends.reading import Rates, rates

#: How many held-back partitions are read and counted.
HELD_BACK_LIMIT = 100
#: Rates older than this, because no worker samples them, are not shown.
RATES_HOLD = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What was read of the system; when a part cannot be read, the others still are."""

    load: Region[Load]
    held_back: Region[HeldBack]
    #: Those of the last minute that a worker has sampled; None before the first one.
    rates: Rates | None = None
    #: Databases that could not be reached, with the reason.
    unreachable: Mapping[str, str] = field(default_factory=dict)

    @property
    def coordinators(self) -> tuple[CoordinatorStats, ...]:
        """All of them; none when they could not be read."""
        return self.load.value.coordinators if self.load.value else ()

    @property
    def figures(self) -> dict[str, int | str | None]:
        """The figures by the names that the page's elements have: numbers, or text with a unit;
        None when unknown."""
        load = self.load.value
        held = self.held_back.value
        figures: dict[str, int | str | None] = {
            "open": None if load is None else load.live[TxnStatus.OPEN],
            "committing": None if load is None else load.live[TxnStatus.COMMITTING],
            "aborting": None if load is None else load.live[TxnStatus.ABORTING],
            "held": None if held is None else len(held.partitions),
        }
        return (
            figures
            | dict.fromkeys(("committed_rate", "aborted_rate", "abort_share", "p99"))
            | self._rate_figures()
        )

    def _rate_figures(self) -> dict[str, str]:
        if self.rates is None or self.rates.age >= RATES_HOLD:
            return {}
        return {
            "committed_rate": rate(self.rates.committed_per_s),
            "aborted_rate": rate(self.rates.aborted_per_s),
            "abort_share": percent(self.rates.abort_share),
            "p99": duration(self.rates.p99_ms),
        }

    @property
    def position(self) -> str:
        """A digest of everything that the page shows, except for ages."""
        return digest(
            self.figures,
            [
                [
                    str(status.partition),
                    status.stable_position,
                    status.last_offset,
                    status.blocker and str(status.blocker.txn_id),
                ]
                for status in (self.held_back.value.partitions if self.held_back.value else ())
            ],
            sorted(self.unreachable),
        )


def issued(stats: tuple[CoordinatorStats, ...]) -> int:
    """How many transactions were ever opened. Sequences count from 0 without a gap, and are -1 in a
    coordinator that has issued none."""
    return sum(coordinator.sequence + 1 for coordinator in stats)


def read_summary(engine: Engine) -> Summary:
    """Read the system once; databases are probed only when one of the reads failed."""
    load = region(engine.coordinator.load)
    held_back = region(lambda: engine.inspect.held_back(HELD_BACK_LIMIT))
    failed = any(part.error for part in (load, held_back))
    if failed:
        unreachable = _unreachable(engine)
    else:
        unreachable = held_back.value.unavailable if held_back.value else {}
    return Summary(
        load=load,
        held_back=held_back,
        rates=rates(),
        unreachable=unreachable,
    )


def _unreachable(engine: Engine) -> dict[str, str]:
    try:
        return {name: error for name, error in engine.ping().items() if error is not None}
    except EngineError as error:
        return {"engine": error.message}
