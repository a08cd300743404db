"""What a request may ask for; bytes, milliseconds, items. An answer to one above names it."""

from __future__ import annotations

MEBIBYTE = 1024 * 1024

#: The body of a produce call: a full batch of the engine in base64, with keys and properties.
PRODUCE_BODY_BYTES = 24 * MEBIBYTE
#: The body of any other call.
BODY_BYTES = MEBIBYTE

BATCH_MESSAGES = 10_000
PAGE_ITEMS = 500
FETCH_MESSAGES = 10_000
FETCH_BYTES = 16 * MEBIBYTE
RECEIVE_MESSAGES = 10_000
ACK_MESSAGES = 10_000
GROUP_TRANSACTIONS = 10_000
#: Entries of the audit log that one call verifies.
AUDIT_ENTRIES = 20_000

#: How long a call may wait for something to happen.
WAIT_MS = 30_000
