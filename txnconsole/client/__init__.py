"""The Python client: transactions, producers, consumers and readers over the REST contract.

    with Client(url, token) as client, client.producer("public/default/flights") as producer:
        with client.transaction(timeout=30) as txn:
            producer.send(b"...", key="UA", txn=txn)

    async with AsyncClient(url, token) as client, client.producer(topic) as producer:
        async with client.transaction(timeout=30) as txn:
            await producer.send(b"...", key="UA", txn=txn)

Some modules decide without IO: ``calls`` and ``wire`` what is sent and how an answer is read,
``retries`` which call is made again, ``batching`` and ``partitioner`` which messages are sent
together and where to, ``filtering`` which messages of a fetch are committed. Operations that take
several calls are written once, as coroutines that wait for nothing but a ``runtime``:
``AsyncClient`` runs them in an event loop (``asynchronous``), ``Client`` runs each to its end in
the calling thread (``blocking``). No server code and no Django is imported.

Locks: a producer has one. It is held while the producer's batches are sent; no other lock is taken
meanwhile.

Invariants: a retry never stores a message twice (every batch has a producer name and a sequence
id; on a topic without deduplication such a retry is not made); a transaction in which one operation
failed never commits.

When the program crashes, its open transactions are aborted at their deadlines, the messages that it
received are delivered again after the subscription's acknowledgement timeout, and messages that had
not been flushed are lost.
"""

from __future__ import annotations

from txnconsole.client.answers import (
    AbortedTransaction,
    Acknowledged,
    Fetched,
    Message,
    PartitionStatus,
    Produced,
    SubscriptionInfo,
    TopicInfo,
    TransactionInfo,
    TransactionMarker,
)
from txnconsole.client.asynchronous import AsyncTransportOptions
from txnconsole.client.batching import Batch, BatchLimits
from txnconsole.client.blocking import TransportOptions
from txnconsole.client.calls import NewMessage
from txnconsole.client.client import AsyncClient, Client
from txnconsole.client.consumer import AsyncConsumer, Consumer
from txnconsole.client.errors import (
    AlertChannelNotFound,
    AlertConflict,
    AlertMessageNotFound,
    AlertNotFound,
    AlertRuleNotFound,
    AlertSilenceNotFound,
    AnswerNotKept,
    ClientClosed,
    ConsumerBusy,
    CoordinatorNotFound,
    CoordinatorUnavailable,
    CountChanged,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    InternalError,
    InvalidJobState,
    InvalidPartitionState,
    InvalidRequest,
    InvalidRunState,
    InvalidTxnStatus,
    JobNotFound,
    LimitExceeded,
    LogTruncated,
    MaskingRuleNotFound,
    MessageNotFound,
    MethodNotAllowed,
    NotAcceptable,
    NotAuthenticated,
    NotFound,
    PartitionNotFound,
    PartitionUnavailable,
    PayloadTooLarge,
    PermissionDenied,
    ProducerClosed,
    ProducerFenced,
    RunNotFound,
    SegmentUnreadable,
    SequenceOutOfOrder,
    SubscriptionConflict,
    SubscriptionNotFound,
    TimeLimitExceeded,
    TLSFailed,
    TokenNotFound,
    TopicConflict,
    TopicInUse,
    TopicNotFound,
    TransactionAborted,
    TransactionConflict,
    TransactionEnded,
    TransactionNotFound,
    TxnConsoleError,
    UnexpectedAnswer,
    Unreachable,
    UnsupportedMediaType,
    UserNotFound,
)
from txnconsole.client.partitioner import partition_for_key
from txnconsole.client.process import Processed
from txnconsole.client.producer import AsyncProducer, Producer
from txnconsole.client.reader import AsyncReader, Reader
from txnconsole.client.retries import RetryPolicy
from txnconsole.client.transaction import AsyncTransaction, OpenTransaction, Transaction

__all__ = [
    "AbortedTransaction",
    "Acknowledged",
    "AlertChannelNotFound",
    "AlertConflict",
    "AlertMessageNotFound",
    "AlertNotFound",
    "AlertRuleNotFound",
    "AlertSilenceNotFound",
    "AnswerNotKept",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncReader",
    "AsyncTransaction",
    "AsyncTransportOptions",
    "Batch",
    "BatchLimits",
    "Client",
    "ClientClosed",
    "Consumer",
    "ConsumerBusy",
    "CoordinatorNotFound",
    "CoordinatorUnavailable",
    "CountChanged",
    "Fetched",
    "IdempotencyKeyInUse",
    "IdempotencyKeyReused",
    "InternalError",
    "InvalidJobState",
    "InvalidPartitionState",
    "InvalidRequest",
    "InvalidRunState",
    "InvalidTxnStatus",
    "JobNotFound",
    "LimitExceeded",
    "LogTruncated",
    "MaskingRuleNotFound",
    "Message",
    "MessageNotFound",
    "MethodNotAllowed",
    "NewMessage",
    "NotAcceptable",
    "NotAuthenticated",
    "NotFound",
    "OpenTransaction",
    "PartitionNotFound",
    "PartitionStatus",
    "PartitionUnavailable",
    "PayloadTooLarge",
    "PermissionDenied",
    "Processed",
    "Produced",
    "Producer",
    "ProducerClosed",
    "ProducerFenced",
    "Reader",
    "RetryPolicy",
    "RunNotFound",
    "SegmentUnreadable",
    "SequenceOutOfOrder",
    "SubscriptionConflict",
    "SubscriptionInfo",
    "SubscriptionNotFound",
    "TLSFailed",
    "TimeLimitExceeded",
    "TokenNotFound",
    "TopicConflict",
    "TopicInUse",
    "TopicInfo",
    "TopicNotFound",
    "Transaction",
    "TransactionAborted",
    "TransactionConflict",
    "TransactionEnded",
    "TransactionInfo",
    "TransactionMarker",
    "TransactionNotFound",
    "TransportOptions",
    "TxnConsoleError",
    "UnexpectedAnswer",
    "Unreachable",
    "UnsupportedMediaType",
    "UserNotFound",
    "partition_for_key",
]
