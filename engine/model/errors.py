"""What can go wrong, each with the stable code of the REST contract (design/api.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self


class EngineError(Exception):
    """The engine refused or failed. A subclass's docstring is its default message.

    Attributes:
        code: stable, machine-readable name.
        retryable: the same call may succeed later without any change.
        data: further fields for the answer; values are JSON types.
    """

    code: ClassVar[str] = "EngineError"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **data: object) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.data = data
        super().__init__(self.message)


class InvalidRequest(EngineError):
    """The request is malformed; ``data["errors"]`` names each field and what is wrong with it.

    Attributes:
        wrong: the same, what is wrong by the name of its field.
    """

    code = "InvalidRequest"

    def __init__(self, message: str, *, field: str | Mapping[str, str], **data: object) -> None:
        """Make an error about one field or several.

        Args:
            message: what is wrong with the request.
            field: the name of the field in the REST contract; ``""`` for the body as a whole. Or a
                mapping from several names to what is wrong with each.
        """
        self.wrong = {field: message} if isinstance(field, str) else field
        errors = [{"field": name, "message": text} for name, text in self.wrong.items()]
        super().__init__(message, errors=errors, **data)


class NotFound(EngineError):
    """There is none of what is named; each kind of thing has an error of its own."""

    code = "NotFound"


class PayloadTooLarge(EngineError):
    """The message, the batch or the body is above its limit."""

    code = "PayloadTooLarge"


class LimitExceeded(EngineError):
    """More is asked for than one may have at a time."""

    code = "LimitExceeded"
    retryable = True


class TimeLimitExceeded(EngineError):
    """The call was not done in time and has been given up."""

    code = "TimeLimitExceeded"
    retryable = True


class TransactionNotFound(NotFound):
    """No such transaction."""

    code = "TransactionNotFound"


class InvalidTxnStatus(EngineError):
    """The transaction's status does not allow this; ``current_status`` tells it, and ``end_reason``
    who has ended it, as far as that is known."""

    code = "InvalidTxnStatus"


class TransactionConflict(EngineError):
    """The acknowledgement meets another transaction's, or an acknowledged message."""

    code = "TransactionConflict"


class CoordinatorNotFound(TransactionNotFound):
    """No such coordinator, hence no transaction of it."""

    code = "CoordinatorNotFound"

    @classmethod
    def of(cls, tc_id: int) -> Self:
        """The error that names it."""
        return cls(f"There is no coordinator {tc_id}.")


class CoordinatorUnavailable(EngineError):
    """The coordinators' database cannot be reached; try again."""

    code = "CoordinatorUnavailable"
    retryable = True


class TopicNotFound(NotFound):
    """No such topic."""

    code = "TopicNotFound"


class TopicConflict(EngineError):
    """The topic exists with settings that this request would change; ``differences`` has each."""

    code = "TopicConflict"


class TopicInUse(EngineError):
    """A transaction holds the topic or subscription; end it first, or force."""

    # ``data["holders"]``: the ids of transactions that do, some of them where they are many.
    code = "TopicInUse"


class PartitionNotFound(NotFound):
    """The topic has no such partition."""

    code = "PartitionNotFound"


class PartitionUnavailable(EngineError):
    """The partition is offline, recovering, or its broker cannot be reached; try again."""

    code = "PartitionUnavailable"
    retryable = True


class BrokerUnavailable(PartitionUnavailable):
    """The partition's broker cannot be reached; try again."""


class SegmentUnreadable(PartitionUnavailable):
    """Messages cannot be read back: what they stand in, such as the file that their segment was
    offloaded to, is missing or damaged."""

    code = "SegmentUnreadable"
    retryable = False


class InvalidPartitionState(EngineError):
    """The partition's state does not allow this; ``current_state`` tells it."""

    code = "InvalidPartitionState"


class SubscriptionNotFound(NotFound):
    """The topic has no such subscription."""

    code = "SubscriptionNotFound"


class SubscriptionConflict(EngineError):
    """The subscription exists with other settings than asked for; ``differences`` has each."""

    code = "SubscriptionConflict"


class ConsumerBusy(EngineError):
    """Another consumer is the active one of this subscription."""

    code = "ConsumerBusy"


class LogTruncated(EngineError):
    """Of what a reader has read, the log's end has been cut off; ``truncated_to`` is where, and
    ``next_cursor`` goes on there."""

    code = "LogTruncated"


class MessageNotFound(NotFound):
    """No such message."""

    code = "MessageNotFound"


class ProducerFenced(EngineError):
    """A newer instance of this producer, or another guard of this group, has taken over."""

    code = "ProducerFenced"


class SequenceOutOfOrder(EngineError):
    """The sequence id is below the producer's last one and no known duplicate."""

    code = "SequenceOutOfOrder"
