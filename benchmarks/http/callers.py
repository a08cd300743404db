"""Callers of an HTTP server: threads, one kept connection each."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.http.product import Product
from txnconsole.local.address import HOST


class Caller:
    """One kept connection, and what is asked over it."""

    def __init__(self, product: Product, number: int) -> None:
        self.number = number
        self._connection = http.client.HTTPConnection(HOST, product.port, timeout=60)
        self._headers = {"Content-Type": "application/json"}
        self.show(product.token)

    def show(self, token: str) -> None:
        """Be who the token says from now on."""
        self._headers["Authorization"] = f"Bearer {token}"

    def post(self, path: str, body: bytes = b"{}") -> bytes:
        """POST, and the body of the answer.

        Raises:
            RuntimeError: the answer is an error.
        """
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """As :meth:`post`, with any method."""
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode()[:500]}")
        return content

    def told(self, method: str, path: str, body: object = None) -> Any:
        """The answer as an object; for what is not measured."""
        encoded = None if body is None else json.dumps(body).encode()
        return json.loads(self.ask(method, path, encoded))

    def close(self) -> None:
        self._connection.close()


class Callers:
    """So many callers, who work side by side."""

    def __init__(self, product: Product, count: int) -> None:
        self._user = product.user
        self.all = [Caller(product, number) for number in range(count)]

    def per_second(self, work: Callable[[Caller], int]) -> float:
        """Let each do its work, which answers in how many requests; requests a second of all.

        Raises:
            RuntimeError: an answer was an error.
        """
        done: list[int] = []
        broken: list[BaseException] = []

        def run(caller: Caller) -> None:
            try:
                done.append(work(caller))
            except BaseException as error:  # Raised below, where it is waited for.
                broken.append(error)

        threads = [threading.Thread(target=run, args=(caller,)) for caller in self.all]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        if broken:
            raise broken[0]
        return sum(done) / seconds

    def become_a_program(self) -> None:
        """From now on all show the token of a program that produces and consumes."""
        wanted = {"user": self._user, "roles": ["producer", "consumer"]}
        token = self.all[0].told("POST", "/api/v1/tokens", wanted)["secret"]
        for caller in self.all:
            caller.show(token)

    def close(self) -> None:
        for caller in self.all:
            caller.close()
