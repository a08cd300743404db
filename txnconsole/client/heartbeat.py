"""Keeping a long transaction open while its program runs."""

from __future__ import annotations

import logging
from typing import Protocol

from txnconsole.client import calls
from txnconsole.client.answers import TransactionInfo
from txnconsole.client.errors import TxnConsoleError
from txnconsole.client.retries import is_retryable
from txnconsole.client.runtime import Signal
from txnconsole.client.transport import Transport

_log = logging.getLogger(__name__)

#: Parts of a timeout between beats: two in a row may fail, the third comes before the deadline.
_BEATS = 4


class Extended(Protocol):
    """What a heartbeat needs of a transaction."""

    info: TransactionInfo

    @property
    def txn_id(self) -> str: ...

    def fail(self, error: BaseException) -> None: ...


class Heartbeat:
    """Moves a transaction's deadline to now + ``timeout`` seconds, at each quarter of ``timeout``.

    When a beat gets no answer by the time of the next one, that makes up for it. When the server
    refuses one, it is the last: somebody else has ended the transaction, and here it can only be
    aborted. When the program dies there are no more beats, and the transaction is aborted at its
    deadline.
    """

    def __init__(self, transport: Transport, txn: Extended, timeout: float) -> None:
        self._transport, self._txn, self._timeout = transport, txn, timeout
        self._work = transport.start(self._beat)

    async def stop(self) -> None:
        """Stop beating; returns when no beat is under way."""
        await self._work.stop()

    async def _beat(self, stopped: Signal) -> None:
        clock, interval = self._transport.runtime.clock, self._timeout / _BEATS
        timeout_ms = round(self._timeout * 1000)
        call = calls.extend(self._txn.txn_id, timeout_ms=timeout_ms, patience=interval)
        pause = interval
        while not await stopped.wait(pause):
            began = clock()
            try:
                self._txn.info = await self._transport.attempt(call)
            except Exception as error:  # Also of the program's own function that gives the token.
                if isinstance(error, TxnConsoleError) and not is_retryable(error, idempotent=True):
                    self._txn.fail(error)
                    return
                _log.info("Transaction %s was not extended: %s", self._txn.txn_id, error)
            pause = max(0.0, interval - (clock() - began))
