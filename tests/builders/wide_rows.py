"""Rows of wide values on disk, and a rewrite of them in a process of its own that tells its peak.

    python -m tests.builders.wide_rows DIRECTORY JSON

The JSON is the keyword arguments of a `Case`. Values come again after a few rows, so that little is
stored of much.
"""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icectl.files.parquet.schema import schema_from_arrow
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec
from icectl.format.sort import order_from_json
from icectl.rows.deleted_positions import PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.jobs import SORT_BYTES
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import SourceFile, written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, rewrite_data
from icectl.rows.sort_rows import Curve, Sorting
from icectl.rows.write_data import FileOutputs, write_options

_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class Case:
    """One rewrite; `total_bytes` are those of the values, decoded."""

    width: int
    total_bytes: int = 1 << 30
    file_format: str = "parquet"
    shape: str = "flat"
    """flat; list: four values a row; late: a tenth of the bytes narrow, then wide ones."""
    stored: str = "dictionary"
    """dictionary or plain, of Parquet."""
    order: str = ""
    """asc or z, by the wide column."""
    deletes: str = ""
    """equality or position."""
    columns: int = 1
    """Wide columns, all with the same values; of flat Parquet files."""


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _schema(case: Case, text: pa.DataType) -> pa.Schema:
    kind = pa.list_(_field("element", text, 3)) if case.shape == "list" else text
    more = [_field(f"name{number}", text, 2 + number) for number in range(1, case.columns)]
    return pa.schema([_field("id", pa.int64(), 1), _field("name", kind, 2), *more])


def values(width: int) -> list[str]:
    """Different texts of a width, none of which is a part of another one or compresses well."""
    chance = np.random.default_rng(width)
    letters = chance.integers(97, 123, (64 if width < 10_000 else 4, width), np.uint8)
    return [row.tobytes().decode() for row in letters]


def _pieces(case: Case) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids and dictionary-encoded values, some at a time."""
    number = 0
    left = case.total_bytes
    if case.shape == "late":
        number = left // 10 // 16
        yield pa.array(range(number)), _encoded(["narrow"], np.zeros(number, np.int32))
    texts = values(case.width)
    per_row = 4 if case.shape == "list" else 1
    left //= case.columns
    while left > 0:
        rows = max(1, min(left, _PIECE_BYTES) // (case.width * per_row))
        left -= rows * case.width * per_row
        column = _encoded(texts, (np.arange(rows * per_row) % len(texts)).astype(np.int32))
        if per_row > 1:
            column = pa.ListArray.from_arrays(np.arange(0, rows * 4 + 1, 4, np.int32), column)
        yield pa.array(range(number, number + rows)), column
        number += rows


def _encoded(texts: list[str], codes: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts))


def write(case: Case, path: Path) -> int:
    """Write the rows of a case; how many there are."""
    writers = {"parquet": _write_parquet, "orc": _write_orc, "avro": _write_avro}
    return writers[case.file_format](case, path)


def _write_parquet(case: Case, path: Path) -> int:
    encoded = case.stored == "dictionary"
    text = pa.dictionary(pa.int32(), pa.string()) if encoded else pa.string()
    schema = _schema(case, text)
    count = 0
    options: dict[str, Any] = {"dictionary_pagesize_limit": 1 << 30} if encoded else {}
    at_a_time = max(1, min(1024, (1 << 20) // case.width))
    with pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=_coded(case), store_schema=False,
        data_page_size=1 << 20, write_batch_size=at_a_time, **options,
    ) as writer:  # fmt: skip
        held: list[pa.Table] = []
        for ids, column in _pieces(case):
            count += len(ids)
            wide = [column if encoded else _dense(column)] * case.columns
            held.append(pa.Table.from_arrays([ids, *wide], schema=schema))
            if not encoded:
                writer.write_table(held.pop())
        if held:
            writer.write_table(pa.concat_tables(held).unify_dictionaries(), row_group_size=count)
    return count


def _coded(case: Case) -> list[str]:
    path = "name.list.element" if case.shape == "list" else "name"
    paths = [path, *(f"name{number}" for number in range(1, case.columns))]
    return paths if case.stored == "dictionary" else []


def _dense(column: pa.Array) -> pa.Array:
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, column.values.dictionary_decode())
    return column.dictionary_decode()


def _write_orc(case: Case, path: Path) -> int:
    def field(one: pa.Field) -> pa.Field:
        kind = pa.list_(field(one.type.value_field)) if pa.types.is_list(one.type) else one.type
        number = one.metadata[b"PARQUET:field_id"].decode()
        return pa.field(one.name, kind, metadata={"iceberg.id": number})

    schema = pa.schema([field(one) for one in _schema(case, pa.string())])
    count = 0
    with orc.ORCWriter(
        path, compression="zstd", dictionary_key_size_threshold=1.0, stripe_size=64 << 20
    ) as writer:
        for ids, column in _pieces(case):
            count += len(ids)
            writer.write(pa.Table.from_arrays([ids, _dense(column)], schema=schema))
    return count


def _write_avro(case: Case, path: Path) -> int:
    text: Any = "string"
    if case.shape == "list":
        text = {"type": "array", "items": "string", "element-id": 3}
    fields = [("id", "long", 1), ("name", text, 2)]
    schema = {"type": "record", "name": "rows", "fields": [
        {"name": name, "type": kind, "field-id": number} for name, kind, number in fields
    ]}  # fmt: skip
    count = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal count
        for ids, column in _pieces(case):
            count += len(ids)
            texts = column.to_pylist()
            for number, value in zip(ids.to_pylist(), texts, strict=True):
                yield {"id": number, "name": value}

    with path.open("wb") as file:
        fastavro.writer(file, schema, records(), codec="deflate")
    return count


def rewrite(case: Case, directory: Path) -> dict[str, int]:
    """Rewrite the file of a case in this process; what is told of it."""
    path = directory / f"wide.{case.file_format}"
    row_count = int((path.parent / "rows").read_text())
    columns = schema_from_arrow(_schema(case, pa.string()))
    location = str(path)
    group = FileGroup(
        (SourceFile(location, case.file_format, row_count, 1),),
        path.stat().st_size,
        _deletes(case, directory, location),
        TableColumns(written_schema(columns, 2), columns),
        PartitionSpec(0, ()),
        Partition(b"", ""),
        _sorting(case),
    )
    options = write_options({}, 512 << 20, metrics_modes({}, columns, ()))
    found = rewrite_data(group, options, _outputs(directory))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
    return {
        "peak_bytes": peak,
        "row_count": found.totals.row_count,
        "deleted": found.deleted_row_count,
    }


def _sorting(case: Case) -> Sorting | None:
    if case.order == "z":
        return Sorting(Curve((2, 1)), SORT_BYTES)
    if not case.order:
        return None
    field = {
        "source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first",
    }  # fmt: skip
    return Sorting(order_from_json({"order-id": 1, "fields": [field]}), SORT_BYTES)


def _deletes(case: Case, directory: Path, location: str) -> DeletesOfGroup:
    path = directory / "deletes.parquet"
    if case.deletes == "equality":
        file = SourceFile(str(path), "parquet", int((directory / "deleted").read_text()), 2)
        return DeletesOfGroup((), (), (EqualityDeletes(file, (2,), frozenset([location])),))
    if case.deletes == "position":
        file = SourceFile(str(path), "parquet", int((directory / "deleted").read_text()), 2)
        return DeletesOfGroup((PositionDeletes(file, frozenset([location])),))
    return DeletesOfGroup()


def write_deletes(case: Case, directory: Path) -> None:
    """Equality deletes of as many bytes as the rows, one of whose keys is there; or positions."""
    path = directory / "deletes.parquet"
    if case.deletes == "equality":
        count = max(1, case.total_bytes // case.width)
        field = _field("name", pa.string(), 2)
        with pq.ParquetWriter(path, pa.schema([field]), use_dictionary=False) as writer:
            step = max(1, _PIECE_BYTES // case.width)
            writer.write_table(pa.table([values(case.width)[:1]], schema=pa.schema([field])))
            for start in range(1, count, step):
                keys = [
                    f"{at:08}" + "x" * (case.width - 8)
                    for at in range(start, min(start + step, count))
                ]
                writer.write_table(pa.table([keys], schema=pa.schema([field])))
        (directory / "deleted").write_text(str(count))
    elif case.deletes == "position":
        other = "s3://b/" + "p" * case.width
        fields = [
            _field("file_path", pa.string(), 2_147_483_546),
            _field("pos", pa.int64(), 2_147_483_545),
        ]
        count = case.total_bytes // case.width
        paths = _encoded([other, str(directory / f"wide.{case.file_format}")],
                         np.append(np.zeros(count, np.int32), 1).astype(np.int32))  # fmt: skip
        schema = pa.schema([fields[0].with_type(paths.type), fields[1]])
        rows = pa.Table.from_arrays([paths, pa.array([*range(count), 3])], schema=schema)
        pq.write_table(rows, path, dictionary_pagesize_limit=1 << 30)
        (directory / "deleted").write_text(str(len(rows)))


def _outputs(directory: Path) -> FileOutputs:
    made = iter(range(10**6))

    @contextmanager
    def create(location: str) -> Iterator[IO[bytes]]:
        with io.FileIO(location, "w") as file:
            yield file  # type: ignore[misc]

    return FileOutputs(
        lambda _: str(directory / f"new-{next(made)}.parquet"),
        create,
        lambda at: Path(at).open("rb"),
    )


def main() -> None:
    """Write the files of a case (`write`), or rewrite them and tell the peak."""
    directory, told, work = Path(sys.argv[1]), Case(**json.loads(sys.argv[2])), sys.argv[3]
    if work == "write":
        (directory / "rows").write_text(str(write(told, directory / f"wide.{told.file_format}")))
        write_deletes(told, directory)
    else:
        print(json.dumps(rewrite(told, directory)))


if __name__ == "__main__":
    main()
