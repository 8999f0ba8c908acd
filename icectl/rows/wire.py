"""Values that workers send back, as bytes that hold data only: reading them never runs anything.

A message is one line of JSON, then the bytes and Arrow tables that it refers to by number. Values
of other classes are lists that begin with a kind. A dataclass is read only if the reader names it,
an error only if it is one of icectl's or of the system's; whatever else comes is an EngineError.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from icectl import errors
from icectl.errors import EngineError, IcectlError
from icectl.format.json_members import parse_json
from icectl.storage.failures import AnswerLost


class KernelFailed(Exception):
    """An error on a worker that is neither icectl's nor the system's; its message names it."""


_ERRORS: Mapping[str, type[Exception]] = {
    **{
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, IcectlError)
    },
    "AnswerLost": AnswerLost,
    "OSError": OSError,
    "MemoryError": MemoryError,
    "KernelFailed": KernelFailed,
}
_ERROR_FIELDS = frozenset({"message", "hint", "error_id", "rule", "location", "reason", "what"})
_NO_SENSE = (ValueError, TypeError, LookupError, RecursionError, pa.ArrowException)


def encode(value: Any) -> bytes:
    """Return the bytes of a value. Raises: TypeError, for one that is no data."""
    parts: list[bytes] = []
    plain = _plain(value, parts)
    head = json.dumps([plain, [len(part) for part in parts]], separators=(",", ":"))
    return b"".join([head.encode(), b"\n", *parts])


def decode(content: bytes, types: Sequence[type] = ()) -> Any:
    """Return the value of some bytes, in which there may be dataclasses of these types.

    Raises: EngineError, where they are not what `encode` returns.
    """
    classes = {class_.__qualname__: class_ for class_ in types}
    try:
        head, _, content_parts = content.partition(b"\n")
        plain, sizes = parse_json(head)
        parts, rest = [], memoryview(content_parts)
        for size in sizes:
            parts.append(rest[:size])
            rest = rest[size:]
        if len(rest) or [len(part) for part in parts] != sizes:
            raise ValueError("its parts are not as long as it says")
        return _value(plain, parts, classes)
    except _NO_SENSE as error:
        raise EngineError(f"a worker sent an invalid response: {error}") from error


def decode_result(content: bytes, types: Sequence[type] = ()) -> Any:
    """Return the value of some bytes. Raises: EngineError; the error of icectl's that it is."""
    value = decode(content, types)
    if isinstance(value, IcectlError):
        raise value
    return value


def _plain(value: Any, parts: list[bytes]) -> Any:
    """Return a value in types of JSON; bytes become parts."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            parts.append(value)
            return ["bytes", len(parts) - 1]
        case pa.Table():
            buffer = pa.BufferOutputStream()
            with pa.ipc.new_stream(buffer, value.schema) as writer:
                writer.write_table(value)
            parts.append(buffer.getvalue().to_pybytes())
            return ["table", len(parts) - 1]
        case list():
            return ["list", *(_plain(item, parts) for item in value)]
        case tuple():
            return ["tuple", *(_plain(item, parts) for item in value)]
        case Mapping():
            return ["dict", *(_plain(item, parts) for pair in value.items() for item in pair)]
        case Exception():
            return ["error", *_plain_error(value)]
    if not is_dataclass(value):
        raise TypeError(f"a {type(value).__qualname__} is not sent by a worker")
    values = (_plain(getattr(value, item.name), parts) for item in fields(value))
    return ["object", type(value).__qualname__, *values]


def _plain_error(error: Exception) -> list[Any]:
    """Return the name, the arguments, the fields and the notes of an error."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    match error:
        case IcectlError():
            name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS)
            members = {key: value for key, value in vars(error).items() if key in _ERROR_FIELDS}
            return [name, [error.message], members, notes]
        case OSError(errno=int()):
            place = error.filename if isinstance(error.filename, str) else None
            return ["OSError", [error.errno, error.strerror, place], {}, notes]
        case OSError() | MemoryError():
            name = "MemoryError" if isinstance(error, MemoryError) else "OSError"
            return [name, [str(error)], {}, notes]
    return ["KernelFailed", [f"{type(error).__name__}: {error}"], {}, notes]


def _value(plain: Any, parts: Sequence[memoryview], classes: Mapping[str, type]) -> Any:
    """Return the value of its form in types of JSON."""
    if not isinstance(plain, list):
        if isinstance(plain, dict):
            raise TypeError("it has an object of JSON")
        return plain
    kind, *items = plain
    if kind == "bytes":
        return bytes(parts[items[0]])
    if kind == "table":
        return pa.ipc.open_stream(pa.py_buffer(parts[items[0]])).read_all()
    if kind == "error":
        return _error(*items)
    if kind == "object":
        class_ = classes[items.pop(0)]
        if len(items) != len(fields(class_)):
            raise ValueError(f"a {class_.__qualname__} has other fields")
        return class_(*(_value(item, parts, classes) for item in items))
    values = [_value(item, parts, classes) for item in items]
    if kind == "dict":
        return dict(zip(values[::2], values[1::2], strict=True))
    return {"list": list, "tuple": tuple}[kind](values)


def _error(
    name: str, arguments: Sequence[Any], members: Mapping[str, Any], notes: Sequence[str]
) -> Exception:
    if not members.keys() <= _ERROR_FIELDS:
        raise ValueError("an error has fields that are unknown")
    if not all(
        argument is None or isinstance(argument, (str, int))
        for argument in [*arguments, *members.values()]
    ):
        raise TypeError("an error has fields of another type")
    kind = _ERRORS[name]
    error = kind.__new__(kind, *arguments)
    vars(error).update(members)
    for note in notes:
        error.add_note(note)
    return error
