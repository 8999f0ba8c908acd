"""Conditions on rows as values, and the language of `--where`, typed by the table.

A condition is true, false or, where a column is null, unknown; `not` keeps unknown. NaN is above
every number and equal to none; null is no NaN. Conditions select files that may hold a row for
which they are true.

    at >= '2024-01-01' and (category in ('a', 'b') or not note like 'draft%')

Comparisons, `in`, `between`, `is null`, `is nan`, `like 'text%'`, `and`, `or`, `not`, brackets.
Names are case-sensitive, words of the language are not; a name with other characters stands in
backticks, text in single quotes, bytes as x'00ff'. A name that is no column's is looked for among
the partition fields. `day(at)` is the day of a date or timestamp, in UTC; it becomes a range of the
column. There are no other functions. Where the caller knows the time, `'now - 30d'` is an instant.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.moments import (
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    parse_clock,
    parse_date,
    parse_timestamp,
)
from icectl.format.partition import result_types
from icectl.format.schema import container_of, similar_name_hint
from icectl.format.single_value import UNITS_PER_SECOND, Value, encode, from_json, unscaled_integer
from icectl.format.types import (
    DecimalType,
    FixedType,
    PrimitiveType,
    Type,
    is_comparable,
    type_text,
)
from icectl.units import parse_duration


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its field id, or the partition fields of a name where there is no field id."""

    name: str
    type: Type
    field_id: int | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A condition that is true, or false, of every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a value of its type, as format/single_value.py has it."""

    column: Column
    operator: Literal["<", "<=", "="]
    value: Value


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The condition that a string begins with another."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The condition that a column is null."""

    column: Column


@dataclass(frozen=True, slots=True)
class IsNan:
    """The condition that a float is not a number."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    """Every part; there is one or more."""

    parts: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One part at least; there is one or more."""

    parts: tuple["Predicate", ...]


Leaf = Compare | StartsWith | IsNull | IsNan
Predicate = Leaf | Constant | Not | And | Or


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Yield every condition on a single column. Order: as written."""
    match predicate:
        case Not(part):
            yield from leaves(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Constant():
            return
        case _:
            yield predicate


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<bytes>[xX]'[^']*')
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`[^`]+`)
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_\d]))
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),.])
    )""",
    re.VERBOSE,
)
_WORDS = {
    "and", "or", "not", "in", "between", "is", "null", "nan", "like", "true", "false",
}  # fmt: skip
_COMPARISONS = {
    **{sign: sign for sign in ("=", "!=", "<", "<=", ">", ">=")}, "==": "=", "<>": "!=",
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_FLOAT = struct.Struct("<f")
_DEEPEST = 100
"""Brackets within each other; more would exhaust the stack."""

_SUPPORTED = (
    "a condition is like `at >= '2024-01-01' and category in ('a', 'b')`; there are comparisons, "
    "`in`, `between`, `is null`, `is nan`, `like 'text%'`, `day(at)`, `and`, `or`, `not`, brackets"
)


_DAY_SECONDS = 86_400
DATED = [PrimitiveType(name) for name in ("date", *UNITS_PER_SECOND)]
"""Types of columns that have a day."""

_INSTANT = re.compile(r"\s*now\s*(?:-\s*(?P<age>\w+)\s*)?", re.IGNORECASE)


def instant_of(type_: Type, instant_ms: int) -> int:
    """Return an instant as a value of a type of DATED, in UTC; a date rounded down."""
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "date":
        return instant_ms // (1000 * _DAY_SECONDS)
    return instant_ms * UNITS_PER_SECOND[name] // 1000


@dataclass(frozen=True, slots=True)
class _Operand:
    """What a value is compared with: a column, or the day of one."""

    column: Column
    is_day: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of the text; `kind` is a group of _TOKEN, `keyword` or `end`."""

    kind: str
    text: str
    position: int


def parse_where(text: str, metadata: TableMetadata, now_ms: int | None = None) -> Predicate:
    """Return the condition that a text says, its values of the types of the table's columns.

    With `now_ms`, dates and timestamps are also compared with 'now' and 'now - 30d', in UTC.
    Raises: UsageError, naming the position from 1, for a text that is no condition, a name that
    there is not, and a value that is not of its column's type.
    """
    return _Parser(text, metadata, now_ms).parse()


def _failure(text: str, position: int, message: str, hint: str = _SUPPORTED) -> UsageError:
    where = "at its end" if position >= len(text) else f"at position {position + 1}"
    return UsageError(f"`--where`: {where}: {message}", hint=hint)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            if text[at] == '"':
                hint = "text stands in single quotes, a name with other characters in backticks"
                raise _failure(text, at, "a double quote does not belong here", hint)
            is_open = text[at] in "'`"
            what = (
                f"the {text[at]} has no match" if is_open else f"`{text[at]}` does not belong here"
            )
            raise _failure(text, at, what)
        kind, shown = match.lastgroup, match[match.lastgroup]
        if kind == "word" and shown.lower() in _WORDS:
            kind, shown = "keyword", shown.lower()
        yield _Token(kind, shown, match.start(match.lastgroup))
        at = match.end()
    yield _Token("end", "the end", len(text))


class _Parser:
    """A parser by recursive descent over the tokens: or, and, not, then a condition or brackets."""

    def __init__(self, text: str, metadata: TableMetadata, now_ms: int | None) -> None:
        self._text = text
        self._metadata = metadata
        self._now_ms = now_ms
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def parse(self) -> Predicate:
        """Parse all of the tokens. Raises: UsageError."""
        predicate = self._or()
        if self._next.kind != "end":
            raise self._expected("`and`, `or` or the end")
        return predicate

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, *shown: str) -> str | None:
        """Return the next token where it is one of these words or signs, which is then passed."""
        if self._next.kind in ("keyword", "sign") and self._next.text in shown:
            return self._take().text
        return None

    def _require(self, shown: str) -> None:
        if self._accept(shown) is None:
            raise self._expected(f"`{shown}`")

    def _expected(self, what: str, token: _Token | None = None) -> UsageError:
        token = token or self._next
        shown = token.text if token.kind == "end" else f"`{token.text}`"
        return _failure(self._text, token.position, f"expected {what}, found {shown}")

    def _no_value(self, column: Column, token: _Token) -> UsageError:
        error = self._expected("a value", token)
        if token.kind != "word":
            return error
        is_text = column.type == PrimitiveType("string")
        hint = f"text stands in single quotes: '{token.text}'" if is_text else _example(column.type)
        return UsageError(error.message, hint=hint)

    def _or(self) -> Predicate:
        parts = [self._and()]
        while self._accept("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Predicate:
        parts = [self._not()]
        while self._accept("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _failure(self._text, self._next.position, "it is nested too deeply")
        if self._accept("not"):
            predicate: Predicate = Not(self._not())
        elif self._accept("("):
            predicate = self._or()
            self._require(")")
        else:
            predicate = self._condition()
        self._depth -= 1
        return predicate

    def _condition(self) -> Predicate:
        constant = self._accept("true", "false")
        if constant is not None and self._next.text not in _COMPARISONS:
            return Constant(constant == "true")
        if constant is not None or self._next.kind in ("text", "number", "bytes"):
            value = self._tokens[self._at - 1] if constant else self._take()  # on the left
            sign = self._accept(*_COMPARISONS)
            if sign is None:
                raise self._expected("a comparison")
            return self._compare(self._operand(), _TURNED[_COMPARISONS[sign]], value)
        operand = self._operand()
        operator = self._accept(*_COMPARISONS)
        if operator is not None:
            return self._compare(operand, _COMPARISONS[operator], self._take())
        if self._accept("is"):
            return self._is(operand.column)
        negated = self._accept("not") is not None
        predicate = self._listed(operand)
        return Not(predicate) if negated else predicate

    def _is(self, column: Column) -> Predicate:
        negated = self._accept("not") is not None
        token = self._next
        kind = self._accept("null", "nan")
        if kind is None:
            raise self._expected("`null` or `nan`")
        if kind == "nan" and column.type not in (PrimitiveType("float"), PrimitiveType("double")):
            message = f"`{column.name}` is {type_text(column.type)}, which is never NaN"
            raise _failure(self._text, token.position, message)
        predicate = IsNull(column) if kind == "null" else IsNan(column)
        return Not(predicate) if negated else predicate

    def _listed(self, operand: _Operand) -> Predicate:
        if self._accept("in"):
            self._require("(")
            parts = [self._compare(operand, "=", self._take())]
            while self._accept(","):
                parts.append(self._compare(operand, "=", self._take()))
            self._require(")")
            return Or(tuple(parts))
        if self._accept("between"):
            low = self._compare(operand, ">=", self._take())
            self._require("and")
            return And((low, self._compare(operand, "<=", self._take())))
        if self._accept("like"):
            return self._like(operand.column, self._take())
        raise self._expected("a comparison, `in`, `between`, `is` or `like`")

    def _like(self, column: Column, token: _Token) -> Predicate:
        if token.kind != "text":
            raise self._expected("a pattern in single quotes", token)
        if column.type != PrimitiveType("string"):
            message = f"`{column.name}` is {type_text(column.type)}; `like` is for strings"
            raise _failure(self._text, token.position, message)
        pattern = _unquoted(token.text)
        match = re.match(r"(?:[^%_\\]|\\.)*", pattern, re.DOTALL)  # up to the first wildcard
        end = match.end() if match else 0
        prefix, rest = re.sub(r"\\(.)", r"\1", pattern[:end], flags=re.DOTALL), pattern[end:]
        if rest == "%":
            return StartsWith(column, prefix) if prefix else Not(IsNull(column))
        if rest:
            hint = "`_` and `%` stand for themselves after a backslash"
            message = "a pattern is text that ends with one `%`"
            raise _failure(self._text, token.position, message, hint)
        return Compare(column, "=", prefix)

    def _compare(self, operand: _Operand, operator: str, token: _Token) -> Predicate:
        column = operand.column
        if operand.is_day:
            return self._compare_day(column, operator, token)
        value = self._value(column, token)
        match operator:
            case "<" | "<=" | "=":
                return Compare(column, operator, value)
            case "!=":
                return Not(Compare(column, "=", value))
            case ">":
                return Not(Compare(column, "<=", value))
            case _:
                return Not(Compare(column, "<", value))

    def _compare_day(self, column: Column, operator: str, token: _Token) -> Predicate:
        """Return the range of a column in which a condition on its day is true."""
        day_column = Column(f"day({column.name})", PrimitiveType("date"), None)
        day = int(self._value(day_column, token))
        name = column.type.name if isinstance(column.type, PrimitiveType) else ""
        length = _DAY_SECONDS * UNITS_PER_SECOND[name] if name in UNITS_PER_SECOND else 1
        try:
            for value in (day * length, (day + 1) * length):
                encode(column.type, value)
        except (ValueError, ArithmeticError, struct.error) as error:
            message = f"no {type_text(column.type)} is of the day `{token.text}`"
            raise _failure(self._text, token.position, message) from error
        before_day = Compare(column, "<", day * length)
        up_to_day = Compare(column, "<", (day + 1) * length)
        match operator:
            case "<":
                return before_day
            case "<=":
                return up_to_day
            case ">":
                return Not(up_to_day)
            case ">=":
                return Not(before_day)
        is_on_day = And((Not(before_day), up_to_day))
        return is_on_day if operator == "=" else Not(is_on_day)

    def _value(self, column: Column, token: _Token) -> Value:
        if not is_comparable(column.type):
            message = f"`{column.name}` is {type_text(column.type)}; only `is null` works on it"
            raise _failure(self._text, token.position, message)
        if token.text == "null" and token.kind == "keyword":
            hint = f"write `{column.name} is null`"
            raise _failure(self._text, token.position, "null cannot be compared", hint)
        if token.kind not in ("text", "number", "bytes") and token.text not in ("true", "false"):
            raise self._no_value(column, token)
        try:
            value = self._instant(column.type, token)
            if value is None:
                value = _typed(column.type, token)
            encode(column.type, value)  # a value beyond the range of its type has no bytes
        except (ValueError, ArithmeticError, struct.error) as error:
            message = (
                f"cannot compare `{column.name}` ({type_text(column.type)}) with `{token.text}`"
            )
            raise _failure(self._text, token.position, message, _example(column.type)) from error
        return value

    def _instant(self, type_: Type, token: _Token) -> int | None:
        """Return an instant that is relative to now; None for other values. Raises: ValueError."""
        match = _INSTANT.fullmatch(_unquoted(token.text)) if token.kind == "text" else None
        if match is None or type_ not in DATED or self._now_ms is None:
            return None
        try:
            age_ms = parse_duration(match["age"]) if match["age"] else 0
        except UsageError as error:
            raise ValueError(error.message) from error
        return instant_of(type_, self._now_ms - age_ms)

    def _operand(self) -> _Operand:
        first, following = self._next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if (first.kind, following.kind, following.text) != ("word", "sign", "("):
            return _Operand(self._column())
        if first.text.lower() != "day":
            message = f"`{first.text}` is a function, and conditions have only `day`"
            hint = "compare a column itself, or a partition field by its name"
            raise _failure(self._text, first.position, message, hint)
        self._take()
        self._take()
        token = self._next
        column = self._column()
        self._require(")")
        is_field = column.field_id is not None
        if not is_field or column.type not in DATED:
            message = f"`{column.name}` is not a date or timestamp column, and has no `day`"
            raise _failure(self._text, token.position, message, "compare it alone")
        return _Operand(column, is_day=True)

    def _column(self) -> Column:
        first = self._next
        parts = [self._name()]
        while self._accept("."):
            parts.append(self._name())
        name = ".".join(parts)
        field = self._metadata.current_schema.field_named(name)
        if field is not None:
            container = container_of(name, self._metadata.current_schema)
            if container is not None:  # which has no metrics of its parts
                message = f"`{name}` is inside a {container}"
                hint = "conditions are on columns and on fields of structs"
                raise _failure(self._text, first.position, message, hint)
            return Column(name, field.type, field.id)
        return self._partition_field(name, first)

    def _name(self) -> str:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            raise self._expected("a column", token)
        return token.text.strip("`")

    def _partition_field(self, name: str, token: _Token) -> Column:
        types = [
            type_
            for spec in self._metadata.partition_specs
            for item, type_ in zip(
                spec.fields, result_types(spec, self._metadata.schemas), strict=True
            )
            if item.name == name and item.transform.name != "void"  # where it was dropped
        ]
        if not types:
            schema = self._metadata.current_schema
            names = [schema.name_of(id_) or "" for id_ in schema.all_fields]
            names += [item.name for spec in self._metadata.partition_specs for item in spec.fields]
            message = f"the table has no column `{name}`"
            raise _failure(self._text, token.position, message, similar_name_hint(name, names))
        type_ = types[-1]
        if type_ is None or any(other != type_ for other in types):
            message = f"partition field `{name}` has no type that all specs agree on"
            raise _failure(self._text, token.position, message, "use its source column")
        return Column(name, type_, None)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _typed(type_: Type, token: _Token) -> Value:
    """Return the value of a token. Raises: ValueError, ArithmeticError, struct.error."""
    match type_:
        case DecimalType(precision, scale):
            value = Decimal(_of_kind("number", token))
            if abs(unscaled_integer(value, scale)) >= 10**precision:
                raise ValueError(token.text)
            return value
        case FixedType(length):
            content = _bytes(token)
            if len(content) != length:
                raise ValueError(token.text)
            return content
        case PrimitiveType(name) if name in UNITS_PER_SECOND:
            # A date stands for its midnight; a column without a zone takes no zone.
            text = _of_kind("text", token).strip().replace(" ", "T", 1)
            text = text if "T" in text else f"{text}T00:00"
            if not name.startswith("timestamptz") and re.search(r"(Z|[+-]\d\d:\d\d)$", text):
                raise ValueError(text)
            return _whole(parse_timestamp(text, NANOS_PER_SECOND), UNITS_PER_SECOND[name])
        case PrimitiveType(name) if name in _PARSERS:
            return _PARSERS[name](token)
        case _:
            raise ValueError(token.text)


def _of_kind(kind: str, token: _Token) -> str:
    if token.kind != kind:
        raise ValueError(token.text)
    return _unquoted(token.text) if kind == "text" else token.text


def _whole(nanos: int, units_per_second: int) -> int:
    """Return nanoseconds in a coarser unit. Raises: ValueError, when digits would be lost."""
    count, rest = divmod(nanos, NANOS_PER_SECOND // units_per_second)
    if rest:
        raise ValueError(f"{nanos} ns")
    return count


def _integer(bits: int) -> Callable[[_Token], int]:
    def parse(token: _Token) -> int:
        value = int(_of_kind("number", token))
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(token.text)
        return value

    return parse


def _bytes(token: _Token) -> bytes:
    return bytes.fromhex(_of_kind("bytes", token)[2:-1])


_PARSERS: Mapping[str, Callable[[_Token], Any]] = {
    "boolean": lambda token: _of_kind("keyword", token) == "true",
    "int": _integer(32),
    "long": _integer(64),
    # rounded as the column's own values are
    "float": lambda token: _FLOAT.unpack(_FLOAT.pack(float(_of_kind("number", token))))[0],
    "double": lambda token: float(_of_kind("number", token)),
    "date": lambda token: parse_date(_of_kind("text", token)),
    "time": lambda token: _whole(
        parse_clock(_of_kind("text", token), NANOS_PER_SECOND), MICROS_PER_SECOND
    ),
    "string": lambda token: _of_kind("text", token),
    "uuid": lambda token: from_json(PrimitiveType("uuid"), _of_kind("text", token)),
    "binary": _bytes,
}

_EXAMPLES = {
    "boolean": "true",
    "int": "42",
    "long": "42",
    "float": "1.5",
    "double": "1.5",
    "date": "'2024-01-31'",
    "time": "'23:59:59'",
    "string": "'text'",
    "uuid": "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
    "binary": "x'00ff'",
    **dict.fromkeys(("timestamp", "timestamp_ns"), "'2024-01-31T23:59:59'"),
    **dict.fromkeys(("timestamptz", "timestamptz_ns"), "'2024-01-31T23:59:59Z'"),
}


def _example(type_: Type) -> str:
    match type_:
        case DecimalType(_, scale):
            shown = f"{Decimal(1):.{scale}f}"
        case FixedType(length):
            shown = f"x'{'00' * length}'"
        case PrimitiveType(name) if name in _EXAMPLES:
            shown = _EXAMPLES[name]
        case _:
            return f"{type_text(type_)} cannot be compared; use `is null`"
    return f"a value of {type_text(type_)} is written like {shown}"
