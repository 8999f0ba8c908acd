"""The JSON Schemas of the package, and checks of values by the keywords that these use."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def first_breach(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return what first breaks the schema, with its place; None for a value that keeps to it."""
    definitions = schema.get("$defs", {})
    return next(_breaches(value, schema, definitions, "the top"), None)


def _breaches(value: Any, schema: Any, definitions: Mapping[str, Any], at: str) -> Iterator[str]:
    if schema is True:
        return
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        breaches = [next(_breaches(value, one, definitions, at), None) for one in schema["anyOf"]]
        if None not in breaches:
            yield f"{at} has none of its types"
    yield from _of_value(value, schema, at)
    if isinstance(value, dict):
        yield from _of_members(value, schema, definitions, at)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _breaches(item, schema.get("items", True), definitions, f"{at}[{number}]")


def _of_value(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted
    if names is not None and not any(_is_of(value, name) for name in names):
        yield f"{at} is not of type {' or '.join(names)}"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not `{schema['const']}`"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at} is not written as it should be"
    if _is_of(value, "number") and value < schema.get("minimum", value):
        yield f"{at} is below {schema['minimum']}"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        yield f"{at} has too few items"


def _of_members(
    value: Mapping[str, Any], schema: Mapping[str, Any], definitions: Mapping[str, Any], at: str
) -> Iterator[str]:
    yield from (f"{at} has no `{name}`" for name in schema.get("required", ()) if name not in value)
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, item in value.items():
        if name not in known and others is False:
            yield f"{at} has an unknown `{name}`"
        else:
            yield from _breaches(item, known.get(name, others), definitions, f"`{name}` of {at}")


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def load_schema(name: str) -> dict[str, Any]:
    """Read a JSON Schema of the package: `envelope`, or a command's `result`."""
    from importlib import resources  # few runs print a schema

    folder = resources.files("icectl.cli") / "schemas"
    loaded: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return loaded


def document_schema(command: str) -> dict[str, Any]:
    """Compose the JSON Schema of a command's whole document, from the envelope and its result."""
    several = load_schema("several-tables")
    several.pop("$schema")
    return _composed("envelope", f"icectl {command} --json", command, several, {"type": "null"})


def plan_schema(command: str) -> dict[str, Any]:
    """Compose the JSON Schema of the file that `--save-plan` writes for a command."""
    if command == "maintain":
        return load_schema("maintain-plan")
    return _composed("plan", f"icectl {command} --save-plan", command)


def _composed(base: str, title: str, command: str, *others: dict[str, Any]) -> dict[str, Any]:
    """Put a command's result, or one of the other results, into a schema."""
    schema = load_schema(base)
    result, definitions = result_schema(command)
    if definitions:
        schema["$defs"] = definitions
    schema["title"] = title
    schema["properties"]["command"] = {"const": command}
    schema["properties"]["result"] = {"anyOf": [result, *others]} if others else result
    return schema


def result_schema(command: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a command's result, and the definitions that it refers to."""
    result = load_schema(command)
    result.pop("$schema", None)
    return result, result.pop("$defs", {})
