"""Path converters for the console's addresses: topics, transaction ids and kinds of files."""

from __future__ import annotations

from django.urls.converters import StringConverter

from engine.model.errors import InvalidRequest
from engine.model.topic_name import TopicName
from engine.model.txn_id import TxnID


class TopicConverter:
    """``tenant/namespace/topic``; no other text matches."""

    regex = "[^/]+/[^/]+/[^/]+"

    def to_python(self, value: str) -> TopicName:
        try:
            return TopicName.parse(value)
        except InvalidRequest as error:
            raise ValueError(error.message) from error

    def to_url(self, value: TopicName) -> str:
        return str(value)


class TxnIDConverter:
    """``<coordinator>:<sequence>``."""

    regex = r"[0-9]{1,5}:[0-9]{1,19}"

    def to_python(self, value: str) -> TxnID:
        try:
            return TxnID.parse(value)
        except InvalidRequest as error:
            raise ValueError(error.message) from error

    def to_url(self, value: TxnID) -> str:
        return str(value)


class FileConverter(StringConverter):
    """How a list is written to a file."""

    regex = "csv|json"
