"""How the system went over time: a small series of samples that a worker keeps.

Purpose: the overview's charts and rates, and what each owner's transactions held back, without a
scan of any history and across restarts.

Contents: a sample for each :data:`FINE` (10 s) span of the last hours and for each :data:`COARSE`
(5 min) span of the last week. Ends of transactions and their durations are counted from the
coordinators' records, so a worker that was away makes them good when it is back (up to
:data:`CATCH_UP`). What only the moment knows (how many are open, what is held back) is null in
spans in which no worker looked.

Invariants:
- One run at a time counts: a run claims its moment by a compare-and-set, so two workers never
  count an owner's cost twice.
- A span's ends are replaced by a new count, never added to and never by a lower one: repeating a
  run changes nothing, nor does one that comes late.

A crash within a run loses that run's look at the moment (five seconds of it); the next one counts
the ends again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

FINE, COARSE = timedelta(seconds=10), timedelta(minutes=5)
#: How long samples of either width are kept.
FINE_KEPT, COARSE_KEPT = timedelta(hours=3), timedelta(days=8)
#: How far back a worker that was away counts ends again.
CATCH_UP = timedelta(hours=2)
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


def span_of(at: datetime, width: timedelta) -> datetime:
    """The beginning of the span that a moment is in; spans are those of PostgreSQL's ``date_bin``
    from 2020 on."""
    return at - (at - _EPOCH) % width
