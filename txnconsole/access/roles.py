"""Roles and what each may do: one table, which a test walks (design/api.md, Roles)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Role(StrEnum):
    """Also the names of the Django groups that give console users their roles."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Permission(StrEnum):
    """One thing that a request may need; every endpoint names exactly one."""

    TOPIC_READ = "topic.read"
    TOPIC_CHANGE = "topic.change"
    #: Snapshot, recover, truncate partitions, take them off- and online, abort orphans in them.
    PARTITION_OPERATE = "partition.operate"
    MESSAGE_READ = "message.read"
    #: What messages carry; without it they come masked (txnconsole/access/payloads.py).
    PAYLOAD_READ = "payload.read"
    MESSAGE_PRODUCE = "message.produce"
    MESSAGE_CONSUME = "message.consume"
    SUBSCRIPTION_CREATE = "subscription.create"
    SUBSCRIPTION_DELETE = "subscription.delete"
    #: Move where a subscription goes on; with force, which ends transactions of others,
    #: TRANSACTION_ABORT_ANY as well.
    SUBSCRIPTION_SEEK = "subscription.seek"
    #: Open transactions, and register participants of, extend and commit one's own.
    TRANSACTION_USE = "transaction.use"
    #: Read one's own transactions; those of others need TRANSACTION_READ_ANY as well.
    TRANSACTION_READ = "transaction.read"
    TRANSACTION_READ_ANY = "transaction.read_any"
    #: Abort one's own transactions; those of others need TRANSACTION_ABORT_ANY as well.
    TRANSACTION_ABORT = "transaction.abort"
    TRANSACTION_ABORT_ANY = "transaction.abort_any"
    #: Have a transaction's decision carried out again, wherever it hangs.
    TRANSACTION_RETRY = "transaction.retry"
    COORDINATOR_READ = "coordinator.read"
    COORDINATOR_SCALE = "coordinator.scale"
    COORDINATOR_RECOVER = "coordinator.recover"
    OPERATION_READ = "operation.read"
    AUDIT_READ = "audit.read"
    #: Who one is, and what one may do.
    SELF_READ = "self.read"
    #: Tokens of one's own, with roles that permit no more than one's own.
    TOKEN_OWN = "token.own"  # noqa: S105  # A permission.
    #: Users, their roles, and everybody's tokens.
    ACCESS_MANAGE = "access.manage"
    JOB_READ = "job.read"
    JOB_CANCEL = "job.cancel"
    #: Start a pipeline run; of one that writes messages, MESSAGE_PRODUCE as well.
    JOB_START = "job.start"
    ALERT_READ = "alert.read"
    #: Acknowledge and silence alerts.
    ALERT_HANDLE = "alert.handle"
    #: Rules, and where alerts are told.
    ALERT_MANAGE = "alert.manage"


_READ = frozenset(
    {
        Permission.SELF_READ,
        Permission.TOKEN_OWN,
        Permission.TOPIC_READ,
        Permission.MESSAGE_READ,
        Permission.TRANSACTION_READ,
        Permission.TRANSACTION_READ_ANY,
        Permission.COORDINATOR_READ,
        Permission.OPERATION_READ,
        Permission.JOB_READ,
        Permission.ALERT_READ,
    }
)
#: What changes nothing for others: all that a person may do while the console is read-only.
READING = (_READ - {Permission.TOKEN_OWN}) | {Permission.PAYLOAD_READ, Permission.AUDIT_READ}
_PROGRAM = frozenset(
    {
        Permission.SELF_READ,
        Permission.TOPIC_READ,
        Permission.TRANSACTION_USE,
        Permission.TRANSACTION_READ,
        Permission.TRANSACTION_ABORT,
    }
)

#: Reading one's own transactions and nothing of others is what tells a program from a person.
GRANTS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _READ,
    Role.PRODUCER: _PROGRAM | {Permission.MESSAGE_PRODUCE},
    Role.CONSUMER: _PROGRAM
    | {
        Permission.MESSAGE_READ,
        Permission.PAYLOAD_READ,
        Permission.MESSAGE_CONSUME,
        Permission.SUBSCRIPTION_CREATE,
        Permission.SUBSCRIPTION_SEEK,
    },
    Role.OPERATOR: _READ
    | {
        Permission.PAYLOAD_READ,
        Permission.TRANSACTION_ABORT,
        Permission.TRANSACTION_ABORT_ANY,
        Permission.TRANSACTION_RETRY,
        Permission.PARTITION_OPERATE,
        Permission.SUBSCRIPTION_SEEK,
        Permission.AUDIT_READ,
        Permission.JOB_CANCEL,
        Permission.JOB_START,
        Permission.ALERT_HANDLE,
    },
    Role.ADMIN: frozenset(Permission),
}


def permissions_of(roles: Iterable[Role]) -> frozenset[Permission]:
    """Everything that any of the roles may do."""
    return frozenset().union(*(GRANTS[role] for role in roles))
