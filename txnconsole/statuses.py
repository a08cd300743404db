"""The HTTP status of each stable code (design/api.md, Error codes): the same over REST and on the
console's pages.
"""

from __future__ import annotations

from collections.abc import Mapping

STATUS_OF_CODE: Mapping[str, int] = {
    "InvalidRequest": 400,
    "NotAuthenticated": 401,
    "PermissionDenied": 403,
    "NotFound": 404,
    "TransactionNotFound": 404,
    "CoordinatorNotFound": 404,
    "TopicNotFound": 404,
    "PartitionNotFound": 404,
    "SubscriptionNotFound": 404,
    "MessageNotFound": 404,
    "UserNotFound": 404,
    "TokenNotFound": 404,
    "MaskingRuleNotFound": 404,
    "JobNotFound": 404,
    "RunNotFound": 404,
    "AlertNotFound": 404,
    "AlertRuleNotFound": 404,
    "AlertSilenceNotFound": 404,
    "AlertChannelNotFound": 404,
    "AlertMessageNotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "InvalidTxnStatus": 409,
    "TransactionConflict": 409,
    "TopicConflict": 409,
    "TopicInUse": 409,
    "InvalidPartitionState": 409,
    "LogTruncated": 409,
    "SubscriptionConflict": 409,
    "ConsumerBusy": 409,
    "ProducerFenced": 409,
    "SequenceOutOfOrder": 409,
    "CountChanged": 409,
    "InvalidJobState": 409,
    "InvalidRunState": 409,
    "AlertConflict": 409,
    "IdempotencyKeyInUse": 409,
    "AnswerNotKept": 409,
    "PayloadTooLarge": 413,
    "UnsupportedMediaType": 415,
    "IdempotencyKeyReused": 422,
    "LimitExceeded": 429,
    "InternalError": 500,
    "PartitionUnavailable": 503,
    "SegmentUnreadable": 503,
    "CoordinatorUnavailable": 503,
    "TimeLimitExceeded": 504,
}


def status_of_code(code: str) -> int:
    """The status of an answer with this code; 500 for one that is not known."""
    return STATUS_OF_CODE.get(code, 500)
