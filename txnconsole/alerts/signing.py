"""How a webhook proves that it comes from here (docs/alerts.md shows the receiver's side).

The signature is ``HMAC-SHA256(secret, "<timestamp>.<body>")``, in hexadecimal digits after ``v1=``.
The timestamp is signed too, so that nobody can replay an old message to a receiver that refuses old
timestamps.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

ID_HEADER = "Txnconsole-Id"
TIMESTAMP_HEADER = "Txnconsole-Timestamp"
SIGNATURE_HEADER = "Txnconsole-Signature"
#: Seconds that a receiver should allow between the timestamp and its own clock.
REPLAY_WINDOW_SECONDS = 300

_PREFIX = "txs_"


def new_secret() -> str:
    """A new secret of 256 random bits, as text."""
    return _PREFIX + secrets.token_urlsafe(32)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The value of the signature header for a body sent at a Unix time in seconds."""
    signed = b"%d.%b" % (timestamp, body)
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
