"""A function's signature as the JSON Schema of a tool's arguments, and JSON as arguments of the function.

A parameter for the context of the call is left out of the schema.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from .context import AsyncCallContext, CallContext

_CONFIG = ConfigDict(extra="forbid", protected_namespaces=())
_NOT_TYPES = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError)


class ArgumentsError(Exception):
    """The arguments do not match the signature. The text is for the model."""


class Arguments:
    """The arguments of a function.

    Raises `TypeError`, with what to change, if there can be no schema for the signature.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._hints = _hints(function, name)
        self.is_async = inspect.iscoroutinefunction(function)
        # The names of the model's fields are its own: a parameter may be named `json` or `copy`, as methods of models are.
        self._parameters: dict[str, str] = {}
        self._context: str | None = None
        fields: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if self._is_context(parameter):
                self._context = parameter.name
                continue
            field = f"p{len(fields)}"
            fields[field] = self._field(parameter)
            self._parameters[field] = parameter.name
        try:
            self._model: type[BaseModel] = create_model(name, __config__=_CONFIG, **fields)
            self.schema = _schema(self._model)
        except _NOT_TYPES as error:
            raise TypeError(f"tool {name}: a parameter's type has no JSON Schema: {_first_line(error)}") from error

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        kind = self._hints.get(parameter.name)
        if kind not in (CallContext, AsyncCallContext):
            return False
        wanted = AsyncCallContext if self.is_async else CallContext
        if kind is not wanted:
            what = "async def" if self.is_async else "def"
            raise TypeError(f"tool {self._name}: the context of a function with `{what}` is a {wanted.__name__}")
        if self._context is not None:
            raise TypeError(f"tool {self._name}: {self._context} and {parameter.name} are both the context; keep one of them")
        self._needs_a_name(parameter)
        return True

    def _field(self, parameter: inspect.Parameter) -> Any:
        self._needs_a_name(parameter)
        if parameter.name not in self._hints:
            raise TypeError(f"tool {self._name}: parameter {parameter.name} has no type; write `{parameter.name}: str`, for example")
        default = parameter.default
        if isinstance(default, FieldInfo):
            raise TypeError(
                f"tool {self._name}: parameter {parameter.name} has a Field as its default; "
                f"write `{parameter.name}: Annotated[TYPE, Field(…)] = DEFAULT`"
            )
        if default is inspect.Parameter.empty:
            return (self._hints[parameter.name], Field(alias=parameter.name))
        return (self._hints[parameter.name], Field(default, alias=parameter.name))

    def _needs_a_name(self, parameter: inspect.Parameter) -> None:
        """Arguments are passed by name."""
        kinds = {
            inspect.Parameter.VAR_POSITIONAL: f"*{parameter.name}; use `{parameter.name}: list[TYPE]`",
            inspect.Parameter.VAR_KEYWORD: f"**{parameter.name}; use `{parameter.name}: dict[str, TYPE]`",
            inspect.Parameter.POSITIONAL_ONLY: f"the positional-only parameter {parameter.name}; remove the `/`",
        }
        if parameter.kind in kinds:
            raise TypeError(f"tool {self._name}: arguments are passed by name, which excludes {kinds[parameter.kind]}")

    def read(self, given: Mapping[str, Any], context: CallContext | AsyncCallContext) -> dict[str, Any]:
        """Returns the arguments of the function, by name. Absent ones are left to its defaults. Raises `ArgumentsError`."""
        try:
            # As JSON: a model's strict fields accept a date as text.
            read = self._model.model_validate_json(json.dumps(given))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
            raise ArgumentsError(f"The arguments do not match the schema of {self._name}: {faults}") from error
        arguments: dict[str, Any] = {self._parameters[field]: getattr(read, field) for field in read.model_fields_set}
        if self._context is not None:
            arguments[self._context] = context
        return arguments

    def output_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of the function's result. Raises `TypeError` if its annotation gives none."""
        kind = self._hints.get("return", Any)
        if kind is Any or kind is type(None):
            raise TypeError(f"tool {self._name}: output_schema=True needs the type of the result: write `-> TYPE`")
        try:
            return TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Schema)
        except _NOT_TYPES as error:
            raise TypeError(f"tool {self._name}: the type of the result has no JSON Schema: {_first_line(error)}") from error


class _Schema(GenerateJsonSchema):
    """Leaves out titles, which repeat the names of parameters, and defaults that are not JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Schema)
    schema.pop("title", None)
    return schema


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool {name}: {error.name or error} is not known where the function is defined; define the type outside of functions, "
            "and import it outside of `if TYPE_CHECKING:`"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
