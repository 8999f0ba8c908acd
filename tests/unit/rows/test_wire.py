"""Values of workers as bytes: what is sent comes back, and whatever else comes is refused."""

import base64
import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl import errors
from icectl.errors import CorruptTable, EngineError, MissingFile, Unsupported
from icectl.rows.wire import KernelFailed, decode, decode_result, encode
from icectl.storage.failures import AnswerLost


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    names: tuple[str, ...] = ()


@dataclass
class Other:
    point: Point
    more: dict[int, Any] = field(default_factory=dict)


TYPES = (Point, Other)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary()
KEYS = st.integers() | st.text() | st.binary()
POINTS = st.builds(Point, st.integers(), st.lists(st.text()).map(tuple))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.builds(Other, POINTS, st.dictionaries(st.integers(), inner))
    )


@given(st.recursive(PLAIN | st.text() | POINTS, nested, max_leaves=20))
def test_values_come_back_as_they_were(value):
    found = decode(encode(value), TYPES)
    assert found == value
    assert type(found) is type(value)


def test_tables_come_back_with_their_metadata():
    field_ = pa.field("a", pa.list_(pa.int64()), metadata={"k": "v"})
    table = pa.table([[[1], None, []]], schema=pa.schema([field_], metadata={"of": "all"}))
    (found, rest) = decode(encode((table, [b"", b"x\ny"])))
    assert found.equals(table, check_metadata=True)
    assert rest == [b"", b"x\ny"]


@pytest.mark.parametrize(
    "error",
    [
        CorruptTable("`f` is odd", rule="R-099"),
        MissingFile("/t/f.parquet"),
        Unsupported("no", hint="", id="x", rule="R-001"),
        AnswerLost("gone", hint="wait"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_as_they_were(error):
    error.add_note("a note")
    found = decode(encode(error))
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert str(found) == str(error)
    with pytest.raises(type(error)):
        decode_result(encode(error))


def test_every_error_of_icectl_is_known():
    kinds = [one for one in vars(errors).values() if getattr(one, "exit_code", None)]
    assert len(kinds) > 12
    for kind in kinds:
        error = kind.__new__(kind, "m")
        error.message = "m"
        assert type(decode(encode(error))) is kind


def test_errors_of_the_system_come_back_with_their_number():
    found = decode(encode(PermissionError(13, "Permission denied", "/a")))
    assert type(found) is PermissionError
    assert (found.errno, found.filename) == (13, "/a")
    assert str(decode(encode(OSError("odd")))) == "odd"
    assert type(decode(encode(MemoryError()))) is MemoryError
    assert str(decode(encode(KeyError("k")))) == str(KernelFailed("KeyError: 'k'"))


class Code:
    def __reduce__(self) -> Any:
        return print, ("code ran",)


def test_what_is_no_data_is_not_sent():
    for value in (Code(), {1, 2}, object(), Point, print):
        with pytest.raises(TypeError, match="is not sent by a worker"):
            encode([value])


def told(*value: Any, sizes: Any = ()) -> bytes:
    return json.dumps([list(value), list(sizes)]).encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"[]\n",
        b"[1]\n",
        pickle.dumps(Code()),
        base64.b64encode(pickle.dumps(Code())),
        told("object", "Point", 1),
        told("object", "Point", 1, ["tuple"], 2),
        told("object", "Code"),
        told("object", "icectl.errors.EngineError", "m"),
        told("object", ["list"]),
        told("error", "SystemExit", [1], {}, []),
        told("error", "Exception", ["m"], {}, []),
        told("error", "EngineError", ["m"], {"__class__": "x"}, []),
        told("error", "EngineError", ["m"], {"message": ["list"]}, []),
        told("error", "EngineError", [["m"]], {}, []),
        told("error", "EngineError"),
        told("eval", "1"),
        told("bytes", 0),
        told("bytes", 0, sizes=[5]),
        told("bytes", 0, sizes=[-1]),
        told("bytes", "0"),
        told("table", 0, sizes=[3]) + b"abc",
        told("dict", 1),
        told("dict", ["list"], 1),
        told({"a": 1}),
        told(),
        b"[" * 100_000 + b"\n",
        b"[1,[]]\nrest",
        b'["\xff",[]]\n',
    ],
)
def test_whatever_else_comes_is_an_error_of_the_engine(content, capsys):
    with pytest.raises(EngineError, match="a worker sent an invalid response"):
        decode(content, TYPES)
    assert capsys.readouterr().out == ""


@given(st.binary() | st.binary().map(lambda rest: b'["bytes",0],[1]\n' + rest))
def test_no_bytes_end_in_another_error(content):
    try:
        decode(content, TYPES)
    except EngineError:
        return
