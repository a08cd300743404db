"""Reading the document of a transaction (:mod:`txnconsole.documents`), which may come from another
console.

It is not trusted: nothing of it is kept, looked up or linked, and a file that is too large is not
read at all.
"""

from __future__ import annotations

import msgspec
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID
from txnconsole.documents.structs import TransactionDocument

MAX_BYTES = 4 * 1024 * 1024
#: The attribute of a request that had a file that was too large.
TOO_LARGE = "UPLOAD_TOO_LARGE"

_decoder = msgspec.json.Decoder(TransactionDocument)


class Bounded(FileUploadHandler):
    """An upload handler that skips a file larger than the limit, without keeping any of it."""

    def new_file(self, *args: object, **kwargs: object) -> None:
        super().new_file(*args, **kwargs)  # type: ignore[arg-type]
        self._received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._received += len(raw_data)
        if self._received > MAX_BYTES:
            if self.request is not None:
                self.request.META[TOO_LARGE] = "1"
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """The next handler keeps it."""


def read_document(data: bytes) -> TransactionDocument:
    """Read a document.

    Raises:
        InvalidRequest: it is not a document, or one of another version.
    """
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"A document has at most {MAX_BYTES // 2**20} MiB.", field="document")
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"It is no document of a transaction: {error}", field="document"
        ) from error
    TxnID.parse(found.transaction.txn_id)
    return found
