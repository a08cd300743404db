"""Moving the batches of sealed segments out of the brokers into Parquet files, for good
(docs/decisions/0024).

States of a segment
    sealed, below the stable position: due, once it is old enough.
    written: a file ``<id>.parquet`` stands in the directory, verified; nothing names it.
    offloaded: the broker has a row in ``broker.offloaded_segment``, and references in the place of
    the batches. Both came in one SQL transaction, which compared the segment with the file.
    dropped: retention, truncation or deletion took the segment's row, and the file's with it.

Invariants
    A file is named by its broker only after it has been written, synced and read back.
    A file never changes; no two writers ever write one file, as each takes an id of its own.
    A file that a broker names is never deleted; one that none names is, a day later.

What a crash leaves behind
    Before the SQL transaction: a file, or a part of one, that nobody names. After it: a complete
    segment. Running the job again goes on from there.
"""

from __future__ import annotations
