"""Teaches drf-spectacular to describe msgspec structs, tokens and this API's endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from txnconsole.access.users import USER_NAME

_REFERENCE = "#/components/schemas/{name}"


#: What the names in paths look like. The engine accepts all of these, and some longer numbers.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_PATH: Mapping[str, Mapping[str, Any]] = {
    "tenant": {"pattern": _NAME, "examples": ["public"]},
    "namespace": {"pattern": _NAME, "examples": ["default"]},
    "topic": {"pattern": r"^(__)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "examples": ["flights"]},
    "subscription": {"pattern": _NAME, "examples": ["delays"]},
    "partition": {"pattern": r"^[0-9]{1,6}$", "examples": ["0"]},
    "txn_id": {"pattern": r"^[0-9]{1,5}:[0-9]{1,18}$", "examples": ["3:42"]},
    "job_id": {"pattern": r"^(run-)?[1-9][0-9]{0,17}$", "examples": ["17", "run-4"]},
    "token_id": {"pattern": r"^[1-9][0-9]{0,17}$", "examples": ["17"]},
    **{
        name: {"examples": [1]}
        for name in (
            *("coordinator_id", "run_id", "alert_id", "rule_id", "silence_id", "channel_id"),
            "message_id",
        )
    },
    "user": {"pattern": USER_NAME, "examples": ["billing"]},
}


class ContractSchema(AutoSchema):
    """Adds the patterns of names in paths to drf-spectacular's description."""

    def _resolve_path_parameters(self, variables: Sequence[str]) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = super()._resolve_path_parameters(  # type: ignore[no-untyped-call]
            variables
        )
        for parameter in parameters:
            parameter["schema"] |= _PATH.get(parameter["name"], {})
        return parameters


class StructSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Lets msgspec describe its structs; the structs that one uses become components."""

    target_class = "msgspec.Struct"
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        return str(self.target.__name__)

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        (reference,), components = msgspec.json.schema_components(
            [self.target], ref_template=_REFERENCE
        )
        own = self.target.__name__
        classes = {each.__name__: each for each in _structs(msgspec.Struct)}
        for name, description in components.items():
            if name != own:
                auto_schema.registry.register_on_missing(
                    ResolvedComponent(  # type: ignore[no-untyped-call]
                        name=name,
                        type=ResolvedComponent.SCHEMA,
                        object=classes.get(name, name),
                        schema=description,
                    )
                )
        schema: dict[str, Any] = components.get(own, reference)
        return schema


def _structs(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Every struct of this API, since drf-spectacular tells components apart by their class."""
    for each in base.__subclasses__():
        if each.__module__.startswith("txnconsole.api."):
            yield each
        yield from _structs(each)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "txnconsole.access.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "txnconsole.access.authentication.ConsoleAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
