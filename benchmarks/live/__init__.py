"""What open pages cost while the demo runs: ``make bench-live``.

Budgets of design/console.md §7: long tasks, the main thread's share of a core, live frames, and 400
streams of one web process. Times are of Chromium in software rendering, beside the product and its
demo on the same machine: they are reported, and decide no test.
"""

from __future__ import annotations
