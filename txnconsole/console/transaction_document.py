"""Reading the document of a transaction (:mod:`txnconsole.documents`), of whatever console it comes
from.

It is a stranger's: nothing of it is kept, looked up or linked, and what is too large is not read at
all.
"""

from __future__ import annotations

import msgspec
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

from engine.model.errors import InvalidRequest
from engine.model.txn_id import TxnID
from txnconsole.documents.structs import TransactionDocument

MAX_BYTES = 4 * 1024 * 1024
#: On the request of which a file was too large.
TOO_LARGE = "UPLOAD_TOO_LARGE"


class Bounded(FileUploadHandler):
    """Skips a file that is larger than any that the console takes: nothing of it is kept."""

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
        InvalidRequest: it is none, or not of this version.
    """
    if len(data) > MAX_BYTES:
        raise InvalidRequest(f"A document has at most {MAX_BYTES // 2**20} MiB.", field="document")
    try:
        found = msgspec.json.decode(data, type=TransactionDocument)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"It is no document of a transaction: {error}", field="document"
        ) from error
    TxnID.parse(found.transaction.txn_id)
    return found
