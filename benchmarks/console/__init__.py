"""Every page of the console over a system at size: ``make bench-console``.

Targets of design/quality.md: 100 ms of the server's time, 12 questions to databases, and 250 kB
without the plot library, with 10^6 transactions and 10^4 partitions behind the page. And what a
browser makes of each: ``make bench-browser``.
"""

from __future__ import annotations
