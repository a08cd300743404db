"""What each kind of job does with its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from txnconsole.jobs.bulk_abort import BULK_ABORT, abort_items
from txnconsole.jobs.models import Job, JobItem
from txnconsole.jobs.results import ItemResult

#: Carries out a step: a result for each item, in their order. It may be called again with the
#: same items. What it raises leaves all of them to be tried again.
CarryOut = Callable[[Job, Sequence[JobItem]], list[ItemResult]]

KINDS: Mapping[str, CarryOut] = {BULK_ABORT: abort_items}
