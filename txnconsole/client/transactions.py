"""Looking up, listing and ending transactions by their ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from txnconsole.client import calls
from txnconsole.client.answers import EndedGroup, TransactionInfo
from txnconsole.client.blocking import Blocking, Method, iterate
from txnconsole.client.transport import Transport


class AsyncTransactions:
    """Transactions by their id, for operators and for programs that lost an answer."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, txn_id: str) -> TransactionInfo:
        """The transaction with its participants.

        Raises:
            TransactionNotFound: there is none, or it is another principal's.
        """
        return await self._transport.perform(calls.get_transaction(txn_id))

    async def list(self, **filters: Any) -> AsyncGenerator[TransactionInfo, None]:
        """All transactions that match, fetched page by page; ``filters`` are the query parameters
        of the contract."""
        query = dict(filters)
        while True:
            page = await self._transport.perform(calls.list_transactions(query))
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    async def outcome(self, txn_id: str) -> str:
        """``COMMITTED``, ``ABORTED`` or ``UNDECIDED``; known for every id that was ever issued."""
        return (await self._transport.perform(calls.outcome(txn_id))).outcome

    async def commit(self, txn_id: str, *, wait: float = 0.0) -> TransactionInfo:
        """Commit, and wait ``wait`` seconds at most for COMMITTED.

        Raises:
            InvalidTxnStatus: it has been aborted.
        """
        return await self._transport.poll(
            lambda wait_ms: calls.commit(txn_id, wait_ms=wait_ms),
            wait=wait,
            done=TransactionInfo.has_ended,
            decides=True,
        )

    async def abort(self, txn_id: str, *, reason: str = "", wait: float = 0.0) -> TransactionInfo:
        """Abort, and wait ``wait`` seconds at most for ABORTED. An operator who aborts another's
        transaction must give a ``reason``.

        Raises:
            InvalidTxnStatus: it has been committed.
        """
        return await self._transport.poll(
            lambda wait_ms: calls.abort(txn_id, reason=reason, wait_ms=wait_ms),
            wait=wait,
            done=TransactionInfo.has_ended,
            decides=True,
        )

    async def end_group(
        self, group: str, *, guard: str, commit: Sequence[str] = (), abort: Sequence[str] = ()
    ) -> EndedGroup:
        """End several transactions by one atomic decision, made once under the group's name.

        Raises:
            ProducerFenced: another guard has decided this group.
            InvalidTxnStatus: one of them has been ended the other way; none is changed.
        """
        call = calls.end_group(group, guard=guard, commit=commit, abort=abort)
        return await self._transport.perform(call)


class Transactions(Blocking[AsyncTransactions]):
    __doc__ = AsyncTransactions.__doc__

    get = Method(AsyncTransactions.get)
    outcome = Method(AsyncTransactions.outcome)
    commit = Method(AsyncTransactions.commit)
    abort = Method(AsyncTransactions.abort)
    end_group = Method(AsyncTransactions.end_group)

    def list(self, **filters: Any) -> Iterator[TransactionInfo]:
        """All transactions that match, fetched page by page; ``filters`` are the query parameters
        of the contract."""
        return iterate(self.core.list(**filters))
