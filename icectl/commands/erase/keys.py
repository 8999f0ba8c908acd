"""The keys of a file: Parquet, CSV or text. They hold personal data: no message shows one."""

import csv
import hashlib
import hmac
import io
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.commands.rows.deletion import WantedRows
from icectl.errors import CorruptTable, Refused, Unsupported, UsageError
from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import arrow_values
from icectl.format.metadata import TableMetadata
from icectl.format.schema import similar_name_hint
from icectl.format.single_value import from_json
from icectl.format.types import NestedField, PrimitiveType, Type, is_comparable, type_text
from icectl.rows.find_job import Keys, keys_of

_LEAST_SECRET_BYTES = 16
_LINE = "line"
_WHOLE = {"int": 32, "long": 64}
_OF_MICROSECONDS = ("time", "timestamp", "timestamptz")
_FINER_DIGITS = re.compile(r"\.[0-9]{6}[0-9]*[1-9]")
_ZONE = re.compile("T.*[Z+-]")


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a file: their columns, how many there are, and what tells another set apart."""

    wanted: WantedRows
    columns: tuple[str, ...]
    count: int
    digest: str | None


def read_keys(
    file: str, names: str | None, digest_key: str | None, metadata: TableMetadata
) -> KeySet:
    """Read the keys of a file as values of the table's columns.

    Raises: UsageError, which names the line but no key.
    """
    if not names:
        hint = "`--key-columns user_id` names them"
        raise UsageError("`--keys` needs the columns of the keys", hint=hint)
    columns = _columns(names, metadata)
    secret = None if digest_key is None else _secret(digest_key)
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the keys in {file}: {reason}") from error
    if content[:4] == b"PAR1":
        frame, place = _of_parquet(content, file, columns), "row"
    else:
        frame, place = _of_text(content, file, columns), "line"
    if not len(frame):
        raise UsageError(f"{file} has no key")
    plain = [
        column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in frame.columns
    ]  # fmt: skip
    frame = pa.table(plain, names=frame.column_names)
    _check_distinct(frame, file, place)
    keys = frame.drop_columns([_LINE])
    try:
        rows, within = keys_of(keys, metadata.current_schema)
    except (Refused, Unsupported) as error:
        kinds = ", ".join(f"`{item.name}` is {type_text(item.type)}" for item in columns)
        raise UsageError(
            f"the columns of {file} do not fit those of the table: {kinds}", hint=error.hint
        ) from None
    digest = None if secret is None else _digest(rows, secret)
    return KeySet(WantedRows(rows, within), tuple(keys.column_names), len(keys), digest)


def _columns(names: str, metadata: TableMetadata) -> Sequence[NestedField]:
    fields = {item.name: item for item in metadata.current_schema.fields}
    chosen = []
    for name in names.split(","):
        item = fields.get(name)
        if item is None:
            hint = similar_name_hint(name, list(fields))
            raise UsageError(f"`--key-columns`: the table has no column `{name}`", hint=hint)
        if item in chosen:
            raise UsageError(f"`--key-columns` names `{name}` twice")
        if not is_comparable(item.type):
            raise UsageError(f"`--key-columns`: `{name}` is {type_text(item.type)}, no key")
        chosen.append(item)
    return chosen


def _secret(file: str) -> bytes:
    try:
        secret = Path(file).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"`--digest-key`: cannot read {file}: {reason}") from error
    if len(secret) < _LEAST_SECRET_BYTES:
        raise UsageError(f"`--digest-key`: {file} has fewer than {_LEAST_SECRET_BYTES} bytes")
    return secret


def _digest(keys: Keys, secret: bytes) -> str:
    """Return a digest of a set of keys, whatever their order, and the types in their file."""
    texts: list[str] = []
    for rows in open_data_file(keys.open(), "parquet").batches(None):
        stored = [getattr(column, "storage", column) for column in rows.batch.columns]
        plain = [it if _is_bytes(it.type) else it.cast(pa.string()) for it in stored]
        texts += map(repr, zip(*(it.to_pylist() for it in plain), strict=True))
    made = hmac.new(secret, digestmod=hashlib.sha256)
    for text in sorted(texts):
        made.update(text.encode() + b"\n")
    return f"hmac-sha256:{made.hexdigest()}"


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _of_parquet(content: bytes, file: str, columns: Sequence[NestedField]) -> pa.Table:
    try:
        opened = open_data_file(content, "parquet")
        schema = opened.schema
        batches = [rows.batch for rows in opened.batches(None)]
    except (CorruptTable, Unsupported) as error:
        raise UsageError(f"{file} can't be read as Parquet") from error
    missing = [item.name for item in columns if schema.names.count(item.name) != 1]
    if missing:
        raise UsageError(f"{file} has no column `{missing[0]}`, or several")
    table = pa.Table.from_batches(batches, schema)
    for item in columns:
        column = table[item.name]
        if column.null_count:
            row = pc.index(pc.is_null(column), value=True).as_py() + 1
            raise UsageError(f"{file}, row {row}: `{item.name}` is null, which equals nothing")
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            raise UsageError(f"{file}: column `{item.name}` is not {type_text(item.type)}")
    bare = [pa.field(item.name, table[item.name].type) for item in columns]
    selected = pa.table([table[item.name] for item in columns], schema=pa.schema(bare))
    return selected.append_column(_LINE, pa.array(range(1, len(table) + 1), pa.int64()))


def _of_text(content: bytes, file: str, columns: Sequence[NestedField]) -> pa.Table:
    """Read CSV with a header if the file's name says so, else one key a line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file}, line {line}: it is not UTF-8") from None
    if file.lower().endswith(".csv"):
        rows = _csv_rows(text, file, columns)
    elif len(columns) > 1:
        raise UsageError(
            f"{file} has one key a line, and there are {len(columns)} key columns",
            hint="several columns need a Parquet file, or a `.csv` file with a header",
        )
    else:
        # Only ends of lines end a key: text may hold other separators, as U+2028.
        ended = (line.removesuffix("\n") for line in io.StringIO(text, newline=None))
        rows = ((at, [line]) for at, line in enumerate(ended, 1) if line)
    values: list[list[Any]] = [[] for _ in columns]
    lines = []
    for line, cells in rows:
        for item, cell, column in zip(columns, cells, values, strict=True):
            column.append(_value(item, cell, f"{file}, line {line}"))
        lines.append(line)
    arrays = [arrow_values(item.type, column) for item, column in zip(columns, values, strict=True)]
    names = [*(item.name for item in columns), _LINE]
    return pa.table([*arrays, pa.array(lines, pa.int64())], names=names)


def _csv_rows(
    text: str, file: str, columns: Sequence[NestedField]
) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        for item in columns:
            if header.count(item.name) != 1:
                count = "no" if item.name not in header else "more than one"
                raise UsageError(f"{file}, line 1: {count} column `{item.name}`")
        places = [header.index(item.name) for item in columns]
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise UsageError(
                    f"{file}, line {reader.line_num}: {len(cells)} values, and the header has "
                    f"{len(header)}"
                )
            chosen = [cells[place] for place in places]
            if "" in chosen:
                empty = columns[chosen.index("")].name
                raise UsageError(
                    f"{file}, line {reader.line_num}: `{empty}` is empty, and may stand for null",
                    hint="in a Parquet file, an empty text is a key",
                )
            yield reader.line_num, chosen
    except csv.Error as error:
        raise UsageError(f"{file}, line {reader.line_num}: it is not CSV") from error


def _value(item: NestedField, text: str, place: str) -> Any:
    """Return the value of a cell. Raises: UsageError, without the cell."""
    try:
        value = _parsed(item.type, text)
        arrow_values(item.type, [value])
    except (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException):
        kind = type_text(item.type)
        raise UsageError(f"{place}: `{item.name}` is not {kind}") from None
    return value


def _parsed(type_: Type, text: str) -> Any:
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "string":
        return text
    if name in _WHOLE:
        value = int(text)
        if not text.isascii() or "_" in text or not -(2 ** (_WHOLE[name] - 1)) <= value:
            raise ValueError
        return value
    if name in ("float", "double"):
        number = Decimal(text)
        real = float(number)
        if name == "float":
            struct.pack("<f", real)  # it raises where it would be infinite
        if math.isinf(real) and number.is_finite():
            raise ValueError
        return real
    if name == "boolean":
        return {"true": True, "false": False}[text.lower()]
    if name in _OF_MICROSECONDS and _FINER_DIGITS.search(text):
        raise ValueError
    if name in ("timestamp", "timestamp_ns") and _ZONE.search(text):
        raise ValueError
    return from_json(type_, text)


def _check_distinct(frame: pa.Table, file: str, place: str) -> None:
    names = [name for name in frame.column_names if name != _LINE]
    groups = frame.group_by(names).aggregate([(_LINE, "count"), (_LINE, "max")])
    again = groups.filter(pc.greater(groups[f"{_LINE}_count"], 1))
    if len(again):
        first = pc.min(again[f"{_LINE}_max"]).as_py()
        raise UsageError(f"{file}, {place} {first}: a repeated key")
