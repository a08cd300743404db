"""A transaction as its client holds it (PIP-31, "Transaction API")."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from txnconsole.client import calls
from txnconsole.client.answers import TransactionInfo
from txnconsole.client.errors import TransactionAborted, TxnConsoleError
from txnconsole.client.transport import Transport


class Participant(Protocol):
    """A producer that may hold messages of the transaction back."""

    def flush_transaction(self, txn: Transaction) -> None: ...

    def discard_transaction(self, txn: Transaction) -> None: ...


class Transaction:
    """An open transaction. As a context manager it commits, or aborts when anything failed.

    An operation that failed inside it, also one whose exception the program caught, leaves only
    an abort: a commit would publish part of what was meant. One thread at a time.

    Attributes:
        info: the transaction as the server last answered it.
    """

    def __init__(self, transport: Transport, info: TransactionInfo) -> None:
        self._transport = transport
        self._participants: list[Participant] = []
        self._failure: BaseException | None = None
        self._ended = False
        self.info = info

    @property
    def txn_id(self) -> str:
        return self.info.txn_id

    def commit(self, *, wait: float = 0.0) -> TransactionInfo:
        """Flush its producers, then commit; ``wait`` seconds at most for COMMITTED.

        Returns once COMMITTING is durable, which decides the transaction.

        Raises:
            TransactionAborted: one of its operations had failed; it is aborted.
            InvalidTxnStatus: it has been aborted, by its deadline or by an operator.
            Unreachable: no answer; its outcome can be asked for later.
        """
        if self._failure is None:
            self._flush()
        if self._failure is not None:
            self.abort(reason=f"an operation failed: {type(self._failure).__name__}")
            raise TransactionAborted(
                f"Transaction {self.txn_id} is aborted, because one of its operations failed:"
                f" {self._failure}"
            ) from self._failure
        self._ended = True
        self.info = self._transport.perform(calls.commit(self.txn_id, wait_ms=_ms(wait)))
        return self.info

    def abort(self, reason: str = "", *, wait: float = 0.0) -> TransactionInfo:
        """Abort; ``wait`` seconds at most for ABORTED.

        Raises:
            InvalidTxnStatus: it has been committed.
        """
        self._ended = True
        for participant in self._participants:
            participant.discard_transaction(self)
        call = calls.abort(self.txn_id, reason=reason, wait_ms=_ms(wait))
        self.info = self._transport.perform(call)
        return self.info

    def extend(self, timeout: float) -> TransactionInfo:
        """Move the deadline to now + ``timeout`` seconds, up to the server's maximum."""
        self.info = self._transport.perform(calls.extend(self.txn_id, timeout_ms=_ms(timeout)))
        return self.info

    def enlist(self, participant: Participant) -> None:
        """Have a producer flush before the commit, or forget on an abort."""
        if participant not in self._participants:
            self._participants.append(participant)

    def fail(self, error: BaseException) -> None:
        """Leave only an abort, because an operation in the transaction failed with ``error``."""
        self._failure = self._failure or error

    def _flush(self) -> None:
        try:
            for participant in self._participants:
                participant.flush_transaction(self)
        except TxnConsoleError as error:
            self.fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort(reason=f"the client failed: {type(error).__name__}")
        except TxnConsoleError as second:
            error.add_note(
                f"Transaction {self.txn_id} could not be aborted either ({second});"
                " it is aborted at its deadline."
            )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
