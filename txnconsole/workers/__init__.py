"""Background work: Celery tasks (``tasks``) and their schedule (``schedule``).

Every task asks the engine what is due and does that, so it may run at any time, twice, or on two
workers at once. The queue holds wake-ups only and no record: losing it costs at most the time to
the next periodic run. A worker that dies in the middle leaves transactions COMMITTING or ABORTING,
and the next sweep drives them on.
"""

from __future__ import annotations
