"""A transaction that this client has opened (PIP-31, "Transaction API")."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from txnconsole.client import arguments, calls
from txnconsole.client.answers import TransactionInfo
from txnconsole.client.blocking import Block, Method
from txnconsole.client.errors import (
    InvalidTxnStatus,
    TransactionAborted,
    TransactionEnded,
    TxnConsoleError,
)
from txnconsole.client.heartbeat import Heartbeat
from txnconsole.client.transport import Transport


class Participant(Protocol):
    """A producer that may have collected messages of the transaction without sending them yet."""

    transport: Transport

    async def flush_transaction(self, txn_id: str) -> None: ...

    async def discard_transaction(self, txn_id: str) -> None: ...


class OpenTransaction(Protocol):
    """What producers and consumers need of a transaction, synchronous or not."""

    @property
    def txn_id(self) -> str: ...

    def require_open(self) -> None: ...

    def enlist(self, participant: Participant) -> None: ...

    def fail(self, error: BaseException) -> None: ...


class AsyncTransaction:
    """An open transaction. As a context manager it commits, or aborts when anything failed.

    When an operation in it has failed, it can only be aborted, even if the program caught the
    exception: a commit would publish part of what was meant. Operations in it may run at the same
    time; the commit must come after all of them have ended.

    Attributes:
        info: the transaction as the server last described it.
    """

    def __init__(
        self, transport: Transport, info: TransactionInfo, *, heartbeat: float | None = None
    ) -> None:
        """``heartbeat``: how many seconds ahead each beat moves the deadline; None for no beats."""
        self._transport = transport
        self._participants: list[Participant] = []
        self._failure: BaseException | None = None
        self._ended = False
        self.info = info
        self._heartbeat = Heartbeat(transport, self, heartbeat) if heartbeat is not None else None

    @property
    def txn_id(self) -> str:
        return self.info.txn_id

    async def commit(self, *, wait: float = 0.0) -> TransactionInfo:
        """Flush its producers, then commit, and wait ``wait`` seconds at most for COMMITTED.

        It returns once COMMITTING is durable, which decides the transaction. When it is cancelled
        or interrupted before, it aborts the transaction, unless the commit has been recorded.

        Raises:
            TransactionAborted: one of its operations had failed, or it was to be aborted before;
                so it has been aborted.
            InvalidTxnStatus: it has been aborted, by its deadline or by an operator.
            Unreachable: no answer came; ``client.transactions.outcome`` tells the outcome later.
        """
        try:
            return await self._commit(wait)
        except TxnConsoleError:
            raise
        except BaseException as error:  # Left open, it would hold readers back.
            await self._give_up(error)
            raise

    async def _commit(self, wait: float) -> TransactionInfo:
        if self._failure is None and not self._ended:
            await self._flush()
        await self._stop_heartbeat()
        if self._failure is not None:
            await self.abort(reason=f"an operation failed: {type(self._failure).__name__}")
            raise TransactionAborted(
                f"Transaction {self.txn_id} is aborted, because one of its operations failed:"
                f" {self._failure}"
            ) from self._failure
        self._ended = True
        self.info = await self._transport.poll(
            lambda wait_ms: calls.commit(self.txn_id, wait_ms=wait_ms),
            wait=wait,
            done=TransactionInfo.has_ended,
            decides=True,
        )
        return self.info

    async def abort(self, reason: str = "", *, wait: float = 0.0) -> TransactionInfo:
        """Abort, and wait ``wait`` seconds at most for ABORTED. When it is cancelled or interrupted
        before, the abort is sent once more, and nobody waits for its answer.

        Raises:
            InvalidTxnStatus: it has been committed.
        """
        # What is discarded here would be missing in a commit that comes after a failed abort.
        self.fail(TransactionEnded("its abort was asked for before."))
        self._ended = True
        try:
            return await self._abort(reason, wait)
        except Exception:
            raise
        except BaseException:  # Left open, it would hold readers back.
            await self._transport.last_word(calls.abort(self.txn_id, reason=reason, wait_ms=0))
            raise

    async def _abort(self, reason: str, wait: float) -> TransactionInfo:
        await self._stop_heartbeat()
        for participant in self._participants:
            await participant.discard_transaction(self.txn_id)
        self.info = await self._transport.poll(
            lambda wait_ms: calls.abort(self.txn_id, reason=reason, wait_ms=wait_ms),
            wait=wait,
            done=TransactionInfo.has_ended,
            decides=True,
        )
        return self.info

    async def extend(self, timeout: float) -> TransactionInfo:
        """Move the deadline to now + ``timeout`` seconds, up to the server's maximum.

        Raises:
            TransactionEnded: it has been committed or aborted here.
        """
        self.require_open()
        timeout_ms = arguments.milliseconds("timeout", timeout)
        call = calls.extend(self.txn_id, timeout_ms=timeout_ms)
        self.info = await self._transport.perform(call)
        return self.info

    def require_open(self) -> None:
        """Check that it has not been committed or aborted by this object.

        Raises:
            TransactionEnded: it has.
        """
        if self._ended:
            status = self.info.status
            told = "to be ended" if status == "OPEN" else status
            raise TransactionEnded(
                f"Transaction {self.txn_id} is {told}; it takes nothing more.",
                data={"current_status": status},
            )

    def enlist(self, participant: Participant) -> None:
        """Have a producer flush before the commit, and discard its messages on an abort.

        Raises:
            ValueError: the producer is of the other kind of client (synchronous, asynchronous).
        """
        kinds = type(self._transport.runtime), type(participant.transport.runtime)
        if kinds[0] is not kinds[1]:
            raise ValueError(
                "A transaction of a Client and a producer of an AsyncClient cannot work together."
            )
        if participant not in self._participants:
            self._participants.append(participant)

    def fail(self, error: BaseException) -> None:
        """Let it only be aborted, because an operation in it failed with ``error``."""
        if not self._ended:
            self._failure = self._failure or error

    async def _flush(self) -> None:
        try:
            for participant in self._participants:
                await participant.flush_transaction(self.txn_id)
        except TxnConsoleError as error:
            self.fail(error)

    async def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            await self._heartbeat.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if error is None:
            await self.commit()
            return
        await self._give_up(error)

    async def _give_up(self, error: BaseException) -> None:
        self.fail(error)
        try:
            await self.abort(reason=f"the client failed: {type(error).__name__}")
        except InvalidTxnStatus:
            pass  # It has been committed.
        except Exception as second:
            error.add_note(
                f"Transaction {self.txn_id} could not be aborted either ({second});"
                " it is aborted at its deadline."
            )


class Transaction(Block[AsyncTransaction]):
    __doc__ = AsyncTransaction.__doc__

    commit = Method(AsyncTransaction.commit)
    abort = Method(AsyncTransaction.abort)
    extend = Method(AsyncTransaction.extend)

    @property
    def txn_id(self) -> str:
        return self.core.txn_id

    @property
    def info(self) -> TransactionInfo:
        return self.core.info

    def require_open(self) -> None:
        self.core.require_open()

    def enlist(self, participant: Participant) -> None:
        self.core.enlist(participant)

    def fail(self, error: BaseException) -> None:
        self.core.fail(error)


def id_of(txn: OpenTransaction | None) -> str | None:
    """The id of the transaction that an operation is to be in; None outside transactions.

    Raises:
        TypeError: it is not a transaction.
        TransactionEnded: it has been committed or aborted by this client.
    """
    if txn is None:
        return None
    if not hasattr(txn, "require_open"):
        raise arguments.wrong_type("txn", "a transaction of this client, or None", txn)
    txn.require_open()
    return txn.txn_id
