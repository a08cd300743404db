"""The limits of requests, in bytes, milliseconds or items. The answer to a request above a limit
names the limit."""

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
#: How many entries of the audit log one call verifies.
AUDIT_ENTRIES = 20_000

#: How long a call may wait for something to happen.
WAIT_MS = 30_000
