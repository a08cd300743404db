"""The client's errors: one class for each error code of the contract (design/api.md), and a few
that the client raises itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class TxnConsoleError(Exception):
    """The server refused a call, or the call could not be made.

    Attributes:
        code: the contract's stable name of the error. Catch a subclass rather than compare it.
        status: the HTTP status, or None when there was no answer.
        retry_after: the seconds after which the server suggests another attempt, or None.
        data: the other members of the problem document, such as ``current_status``.
    """

    code: str = "TxnConsoleError"
    _by_code: ClassVar[dict[str, type[TxnConsoleError]]] = {}

    def __init_subclass__(cls) -> None:
        cls.code = cls.__name__
        TxnConsoleError._by_code[cls.code] = cls

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.data = dict(data or {})

    @classmethod
    def of_problem(
        cls, problem: Mapping[str, Any], *, status: int, retry_after: float | None
    ) -> TxnConsoleError:
        """Build the error that a problem document (RFC 9457) names by its ``code``."""
        code: str = problem["code"]
        message = problem.get("detail") or problem.get("title") or code
        data = {key: value for key, value in problem.items() if key not in _STANDARD_MEMBERS}
        kind = cls._by_code.get(code, TxnConsoleError)
        error = kind(str(message), status=status, retry_after=retry_after, data=data)
        error.code = code
        return error


_STANDARD_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "instance"})


class Unreachable(TxnConsoleError):
    """No answer came: the server cannot be reached, or the connection broke.

    ``maybe_sent`` tells whether the server may have carried out the request nevertheless.
    """

    def __init__(self, message: str, *, maybe_sent: bool = True) -> None:
        # The default is for unpickling, which gives the message first, then all the rest.
        super().__init__(message)
        self.maybe_sent = maybe_sent


class TLSFailed(TxnConsoleError):
    """No secure connection could be made: the server's certificate is not trusted, or it speaks no
    TLS. Nothing was sent, and another attempt would fail as well."""


class UnexpectedAnswer(TxnConsoleError):
    """An answer that the contract does not know, such as a proxy's error page."""


class TransactionAborted(TxnConsoleError):
    """The transaction was aborted by this client because one of its operations failed."""


class ClientClosed(TxnConsoleError):
    """The client has been closed, was made before a fork in the other process, or is used in
    another event loop; nothing was sent."""


class ProducerClosed(TxnConsoleError):
    """The producer has been closed; the message was not taken."""


class NotAuthenticated(TxnConsoleError):
    """The token is missing, wrong, expired or revoked."""


class PermissionDenied(TxnConsoleError):
    """The token's role or its topic pattern does not allow this."""


class InvalidRequest(TxnConsoleError):
    """The request is malformed; ``data["errors"]`` names each field."""


class PayloadTooLarge(TxnConsoleError):
    """The message, the batch or the body is above its limit."""


class LimitExceeded(TxnConsoleError):
    """Too many open transactions, requests or kept answers."""


class TimeLimitExceeded(TxnConsoleError):
    """The server gave up the call after ``data["limit_ms"]``; it may have been carried out."""


class TransactionNotFound(TxnConsoleError):
    """No such transaction, or another principal's."""


class InvalidTxnStatus(TxnConsoleError):
    """The transaction's status does not allow this. ``data["current_status"]`` is that status,
    ``data["end_reason"]`` tells why it ended."""


class TransactionEnded(InvalidTxnStatus):
    """This client has committed or aborted the transaction already; nothing was sent."""


class TransactionConflict(TxnConsoleError):
    """The acknowledgement meets another transaction's; ``data["conflicts"]`` names them."""


class NotFound(TxnConsoleError):
    """There is nothing at this address: the server is older than the client, or another."""


class CoordinatorNotFound(TransactionNotFound):
    """No such coordinator, hence no transaction of it."""


class CoordinatorUnavailable(TxnConsoleError):
    """The coordinators' database cannot be reached."""


class TopicNotFound(TxnConsoleError):
    """No such topic."""


class TopicConflict(TxnConsoleError):
    """The topic exists with settings that the request would change; ``data["differences"]`` has
    each ``setting``, the value that it ``has`` and the one that was ``wanted``."""


class TopicInUse(TxnConsoleError):
    """A transaction holds the topic or subscription."""


class PartitionNotFound(TxnConsoleError):
    """The topic has no such partition."""


class PartitionUnavailable(TxnConsoleError):
    """The partition is offline, recovering, or its broker cannot be reached."""


class SegmentUnreadable(TxnConsoleError):
    """Messages cannot be read back: what they stand in is missing or damaged. Of a file that they
    were offloaded to, ``data["file"]`` is the name."""


class LogTruncated(TxnConsoleError):
    """The log's end has been cut off below what the reader has read, or the topic was deleted and
    made anew. What was read at ``data["truncated_to"]`` and above is no longer in the log; the
    reader goes on there, with what has taken its place."""


class InvalidPartitionState(TxnConsoleError):
    """The partition's state does not allow this, such as truncating one that is online."""


class SubscriptionNotFound(TxnConsoleError):
    """The topic has no such subscription."""


class SubscriptionConflict(TxnConsoleError):
    """The subscription exists with another value of a setting that was given;
    ``data["differences"]`` as TopicConflict's."""


class ConsumerBusy(TxnConsoleError):
    """Another consumer is the active one of this subscription."""


class IdempotencyKeyReused(TxnConsoleError):
    """The Idempotency-Key has been used for another call."""


class IdempotencyKeyInUse(TxnConsoleError):
    """The same call is under way on another connection; a later repetition gets its answer."""


class AnswerNotKept(TxnConsoleError):
    """The call was carried out when it was first made, but its answer is not kept any more."""


class MessageNotFound(TxnConsoleError):
    """No such message."""


class ProducerFenced(TxnConsoleError):
    """A newer instance of the producer has taken over."""


class SequenceOutOfOrder(TxnConsoleError):
    """The sequence id is below the producer's last one, and not that of a known duplicate."""


class CountChanged(TxnConsoleError):
    """A bulk abort's filter matches another number than expected: ``data["count"]``."""


class JobNotFound(TxnConsoleError):
    """No such background job."""


class InvalidJobState(TxnConsoleError):
    """The job has ended; ``data["current_state"]`` tells how."""


class RunNotFound(TxnConsoleError):
    """No such pipeline run."""


class InvalidRunState(TxnConsoleError):
    """The pipeline run's state does not allow this; ``data["current_state"]`` tells it."""


class AlertNotFound(TxnConsoleError):
    """No such alert."""


class AlertRuleNotFound(TxnConsoleError):
    """No such rule of alerts."""


class AlertSilenceNotFound(TxnConsoleError):
    """No such silence."""


class AlertChannelNotFound(TxnConsoleError):
    """No such channel of alerts."""


class AlertMessageNotFound(TxnConsoleError):
    """No such message of a channel."""


class AlertConflict(TxnConsoleError):
    """The state of the alert, or a name that is taken, does not allow it."""


class UserNotFound(TxnConsoleError):
    """No such user."""


class MaskingRuleNotFound(TxnConsoleError):
    """No such masking rule."""


class TokenNotFound(TxnConsoleError):
    """No such token."""


class MethodNotAllowed(TxnConsoleError):
    """The path does not allow the method."""


class NotAcceptable(TxnConsoleError):
    """The answer cannot be given in a media type that was asked for."""


class UnsupportedMediaType(TxnConsoleError):
    """The body's media type is not understood at this path."""


class InternalError(TxnConsoleError):
    """The server failed because of a bug; its log tells more."""
