"""What web processes and workers tell each other through Redis: wake-ups, a heartbeat, requests
made, and counts of refused acknowledgements.

Nothing here is a record. When Redis is gone or flushed, callers go on (a wake-up is a hint, the
periodic sweep makes it good) and ``workers_seen`` answers that it cannot know.
"""

from __future__ import annotations
