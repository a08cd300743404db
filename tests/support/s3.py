"""A small object store that speaks as much of S3 as pyarrow's file system asks: in memory, over
HTTP on loopback, for whoever names any key. Uploads in parts, ranges, copies, lists."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class ObjectStore:
    """Objects by ``bucket/key``, each with when it was written.

    Attributes:
        uri: of a prefix in it, as ``TXNCONSOLE_OFFLOAD_DIR`` takes it.
    """

    def __init__(self, port: int) -> None:
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        query = f"scheme=http&endpoint_override=127.0.0.1:{port}&region=eu-central-1"
        self.uri = f"s3://key:secret@bucket/offload?{query}"

    def names(self) -> set[str]:
        return {name.removeprefix("bucket/offload/") for name in self.objects}

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = (content, datetime.now(UTC))  # noqa: TID251 - a store has its own

    def age(self, name: str, by: float) -> None:
        """Let so many seconds pass for an object."""
        content, written = self.objects[f"bucket/offload/{name}"]
        past = datetime.fromtimestamp(written.timestamp() - by, UTC)
        self.objects[f"bucket/offload/{name}"] = content, past


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A store that runs until the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.store = store = ObjectStore(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _store(self) -> ObjectStore:
        store: ObjectStore = self.server.store  # type: ignore[attr-defined]
        return store

    def do_HEAD(self) -> None:
        name, _ = self._asked()
        if name == "bucket":
            self._answer(200)
        elif (found := self._store.objects.get(name)) is None:
            self._answer(404)
        else:
            self._answer(200, found[0], written=found[1])

    def do_GET(self) -> None:
        name, query = self._asked()
        if name == "bucket":
            self._list(query)
        elif (found := self._store.objects.get(name)) is None:
            self._answer(404, _xml("Error", "<Code>NoSuchKey</Code>"))
        elif span := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            content = found[0][int(span[1]) : int(span[2]) + 1]
            where = f"bytes {span[1]}-{int(span[1]) + len(content) - 1}/{len(found[0])}"
            self._answer(206, content, written=found[1], headers={"Content-Range": where})
        else:
            self._answer(200, found[0], written=found[1])

    def do_PUT(self) -> None:
        name, query = self._asked()
        content = self._body()
        if source := self.headers.get("x-amz-copy-source"):
            content = self._store.objects[unquote(source).lstrip("/")][0]
            self._store.put(name, content)
            self._answer(200, _xml("CopyObjectResult", f"<ETag>{_etag(content)}</ETag>"))
        elif "partNumber" in query:
            self._store.parts[query["uploadId"]][int(query["partNumber"])] = content
            self._answer(200, headers={"ETag": _etag(content)})
        else:
            self._store.put(name, content)
            self._answer(200, headers={"ETag": _etag(content)})

    def do_POST(self) -> None:
        name, query = self._asked()
        self._body()
        if "uploads" in query:
            upload = f"upload-{len(self._store.parts)}"
            self._store.parts[upload] = {}
            self._answer(
                200, _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
            )
        else:
            parts = self._store.parts.pop(query["uploadId"])
            self._store.put(name, b"".join(parts[number] for number in sorted(parts)))
            self._answer(200, _xml("CompleteMultipartUploadResult", "<ETag>whole</ETag>"))

    def do_DELETE(self) -> None:
        name, _ = self._asked()
        self._store.objects.pop(name, None)
        self._answer(204)

    def _list(self, query: dict[str, str]) -> None:
        prefix = query.get("prefix", "")
        rows = [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
            f"<LastModified>{written.isoformat()[:23]}Z</LastModified></Contents>"
            for name, (content, written) in sorted(self._store.objects.items())
            if (key := name.removeprefix("bucket/")).startswith(prefix)
        ]
        found = f"<KeyCount>{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>{''.join(rows)}"
        self._answer(200, _xml("ListBucketResult", found))

    def _asked(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        query = {key: each[0] for key, each in parse_qs(url.query, keep_blank_values=True).items()}
        return unquote(url.path).strip("/"), query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = _chunks(self.rfile)
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            content = _chunks(io.BytesIO(content))
        return content

    def _answer(
        self,
        status: int,
        content: bytes = b"",
        *,
        written: datetime | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if written is not None:
            self.send_header("Last-Modified", format_datetime(written, usegmt=True))
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: tests say what they see."""


def _chunks(stream: BinaryIO) -> bytes:
    """Each chunk: its length in hexadecimal, its bytes; after the last, of length 0, trailers."""
    content = b""
    while length := int(stream.readline().partition(b";")[0], 16):
        content += stream.read(length)
        stream.readline()
    while stream.readline().strip():
        pass
    return content


def _xml(name: str, inner: str) -> bytes:
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<?xml version="1.0"?><{name} xmlns="{space}">{inner}</{name}>'.encode()


def _etag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
