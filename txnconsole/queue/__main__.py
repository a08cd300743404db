"""``python -m txnconsole.queue``: exit code 0 while workers carry out what beat asks for.

The health check of worker and beat, which serve no address of their own.
"""

from __future__ import annotations

import os
import sys

from txnconsole.queue.heartbeat import workers_seen


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "txnconsole.settings")
    return 0 if workers_seen() else 1


if __name__ == "__main__":
    sys.exit(main())
