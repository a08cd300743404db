"""How many transactions one bulk abort from the console may take (design/console.md §4).

Fewer than a job of the REST API may: whoever clicks is shown the effect of all of them at once.
"""

from __future__ import annotations

from txnconsole.access.principal import Principal
from txnconsole.access.roles import Permission, Role

OPERATORS_MOST, ADMINS_MOST = 100, 1_000


def most_at_once(principal: Principal) -> int:
    """The limit for a principal; 0 for one that may not abort the transactions of others."""
    if not principal.may(Permission.TRANSACTION_ABORT_ANY):
        return 0
    return ADMINS_MOST if Role.ADMIN in principal.roles else OPERATORS_MOST
