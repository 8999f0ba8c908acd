"""Columns, types and values of random tables: plain JSON of the format, the same for the same seed.

A type is what stands in the JSON of a schema; a value is what PySpark takes for it. Values of a
column come from a small pool of its own, most of them hard, so that partitions, deletes by value
and filters meet the same value more than once.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

Type = str | dict[str, Any]
Json = dict[str, Any]

NAMES = (
    "plain", "with space", "dot.ted", "two.dots.here", "UPPER", "naïve", "日本", "1digit", "eq=ual",
    "per%cent", "slash/ed", "back\\slash", "quo'te", 'dou"ble', "com,ma", "semi;colon", "plus+plus",
    "hash#", "amp&ersand", "que?ry", "col:on", "star*", "under_score", "_x2E", "bra[cket]", "at@",
    "tab\there", "paren(s)", "less<more>", "emoji😀", "trailing ", "select", "a-b", "$dollar",
    "tilde~", "x" * 70, "element", "key_value", "partition", "file_path", "row_id",
)  # fmt: skip
FIXED_LENGTHS = (1, 4, 7, 16)
DECIMALS = ((1, 0), (4, 2), (9, 2), (10, 3), (18, 9), (19, 0), (28, 14), (38, 10), (38, 38))
LONGEST_IN_A_PATH = 40
_PLAIN = (
    "boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string",
    "uuid", "binary",
)  # fmt: skip
_KEYS = ("int", "long", "string", "date", "uuid", "timestamp", "boolean", "decimal(9, 2)")
_HARD_STRINGS = (
    "", "a", "A", " ", "null", "\uffff", "\uffff" * 20, "\U0010ffff" * 17, "a/b=c%20d", "é😀ß",
    "x" * 15 + "1", "x" * 16, "x" * 16 + "1", "x" * 16 + "2", "z" * 300,
    "__HIVE_DEFAULT_PARTITION__", "line\nbreak", "\x01", "..", "-0.0", "1970-01-01", "\ud7ff",
    "\ue000",
)  # fmt: skip
_MICRO = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without zone are naive ones
_HARD_TIMES = (
    _EPOCH, _EPOCH - _MICRO, _EPOCH + _MICRO, _EPOCH - timedelta(seconds=1),
    _EPOCH - timedelta(seconds=1, microseconds=-1), _EPOCH - timedelta(milliseconds=500),
    _EPOCH - timedelta(days=1, microseconds=1), _EPOCH - timedelta(days=366),
    _EPOCH.replace(year=1969, month=12, day=31, hour=12, microsecond=123456),
    _EPOCH.replace(year=1900, microsecond=1), _EPOCH.replace(year=1900) - timedelta(milliseconds=1),
    _EPOCH.replace(year=2024, month=2, day=29, hour=23, minute=59, second=59, microsecond=999999),
    _EPOCH.replace(year=2200, microsecond=10), _EPOCH.replace(year=1700, microsecond=999000),
)  # fmt: skip
_FAR_TIMES = (
    _EPOCH.replace(year=2, month=3), _EPOCH.replace(year=1582, month=10, day=10, microsecond=7),
    _EPOCH.replace(year=9998, month=12, day=31, microsecond=999999),
)  # fmt: skip
_HARD_DATES = (
    date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10),
    date(2024, 2, 29), date(1900, 2, 28), date(1968, 2, 29),
)  # fmt: skip
_HARD_DOUBLES = (
    float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, -1.5, 5e-324, 1.7976931348623157e308,
    -1.7976931348623157e308, 0.1,
)  # fmt: skip
_HARD_FLOATS = (
    float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, -1.5, 2.0**-149, -(2.0**-126),
    (2.0 - 2.0**-23) * 2.0**127, 0.5,
)  # fmt: skip
_HARD_BYTES = (b"", b"\0", b"\xff", b"\xff" * 20, b"\0" * 17, b"x" * 16 + b"\xff", bytes(range(24)))


_PART_NAMES = ("a", "b", "with space", "é", "x" * 30, "dot.ted", "quo'te")
_PARTS: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: rng.choice((0, -1, 127, 128, -32769, 2**31, -(2**63))),
    lambda rng: rng.randrange(100),
    lambda rng: rng.choice(("", "short", "é😀", "y" * 70)),
    lambda rng: rng.choice((1.5, -0.25, 12345678.75)),
    lambda rng: rng.choice((1e300, 5e-324)),
    lambda rng: rng.choice((True, False, None)),
    lambda rng: rng.choice((1, "mixed", None)),
    lambda rng: {"inner": rng.randrange(9), "text": rng.choice(("p", "q"))},
    lambda rng: [rng.randrange(9) for _ in range(rng.randrange(3))],
)
"""Makers of parts of objects, most of one type: columns of shredded variants."""
_HARD_JSON: tuple[Any, ...] = (
    None, {}, [], [None], [[], {}], {"a": {"a": {"a": [1, "x"]}}}, "z" * 64, "", True, 2**63 - 1,
    {f"k{number}": number for number in range(40)}, [{"a": 1}, {"b": 2}], 0.1, 1e-300,
)  # fmt: skip
_HARD_VARIANTS = (
    b"\x0c\x80", b"\x10\0\x80", b"\x1c" + struct.pack("<d", float("nan")),
    b"\x38" + struct.pack("<f", -0.0), b"\x20\x02" + struct.pack("<i", -1),
    b"\x24\x12" + struct.pack("<q", 10**18 - 1), b"\x28\x26" + (10**37).to_bytes(16, "little"),
    b"\x2c" + struct.pack("<i", -1), b"\x30" + struct.pack("<q", -1),
    b"\x34" + struct.pack("<q", -(10**15)), b"\x3c\x02\0\0\0\0\xff",
)  # fmt: skip
"""Small integers, reals, decimals, a date, timestamps with and without a zone, and bytes."""


def primitive(rng: random.Random) -> str:
    """Any type without fields that Spark knows."""
    chosen = rng.choice((*_PLAIN, "decimal", "decimal", "fixed"))
    if chosen == "decimal":
        return "decimal({}, {})".format(*rng.choice(DECIMALS))
    return f"fixed[{rng.choice(FIXED_LENGTHS)}]" if chosen == "fixed" else chosen


class Maker:
    """Makes columns of one table: names that differ by more than case, ids that differ."""

    def __init__(self, rng: random.Random, version: int = 1) -> None:
        self.rng = rng
        self.version = version
        self.last_id = 0

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def name(self, taken: set[str]) -> str:
        """A name that none of `taken`, in lower case, has; it joins them."""
        free = [name for name in NAMES if name.lower() not in taken]
        name = self.rng.choice(free) if free else f"more {len(taken)}"
        taken.add(name.lower())
        return name

    def type_of(self, depth: int = 0) -> Type:
        """A type of at most three levels."""
        chosen = self.rng.random()
        if depth > 1 or chosen < (0.72 if depth == 0 else 0.6):
            return primitive(self.rng)
        if chosen < 0.84:
            return self.struct(self.rng.randint(1, 3), depth)
        required = self.rng.random() < 0.4
        if chosen < 0.93:
            return {
                "type": "list",
                "element-id": self.next_id(),
                "element-required": required,
                "element": self.type_of(depth + 1),
            }
        return {
            "type": "map", "key-id": self.next_id(), "key": self.rng.choice(_KEYS),
            "value-id": self.next_id(), "value-required": required,
            "value": self.type_of(depth + 1),
        }  # fmt: skip

    def struct(self, count: int, depth: int) -> Json:
        taken: set[str] = set()
        return {"type": "struct", "fields": [self.field(taken, depth + 1) for _ in range(count)]}

    def field(self, taken: set[str], depth: int = 0) -> Json:
        return {
            "id": self.next_id(),
            "name": self.name(taken),
            "required": self.rng.random() < 0.3,
            "type": self.type_of(depth),
        }

    def schema(self, column_count: int) -> Json:
        """A required long, which tells rows from others, and random columns after it."""
        taken: set[str] = set()
        first = {"id": self.next_id(), "name": self.name(taken), "required": True, "type": "long"}
        fields = [first, *(self.field(taken) for _ in range(column_count - 1))]
        if self.version >= 3 and self.rng.random() < 0.2:
            fields[-1] |= {"required": False, "type": "unknown"}
        return {"type": "struct", "schema-id": 0, "fields": fields}


def variants(seed: int, version: int) -> tuple[list[tuple[str, Type]], Json]:
    """Columns of variants of a table, by names and types without ids, and properties for them.

    From a stream of their own: tables without any, all below version 3, stay what they were.
    """
    rng = random.Random(f"{seed} variants")
    if version < 3 or rng.random() > 0.8:
        return [], {}
    inside = {"id": 2, "name": "v", "required": False, "type": "variant"}
    number = {"id": 3, "name": "n", "required": False, "type": "int"}
    optional = {"element-required": False, "value-required": False}
    kinds: tuple[Type, ...] = (
        "variant",
        {"type": "struct", "fields": [inside, number]},
        {"type": "list", "element-id": 2, "element": "variant", **optional},
        {"type": "map", "key-id": 3, "key": "int", "value-id": 2, "value": "variant", **optional},
    )
    chosen = [("a variant", kinds[0])]
    if rng.random() < 0.5:
        chosen.append(("variants inside", rng.choice(kinds[1:])))
    # The vectorized reader of Iceberg 1.12 fails on variants that are shredded or in lists.
    shredded = str(rng.random() < 0.7).lower()
    settings = {"read.parquet.vectorization.enabled": "false"}
    return chosen, settings | {"write.parquet.shred-variants": shredded}


def leaves(
    fields: list[Json], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Fields of which a row has one value, below structs too, each with its path."""
    for field in fields:
        path = (*above, field["name"])
        kind = field["type"]
        if isinstance(kind, str):
            yield path, field
        elif kind["type"] == "struct":
            yield from leaves(kind["fields"], path)


def pool(seed: str, kind: str) -> list[Any]:
    """The values of one column, six or fewer; hard ones more often than not."""
    rng = random.Random(f"{seed} {kind}")
    if kind == "variant":
        return _variants(rng)
    hard = _hard(kind, far=rng.random() < 0.04)
    chosen = rng.sample(hard, min(4, len(hard)))
    if kind in ("float", "double"):
        # Java's reader of ORC takes zeros of both signs, side by side, all for the first.
        zeros = [value for value in chosen if value == 0]
        chosen = [zeros[0] if value == 0 else value for value in chosen]
    return chosen + [_soft(rng, kind) for _ in range(2)] if kind != "boolean" else chosen


def _variants(rng: random.Random) -> list[Any]:
    """Objects that are alike, so that they are shredded, and what does not fit in with them."""
    from pyspark.sql.types import VariantVal  # tests without Spark have all else

    shapes = {name: rng.choice(_PARTS) for name in rng.sample(_PART_NAMES, 3)}
    objects = [
        {name: make(rng) for name, make in shapes.items() if rng.random() < 0.9} for _ in range(4)
    ]
    whole = [json.dumps(one) for one in (*objects, rng.choice(_HARD_JSON))]
    alone = VariantVal(rng.choice(_HARD_VARIANTS), b"\x01\0\0")
    return [*map(VariantVal.parseJson, whole), alone]


def fits_a_path(seed: str, kind: str) -> bool:
    """Whether all values of a column may be names of folders."""
    if kind not in ("string", "binary"):
        return True
    return all(len(str(value).encode()) <= LONGEST_IN_A_PATH for value in pool(seed, kind))


def _hard(kind: str, *, far: bool) -> list[Any]:
    """Values at the edges of a primitive type."""
    times = _HARD_TIMES + (_FAR_TIMES if far else ())
    known: dict[str, Any] = {
        "boolean": (True, False),
        "int": (0, -1, 1, 2**31 - 1, -(2**31)),
        "long": (0, -1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)),
        "float": _HARD_FLOATS,
        "double": _HARD_DOUBLES,
        "date": _HARD_DATES,
        "timestamp": times,
        "timestamptz": tuple(time.replace(tzinfo=UTC) for time in times),
        "string": _HARD_STRINGS,
        "uuid": (
            "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "80000000-0000-0000-8000-000000000000", "7fffffff-ffff-ffff-7fff-ffffffffffff",
            "00000000-0000-0000-ffff-000000000001",
        ),
        "binary": _HARD_BYTES,
        "unknown": (None,),
    }  # fmt: skip
    if kind.startswith("decimal"):
        precision, scale = decimal_of(kind)
        most = 10**precision - 1
        return [Decimal(f"{value}E-{scale}") for value in (0, 1, -1, most, -most)]
    if kind.startswith("fixed"):
        length = int(kind[6:-1])
        return [b"\0" * length, b"\xff" * length, b"\x7f" * length, b"\x80" + b"\0" * (length - 1)]
    return list(known[kind])


def _soft(rng: random.Random, kind: str) -> Any:
    """An ordinary value of a primitive type."""
    if kind.startswith("decimal"):
        precision, scale = decimal_of(kind)
        return Decimal(f"{rng.randrange(10 ** rng.randint(1, precision))}E-{scale}")
    if kind.startswith("fixed"):
        return rng.randbytes(int(kind[6:-1]))
    moment = _EPOCH + timedelta(microseconds=rng.randrange(-(10**15), 2 * 10**15))
    made: dict[str, Any] = {
        "boolean": True,
        "int": rng.randrange(-1000, 1000),
        "long": rng.randrange(-(10**12), 10**12),
        "float": rng.randrange(-4000, 4000) / 8,
        "double": rng.uniform(-1e6, 1e6),
        "date": date(1970, 1, 1) + timedelta(days=rng.randrange(-9000, 30000)),
        "timestamp": moment,
        "timestamptz": moment.replace(tzinfo=UTC),
        "string": rng.choice(("alpha", "beta", "gamma", "delta")) + str(rng.randrange(9)),
        "uuid": str(UUID(int=rng.getrandbits(128))),
        "binary": rng.randbytes(rng.randrange(1, 12)),
        "unknown": None,
    }
    return made[kind]


def decimal_of(kind: str) -> tuple[int, int]:
    """Precision and scale of `decimal(p, s)`."""
    precision, scale = kind[8:-1].split(",")
    return int(precision), int(scale)


def value(rng: random.Random, seed: str, field_id: int, kind: Type, *, required: bool) -> Any:
    """A value of a type, as PySpark takes it."""
    if not required and rng.random() < 0.2:
        return None
    if isinstance(kind, str):
        return rng.choice(pool(f"{seed} {field_id}", kind))
    if kind["type"] == "struct":
        return row(rng, seed, kind["fields"])
    count = rng.choice((0, 1, 1, 2, 3))
    if kind["type"] == "list":
        of, needed = kind["element"], kind["element-required"]
        return [value(rng, seed, kind["element-id"], of, required=needed) for _ in range(count)]
    of, needed = kind["value"], kind["value-required"]
    keys = [value(rng, seed, kind["key-id"], kind["key"], required=True) for _ in range(count)]
    return {key: value(rng, seed, kind["value-id"], of, required=needed) for key in keys}


def row(rng: random.Random, seed: str, fields: list[Json]) -> tuple[Any, ...]:
    """A value for each field."""
    return tuple(
        value(rng, seed, field["id"], field["type"], required=field["required"]) for field in fields
    )
