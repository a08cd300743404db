"""The REST API, version 1 (design/api.md).

Django REST framework authenticates, authorizes, negotiates and throttles; msgspec decodes bodies
and query strings into typed structs and encodes the answers; the engine does the work. A request
passes through these modules: ``urls`` → ``endpoint`` (rights, names in the path) → ``operation``
(decode, call, encode) → ``views`` → the engine, and back through ``errors`` when it fails.

The package keeps no state except caches in its process, so a crash leaves nothing behind. What was
answered is durable in the engine, and a call whose answer was lost may be repeated unchanged.
"""

from __future__ import annotations
