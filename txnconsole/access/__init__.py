"""Who may do what: users, roles, tokens.

A console user's roles are Django groups of the same names; a program's roles are those of its
token. Both become a :class:`~txnconsole.access.principal.Principal`, which is all that the API and
the console look at. The owner of a transaction is the name of the principal that opened it, so a
program may use several tokens of one user for one transaction.

States of a token: valid, expired (``expires_at`` has passed by the database's clock), revoked
(``revoked_at`` is set), or disabled together with its user. Only a valid token authenticates, and a
process notices a change within :data:`~txnconsole.access.tokens.CACHE_SECONDS`.

Invariants: a secret is never stored, only its SHA-256; a token never grants more than its roles and
its topic patterns. A crash leaves nothing behind: each change is one SQL transaction.
"""

from __future__ import annotations
