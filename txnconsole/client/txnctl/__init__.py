"""``txnctl``: the command line of operators and programs, over the REST contract.

``TXNCONSOLE_URL`` and ``TXNCONSOLE_TOKEN`` (or ``--url``, ``--token``) say where and who. Tables
for people; ``--output json`` prints the contract's answers as one JSON value, of ``tail`` and
``consume`` one a line.

Exit codes
    0 done · 1 the server failed · 2 the command or the request is malformed · 3 no such thing ·
    4 not allowed · 5 a conflict with what is there · 6 a limit · 7 unavailable, try again ·
    130 interrupted.
"""

from __future__ import annotations
