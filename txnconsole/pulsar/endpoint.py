"""What every address under ``/admin/v3/transactions/`` does before its operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from django.http import HttpResponse
from rest_framework.request import Request

from engine.model.topic_name import PartitionName, SubscriptionName, TopicName
from engine.model.txn_id import TxnID
from txnconsole.api.decoding import named
from txnconsole.api.endpoint import Endpoint
from txnconsole.api.errors import PROBLEM_JSON, answer_error
from txnconsole.enginedb.wiring import engine
from txnconsole.pulsar.names import only_partition, split_topic, txn_id_of


class PulsarEndpoint(Endpoint):
    """An address of Pulsar's; its errors carry ``reason``, which Pulsar's clients show.

    They are not in the OpenAPI document: their contract is Pulsar's.
    """

    schema = None

    def get_exception_handler(self) -> Callable[[Exception, Mapping[str, Any]], HttpResponse]:
        return _answer_with_reason


class PulsarTxnEndpoint(PulsarEndpoint):
    """An address with ``{most}/{least}`` in its path."""

    txn_id: TxnID

    def initial(self, request: Request, *args: object, **path: Any) -> None:
        super().initial(request, *args, **path)
        self.txn_id = named("txn_id", txn_id_of, f"({path['most']},{path['least']})")


class PulsarPartitionEndpoint(PulsarEndpoint):
    """An address with a topic in its path that means one partition."""

    partition: PartitionName

    def initial(self, request: Request, *args: object, **path: Any) -> None:
        super().initial(request, *args, **path)
        topic, number = split_topic(path["topic"])
        name = named("topic", TopicName.parse, f"{path['tenant']}/{path['namespace']}/{topic}")
        self.allow_topic(name)
        found = engine().topics.get(name)
        self.partition = (
            only_partition(found) if number is None else PartitionName(found.name, number)
        )


class PulsarSubscriptionEndpoint(PulsarPartitionEndpoint):
    """An address with a subscription in its path as well."""

    subscription: SubscriptionName

    def initial(self, request: Request, *args: object, **path: Any) -> None:
        super().initial(request, *args, **path)
        self.subscription = named(
            "subscription",
            lambda name: SubscriptionName(self.partition.topic, name),
            path["subscription"],
        )


def _answer_with_reason(error: Exception, context: Mapping[str, Any]) -> HttpResponse:
    response = answer_error(error, context)
    body = msgspec.json.decode(response.content)
    response.content = msgspec.json.encode(body | {"reason": body["detail"]})
    response["Content-Type"] = PROBLEM_JSON
    return response
