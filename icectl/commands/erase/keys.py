"""The keys of a file, Parquet, CSV or text, or of a table.

They hold personal data: no message shows one.
"""

import csv
import hashlib
import hmac
import io
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.read import Selection, load_from
from icectl.errors import CorruptTable, IcectlError, Refused, TableNotFound, Unsupported, UsageError
from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import arrow_schema, arrow_values
from icectl.format.metadata import TableMetadata
from icectl.format.schema import similar_name_hint
from icectl.format.single_value import from_json
from icectl.format.types import NestedField, PrimitiveType, Type, is_comparable, type_text
from icectl.rows.compact_job import file_group
from icectl.rows.find_job import MOST_KEPT_BYTES, Keys, keys_of, sorted_in
from icectl.rows.rewrite_data import RowsRead, live_batches
from icectl.rows.spark_frames import LoadJob
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import loosest_key
from icectl.table.context import TableContext, open_table
from icectl.table.rewrite_tasks import RewriteTask
from icectl.units import iso_instant

_LEAST_SECRET_BYTES = 16
_LINE, _ASKED = "\0line", "\0asked"
"""Columns beside the keys: their lines, and when each was asked for. No column has such a name."""

_PART = 50_000
"""Lines that are read at once."""

_WHOLE = {"int": 32, "long": 64}
_MISFITS = (ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)
_OF_MICROSECONDS = ("time", "timestamp", "timestamptz")
_FINER_DIGITS = re.compile(r"\.[0-9]{6}[0-9]*[1-9]")
_ZONE = re.compile("T.*[Z+-]")


class NoKeys(UsageError):
    """A file of keys that has none; a queue may be empty."""


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a file: their columns, how many there are, and what tells another set apart."""

    wanted: WantedRows
    columns: tuple[str, ...]
    count: int
    digest: str | None


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file or table of keys: `names` are the columns that make a key, with commas between them.

    Column `requested_at` says when each was asked for, else the time of the file, or of the table's
    newest snapshot. In a queue (`is_queue`) a key may be repeated: it counts once, from when it was
    first asked for. `other` connects to a table; without it there are files alone.
    """

    file: str
    names: str
    requested_at: str | None = None
    is_queue: bool = False
    other: Callable[[str], TableContext] | None = None

    def overdue(
        self, metadata: TableMetadata, before_ms: int, files: ExitStack
    ) -> WantedRows | None:
        """Return the rows with a key that was asked for before a time; None without such a key.

        Raises: as read_keys.
        """
        frame, place, changed_ms = _frame(self, metadata, self.requested_at)
        if self.requested_at is not None:
            frame = frame.filter(pc.less(frame[_ASKED], before_ms))
        elif changed_ms >= before_ms:
            return None
        if not len(frame):
            return None
        return _key_set(frame, self, place, metadata, None, files).wanted


def read_keys(
    file: KeyFile,
    digest_key: str | None,
    metadata: TableMetadata,
    files: ExitStack | None = None,
) -> KeySet:
    """Read the keys of a file or table as values of the table's columns.

    Many of them are kept in a temporary folder until `files` is closed; without it in memory.

    Raises: NoKeys; UsageError, which names the line but no key.
    """
    _columns(file.names, metadata)
    secret = None if digest_key is None else _secret(digest_key)
    frame, place, _ = _frame(file, metadata, None)
    return _key_set(frame, file, place, metadata, secret, files)


def _frame(
    keys: KeyFile, metadata: TableMetadata, requested_at: str | None
) -> tuple[pa.Table, str, int]:
    """Return keys, what a line of them is called, and when they changed last, in ms.

    Raises: NoKeys; UsageError.
    """
    columns, path = _columns(keys.names, metadata), Path(keys.file)
    try:
        content = None
        if keys.other is None or (path.exists() and not path.is_dir()):
            content, changed_ms = path.read_bytes(), path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the keys in {keys.file}: {reason}") from error
    frame, place = None, "row"
    if content is None:
        frame, changed_ms = _of_table(keys, metadata, columns, requested_at)
    elif content[:4] == b"PAR1":
        frame = _of_parquet(content, keys.file, columns, requested_at)
    elif content:
        frame, place = _of_text(content, keys.file, columns, requested_at), "line"
    if not frame:
        raise NoKeys(f"{keys.file} has no key")
    return frame, place, changed_ms


def _key_set(
    frame: pa.Table,
    file: KeyFile,
    place: str,
    metadata: TableMetadata,
    secret: bytes | None,
    files: ExitStack | None,
) -> KeySet:
    frame = frame.select([name for name in frame.column_names if name != _ASKED])
    plain = [
        column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in frame.columns
    ]  # fmt: skip
    frame = pa.table(plain, names=frame.column_names)
    keys = _distinct(frame, file, place)
    try:
        rows, within = keys_of(keys, metadata.current_schema)
    except (Refused, Unsupported) as error:
        columns = _columns(file.names, metadata)
        kinds = ", ".join(f"`{item.name}` is {type_text(item.type)}" for item in columns)
        raise UsageError(
            f"the columns of {file.file} do not match those of the table: {kinds}", hint=error.hint
        ) from None
    digest = None if secret is None else _digest(rows, secret)
    if files is not None and len(rows.content) > MOST_KEPT_BYTES:
        folder = files.enter_context(TemporaryDirectory(prefix="icectl-keys-"))
        rows = sorted_in(Path(folder), rows, metadata.current_schema)
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


def _of_parquet(
    content: bytes, file: str, columns: Sequence[NestedField], requested_at: str | None
) -> pa.Table:
    names = [item.name for item in columns]
    try:
        opened = open_data_file(content, "parquet")
        schema = opened.schema
        missing = [
            name
            for name in (*names, *filter(None, [requested_at]))
            if schema.names.count(name) != 1
        ]
        if missing:
            raise UsageError(f"{file} has no column `{missing[0]}`, or several")
        batches = [rows.batch for rows in opened.batches(None)]
    except (CorruptTable, Unsupported) as error:
        raise UsageError(f"{file} can't be read as Parquet") from error
    return _chosen(pa.Table.from_batches(batches, schema), file, columns, requested_at)


def _of_table(
    keys: KeyFile,
    metadata: TableMetadata,
    columns: Sequence[NestedField],
    requested_at: str | None,
) -> tuple[pa.Table, int]:
    """Return the keys in a table, and when the snapshot with them was made, in ms.

    Raises: UsageError, also for the table that the keys are to go from.
    """
    assert keys.other is not None
    names = [*(item.name for item in columns), *filter(None, [requested_at])]
    selection = Selection(columns=list(dict.fromkeys(names)))
    try:
        context = keys.other(keys.file)
        of_keys = open_table(context.catalog).metadata
        _check_other(keys, of_keys, metadata)
        frame = load_from(of_keys, context, _Rows(context), selection)
    except UsageError:
        raise
    except IcectlError as error:
        reason = error.message
        if isinstance(error, TableNotFound):
            reason = f"there is no such file; {reason}"
        raise UsageError(
            f"cannot read the keys in {keys.file}: {reason}", hint=error.hint
        ) from error
    newest = of_keys.current_snapshot
    changed_ms = 0 if newest is None else newest.timestamp_ms
    return _chosen(frame, keys.file, columns, requested_at), changed_ms


def _check_other(keys: KeyFile, of_keys: TableMetadata, metadata: TableMetadata) -> None:
    if loosest_key(of_keys.location) == loosest_key(metadata.location):
        raise UsageError(f"the keys in {keys.file} are rows of the table itself, and would go, too")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Reads the live rows of tasks in this process."""

    context: TableContext

    def load(self, tasks: Sequence[RewriteTask], job: LoadJob) -> pa.Table:
        """Return the columns of all rows. Raises: as live_batches."""
        outputs = FileOutputs.without_places(self.context.store)
        schema = arrow_schema(job.rows.columns)
        groups = (file_group(task, job.reading) for task in tasks)
        batches = (one for group in groups for one in live_batches(group, outputs, RowsRead()))
        parts = [batch.select(list(range(len(schema)))) for batch in batches]
        return pa.Table.from_batches(parts, schema)


def _chosen(
    table: pa.Table, file: str, columns: Sequence[NestedField], requested_at: str | None
) -> pa.Table:
    """Return the keys, their rows, and when each was asked for, of a table with such columns."""
    names = [item.name for item in columns]
    for item in columns:
        column = table[item.name]
        _check_given(column, file, item.name)
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            raise UsageError(f"{file}: column `{item.name}` is not {type_text(item.type)}")
    bare = [pa.field(name, table[name].type) for name in names]
    selected = pa.table([table[name] for name in names], schema=pa.schema(bare))
    if requested_at is not None:
        column = table[requested_at]
        _check_given(column, file, requested_at)
        if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
            raise UsageError(f"{file}: column `{requested_at}` has no dates or times")
        asked = column.cast(pa.timestamp("ms", column.type.tz), safe=False) if (
            pa.types.is_timestamp(column.type)
        ) else column.cast(pa.timestamp("ms"))  # fmt: skip
        selected = selected.append_column(_ASKED, asked.cast(pa.int64()))
    return selected.append_column(_LINE, pa.array(range(1, len(table) + 1), pa.int64()))


def _check_given(column: pa.ChunkedArray, file: str, name: str) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), value=True).as_py() + 1
        raise UsageError(f"{file}, row {row}: `{name}` is null, and null matches no row")


def _of_text(
    content: bytes, file: str, columns: Sequence[NestedField], requested_at: str | None
) -> pa.Table:
    """Read CSV with a header if the file's name says so, else one key a line."""
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file}, line {line}: it is not UTF-8") from None
    if not content.endswith((b"\n", b"\r")):
        line = content.count(b"\n") + 1
        raise UsageError(
            f"{file}, line {line}: it has no line end, and may be half of a key",
            hint="end the file with a newline; to change it, write another and rename that",
        )
    rows: Iterator[tuple[int, Sequence[str]]]
    if file.lower().endswith(".csv"):
        asked = [] if requested_at is None else [requested_at]
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")
        rows = _csv_rows(text, file, [*(item.name for item in columns), *asked])
    elif len(columns) > 1 or requested_at is not None:
        more = (
            f"there are {len(columns)} key columns"
            if requested_at is None
            else f"no column `{requested_at}` that says when each was requested"
        )
        raise UsageError(
            f"{file} has one key a line, and {more}",
            hint="several columns need a Parquet file, or a `.csv` file with a header",
        )
    else:
        # Only ends of lines end a key: text may hold other separators, as U+2028.
        text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=None)
        ended = (line.removesuffix("\n") for line in text)
        rows = ((at, [line]) for at, line in enumerate(ended, 1) if line)
    parts = [_typed(part, file, columns) for part in iter(lambda: list(islice(rows, _PART)), [])]
    if not parts:
        raise NoKeys(f"{file} has no key")
    return pa.concat_tables(parts)


def _typed(
    rows: Sequence[tuple[int, Sequence[str]]], file: str, columns: Sequence[NestedField]
) -> pa.Table:
    """Return the keys of some lines, and when they were asked for where cells say so."""
    arrays = []
    for at, item in enumerate(columns):
        try:
            arrays.append(arrow_values(item.type, [_parsed(item.type, it[at]) for _, it in rows]))
        except _MISFITS:
            for line, cells in rows:
                _check_value(item, cells[at], f"{file}, line {line}")
            raise
    asked = [_instant(it[-1], f"{file}, line {line}") for line, it in rows if len(it) > len(arrays)]
    names = [item.name for item in columns]
    if asked:
        arrays, names = [*arrays, pa.array(asked, pa.int64())], [*names, _ASKED]
    lines = pa.array([line for line, _ in rows], pa.int64())
    return pa.table([*arrays, lines], names=[*names, _LINE])


def _instant(text: str, place: str) -> int:
    """Return the time of a cell in ms. Raises: UsageError, without the cell."""
    instant = iso_instant(text.strip())
    if instant is None:
        raise UsageError(f"{place}: its time of request is not in ISO 8601")
    return instant


def _csv_rows(
    text: Iterable[str], file: str, names: Sequence[str]
) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(text, strict=True)
    try:
        header = next(reader, [])
        for name in names:
            if header.count(name) != 1:
                count = "no" if name not in header else "more than one"
                raise UsageError(f"{file}, line 1: {count} column `{name}`")
        places = [header.index(name) for name in names]
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
                empty = names[chosen.index("")]
                raise UsageError(
                    f"{file}, line {reader.line_num}: `{empty}` is empty, and may stand for null",
                    hint="use a Parquet file if an empty string is a key",
                )
            yield reader.line_num, chosen
    except csv.Error as error:
        raise UsageError(f"{file}, line {reader.line_num}: it is not CSV") from error


def _check_value(item: NestedField, text: str, place: str) -> None:
    """Raises: UsageError, without the cell, if it is no value of a column."""
    try:
        arrow_values(item.type, [_parsed(item.type, text)])
    except _MISFITS:
        kind = type_text(item.type)
        raise UsageError(f"{place}: `{item.name}` is not {kind}") from None


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


def _distinct(frame: pa.Table, file: KeyFile, place: str) -> pa.Table:
    """Return the keys without their lines. Raises: UsageError, if one is repeated in no queue."""
    names = [name for name in frame.column_names if name != _LINE]
    groups = frame.group_by(names).aggregate([(_LINE, "count"), (_LINE, "max")])
    if file.is_queue:
        return groups.select(names)
    again = groups.filter(pc.greater(groups[f"{_LINE}_count"], 1))
    if len(again):
        first = pc.min(again[f"{_LINE}_max"]).as_py()
        raise UsageError(f"{file.file}, {place} {first}: a repeated key")
    return frame.select(names)
