"""Files that store columns in several ways put together: few columns decoded, all else copied."""

import io
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.checks.file_identity import StatedFile
from icectl.files.parquet.alike import alike_parts
from icectl.files.parquet.merge_columns import NotMergeable
from icectl.files.parquet.merge_footer import read_source
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.rows.column_forms import TableForms
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.merge_files import MergeOptions, merge_files
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import SourceFile, written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, rewrite_data
from icectl.rows.write_data import WrittenFile, write_options
from icectl.table.live_files import _with_dropped
from tests.builders.data_files import MemoryFiles, identified, schema, table

NAN = math.nan
X = {"id": 21, "name": "x", "type": "long", "required": False}
Y = {"id": 22, "name": "y", "type": "string", "required": False}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element: Any, *, required: bool) -> dict[str, Any]:
    return {"type": "list", "element-id": 23, "element": element, "element-required": required}


def map_to(value: Any, *, required: bool) -> dict[str, Any]:
    return {"type": "map", "key-id": 24, "key": "string", "value-id": 25, "value": value,
            "value-required": required}  # fmt: skip


REQUIRED = {"required": True}
TYPES = {
    "required": ("long", "long", REQUIRED, [7, None, 3], [5, 9, 2]),
    "required text": ("string", "string", REQUIRED, ["b", None], ["a", "zz"]),
    "required double": ("double", "double", REQUIRED, [1.5, None, -2.5], [0.5, 8.25]),
    "required double with NaN": ("double", "double", REQUIRED, [1.5, NAN], [0.5, NAN]),
    "required uuid": ("uuid", "uuid", REQUIRED, [bytes(16), None], [bytes(15) + b"\1"]),
    "int": ("long", "int", {}, [2**40, None], [5, None, -9]),
    "float": ("double", "float", {}, [1.5, None], [0.25, None, -2.5]),
    "float with NaN": ("double", "float", {}, [1.5, None], [0.25, NAN]),
    "decimal": ("decimal(25, 2)", "decimal(9, 2)", {}, [Decimal("1.25"), None], [Decimal(-3)]),
    "date": ("timestamp", "date", {}, [10**15, None], [365, None]),
    "field": (struct(X, Y), struct(X), {}, [{"x": 1, "y": "a"}, None], [None, {"x": 2}]),
    "field of required": (struct(X, Y), struct(X), REQUIRED, [{"x": 1, "y": "a"}], [{"x": 2}]),
    "element": (list_of("long", required=False), list_of("int", required=True), {},
                [[1, None], [], None], [[], [3, 4]]),
    "value": (map_to("long", required=False), map_to("long", required=True), REQUIRED,
              [[("a", None)], None], [[("b", 5)], []]),
    "field in list": (list_of(struct(X, Y), required=False), list_of(struct(X), required=False),
                      {}, [[{"x": 1, "y": "a"}]], [[{"x": 4}, None], []]),
}  # fmt: skip
"""By name: the type of a column now, of the odd file, how that has it, and values of both."""

FIXED = ((1, "id", "long"), (2, "note", "string"))


def columns_of(*more: tuple[Any, ...], version: int = 2) -> TableColumns:
    columns = schema(*FIXED, *more)
    return TableColumns(written_schema(columns, version), columns)


def group(files: list[SourceFile], columns: TableColumns, **changed: Any) -> FileGroup:
    made = FileGroup(
        tuple(files), 0, DeletesOfGroup(), columns, PartitionSpec(0, ()), Partition(b"", "")
    )
    return replace(made, **changed)


def options_of(columns: TableColumns, **properties: str):
    modes = metrics_modes(properties, columns.written, ())
    return write_options(properties, 2**40, modes)


def stored(
    store: MemoryFiles, name: str, columns: TableColumns, start: int, values: list[Any]
) -> SourceFile:
    """Store rows as icectl writes them, and what an entry states of the file."""
    rows = [(start + at, f"n{at}", value) for at, value in enumerate(values)]
    arrow = columns.arrow
    source = store.add(f"of {name}", table(list(arrow), [row[: len(arrow)] for row in rows]))
    (written,) = rewrite_data(group([source], columns), options_of(columns), store.outputs()).files
    store.content[name] = store.content[written.location]
    stated = StatedFile(written.file_size_in_bytes, written.metrics, columns.written.fields)
    return SourceFile(name, "parquet", len(rows), 1, first_row_id=start, stated=stated)


def made(name: str, store: MemoryFiles) -> tuple[list[SourceFile], TableColumns]:
    """Three files with a column as it is now, and one that has it in another way."""
    now, before, more, values, odd_values = TYPES[name]
    ever = columns_of((3, "v", now))
    old = columns_of((3, "v", before, more))
    files = [stored(store, f"f{at}", ever, 100 * at, values) for at in range(3)]
    files.insert(1, stored(store, "odd", old, 50, odd_values))
    return files, ever


def parts(store: MemoryFiles, files: list[SourceFile], columns: TableColumns):
    opened = [read_source(io.BytesIO(store.content[file.location])).stored for file in files]
    return alike_parts(opened, lambda *_: True, TableForms(columns.ever))


def same_metrics(ours: WrittenFile, theirs: WrittenFile, content: bytes) -> None:
    """Metrics of a rewrite, and the sizes that the footer has."""
    for name in (
        "record_count", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
        "upper_bounds",
    ):  # fmt: skip
        assert getattr(ours.metrics, name) == getattr(theirs.metrics, name), name
    assert ours.metrics.column_sizes.keys() == theirs.metrics.column_sizes.keys()
    footer = pq.read_metadata(io.BytesIO(content))
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    chunks = [one.column(at) for one in groups for at in range(one.num_columns)]
    total = sum(chunk.total_compressed_size for chunk in chunks)
    assert sum(ours.metrics.column_sizes.values()) == total


def merged(whole: FileGroup, store: MemoryFiles) -> WrittenFile:
    verified = MergeOptions(verifies_rows=True)
    return merge_files(whole, options_of(whole.columns), store.outputs(), verified).file


def rows(store: MemoryFiles, file: WrittenFile) -> list[str]:
    """The rows as text, in which NaN is NaN."""
    return [repr(sorted(row.items())) for row in store.rows(file.location)]


def chunk(content: bytes, group: int, column: str) -> bytes:
    """The pages of a column chunk, dictionary first."""
    found = pq.read_metadata(io.BytesIO(content)).row_group(group)
    of_column = next(
        found.column(at)
        for at in range(found.num_columns)
        if found.column(at).path_in_schema == column
    )
    at = of_column.dictionary_page_offset or of_column.data_page_offset
    return content[at : at + of_column.total_compressed_size]


@pytest.mark.parametrize("name", TYPES)
def test_one_column_of_an_odd_file_is_decoded(name, tmp_path):
    store = MemoryFiles()
    files, columns = made(name, store)
    found = parts(store, files, columns)
    assert (found.parts, found.odd) == (((0, 1, 2, 3),), {})
    ((place, decoded),) = found.decoded.items()
    assert (place, decoded.names) == (1, ("v",))
    size = sum(len(chunk(store.content["odd"], 0, column)) for column in ("id", "note"))
    assert 0 < decoded.size_bytes < len(store.content["odd"]) - size
    assert decoded.why.startswith("`v` is ")
    whole = group(files, columns)
    ours = merged(whole, store)
    (theirs,) = rewrite_data(whole, options_of(columns), store.outputs()).files
    assert rows(store, ours) == rows(store, theirs)
    same_metrics(ours, theirs, store.content[ours.location])
    content = store.content[ours.location]
    for at, file in enumerate(files):
        for column in ("id", "note"):  # copied as they are
            assert chunk(content, at, column) == chunk(store.content[file.location], 0, column)
    path = tmp_path / "merged.parquet"
    path.write_bytes(content)
    of_rewrite = tmp_path / "rewritten.parquet"
    of_rewrite.write_bytes(store.content[theirs.location])
    query = "SELECT id, note, v::varchar FROM '{}' ORDER BY id"
    assert (
        duckdb.sql(query.format(path)).fetchall() == duckdb.sql(query.format(of_rewrite)).fetchall()
    )


def of_types(store: MemoryFiles, name: str, fields, rows, **options: Any) -> SourceFile:
    """A file as pyarrow writes it."""
    content = io.BytesIO()
    pq.write_table(table(fields, rows), content, **options)
    store.content[name] = content.getvalue()
    return SourceFile(name, "parquet", len(rows), 1, first_row_id=len(store.content) * 1000)


ID, NOTE = identified("id", pa.int64(), 1), identified("note", pa.string(), 2)
ID_NEEDED = identified("id", pa.int64(), 1, required=True)
NOTE_NEEDED = identified("note", pa.string(), 2, required=True)


def numbered(start: int, count: int) -> list[tuple[int, str]]:
    return [(start + at, f"n{at % 7}") for at in range(count)]


@pytest.mark.parametrize("paged", ["1.0", "2.0"])
def test_row_groups_keep_their_rows_and_ids(paged):
    """Of three row groups of the odd file all rows of the second are deleted."""
    store = MemoryFiles()
    several = {"row_group_size": 40, "data_page_version": paged, "write_page_index": True}
    filters = {"id": {"ndv": 40, "fpp": 0.01}}
    files = [
        of_types(store, "f0", (ID, NOTE), numbered(0, 100), **several),
        of_types(store, "odd", (ID_NEEDED, NOTE), numbered(100, 100), **several,
                 bloom_filter_options=filters),
    ]  # fmt: skip
    keys = store.add("keys", table((ID,), [(at,) for at in (3, *range(140, 180))]))
    by_value = EqualityDeletes(keys, (1,), frozenset(["f0", "odd"]))
    deletes = DeletesOfGroup(equality_deletes=(by_value,))
    columns = columns_of(version=3)
    whole = group(files, columns, deletes=deletes)
    merging = MergeOptions(0.9, verifies_rows=True)
    done = merge_files(whole, options_of(columns), store.outputs(), merging)
    kept = [*range(140), *range(180, 200)]
    found = store.rows(done.file.location)
    assert [row["id"] for row in found] == kept
    firsts = [file.first_row_id or 0 for file in files]
    assert [row["_row_id"] for row in found] == [firsts[at // 100] + at % 100 for at in kept]
    opened = pq.read_metadata(io.BytesIO(store.content[done.file.location]))
    ids = [opened.row_group(at).column(0) for at in range(opened.num_row_groups)]
    assert [of.path_in_schema for of in ids] == ["id"] * 5
    assert [of.bloom_filter_offset is not None for of in ids] == [False] * 3 + [True] * 2
    assert all(of.has_column_index and of.has_offset_index for of in ids)
    assert [opened.row_group(at).num_rows for at in range(5)] == [40, 40, 20, 40, 20]
    starts = tuple(of.dictionary_page_offset or of.data_page_offset for of in ids)
    assert done.file.metrics.split_offsets == starts == tuple(sorted(starts))


def test_a_file_of_which_all_columns_differ_is_put_together_too():
    store = MemoryFiles(composes=True)
    files = [
        of_types(store, "f0", (ID, NOTE), numbered(0, 10)),
        of_types(store, "f1", (ID_NEEDED, NOTE_NEEDED), numbered(10, 10)),
        of_types(store, "f2", (ID, NOTE), numbered(20, 10)),
    ]
    found = parts(store, files, columns_of())
    assert {place: of.names for place, of in found.decoded.items()} == {1: ("id", "note")}
    done = merged(group(files, columns_of()), store)
    assert [row["id"] for row in store.rows(done.location)] == [*range(30)]
    assert "columns of one are decoded" in done.not_assembled


def test_the_fewest_bytes_are_decoded():
    """An optional column without nulls becomes a required one, if that is the more usual."""
    store = MemoryFiles()
    files = [of_types(store, f"f{at}", (ID_NEEDED, NOTE), numbered(at, 900)) for at in range(4)]
    files.append(of_types(store, "odd", (ID, NOTE), numbered(9000, 900)))
    found = parts(store, files, columns_of())
    assert [*found.decoded] == [4]
    done = merged(group(files, columns_of()), store)
    assert pq.read_schema(io.BytesIO(store.content[done.location])).field("id").nullable is False
    with_null = of_types(store, "null", (ID, NOTE), [(None, "x"), *numbered(9000, 900)])
    found = parts(store, [*files[:4], with_null], columns_of())
    assert (found.parts, found.odd) == (
        ((0, 1, 2, 3),),
        {4: "`id` is optional int64, in the files beside it required int64"},
    )


def test_a_required_column_that_a_file_lacks_becomes_optional():
    store = MemoryFiles()
    files = [of_types(store, f"f{at}", (ID_NEEDED, NOTE), numbered(at * 5, 5)) for at in range(2)]
    files.append(of_types(store, "less", (NOTE,), [(f"n{at**3}",) for at in range(900)]))
    found = parts(store, files, columns_of())
    assert (found.parts, [*found.decoded]) == (((0, 1, 2),), [0, 1])
    done = merged(group(files, columns_of()), store)
    assert [row["id"] for row in store.rows(done.location)] == [*range(10), *[None] * 900]


def test_parts_of_several_files_are_put_together_if_that_decodes_a_tenth_at_most():
    store = MemoryFiles()
    wide = identified("wide", pa.string(), 3)
    rows = [(at, f"n{at % 7}", "x" * 20 + str(at**5)) for at in range(500)]
    some = [of_types(store, f"f{at}", (ID, NOTE, wide), rows) for at in range(4)]
    others = [of_types(store, f"g{at}", (ID, NOTE_NEEDED, wide), rows) for at in range(3)]
    columns = columns_of((3, "wide", "string"))
    assert parts(store, [*some, *others], columns).parts == (tuple(range(7)),)
    wide_needed = identified("wide", pa.string(), 3, required=True)
    costly = [of_types(store, f"h{at}", (ID, NOTE, wide_needed), rows) for at in range(3)]
    assert parts(store, [*some, *costly], columns).parts == ((0, 1, 2, 3), (4, 5, 6))


def test_what_pyarrow_would_store_otherwise_is_not_decoded():
    """Milliseconds become microseconds, as the table has them, and not the other way round."""
    store = MemoryFiles()
    for number, unit in enumerate(("us", "ms", "us")):
        of_types(store, f"f{number}", (ID, identified("at", pa.timestamp(unit), 3)), [(1, 5)])
    files = [SourceFile(name, "parquet", 1, 1) for name in store.content]
    columns = columns_of((3, "at", "timestamp"))
    found = parts(store, files, columns)
    assert {place: of.why for place, of in found.decoded.items()} == {
        1: "`at` is timestamp[ms], in the files beside it timestamp[us]"
    }
    done = merged(group(files, columns), store)
    assert [row["at"].microsecond for row in store.rows(done.location)] == [5, 5000, 5]
    assert parts(store, files, columns_of((3, "at", "timestamptz"))).odd.keys() == {1}


def test_a_column_that_the_table_does_not_know_is_not_decoded():
    store = MemoryFiles()
    files = [of_types(store, f"f{at}", (ID, NOTE), numbered(at, 10)) for at in range(2)]
    files.append(of_types(store, "odd", (ID, NOTE_NEEDED), numbered(9, 10)))
    unknown = replace(columns_of(), ever=Schema(0, columns_of().ever.fields[:1]))
    assert parts(store, files, unknown).odd == {
        2: "`note` is required binary, in the files beside it optional binary"
    }
    with pytest.raises(NotMergeable, match="`note` is required binary"):
        merged(group(files, unknown), store)


def test_a_part_that_was_dropped_and_added_again_is_not_stored_twice():
    """By name readers find one of two parts of a struct; files are put together by id."""
    store = MemoryFiles()
    old = {"id": 21, "name": "a", "type": "long", "required": False}
    new = {"id": 22, "name": "a", "type": "string", "required": False}
    now = schema(*FIXED, (3, "v", struct(new)))
    ever = Schema(0, _with_dropped(now.fields, schema(*FIXED, (3, "v", struct(old))).fields))
    columns = TableColumns(written_schema(now, 2), ever)

    def file(name: str, type_: pa.DataType, id_: int, value: Any) -> SourceFile:
        part = identified("a", type_, id_)
        fields = (
            identified("id", pa.int64(), 1),
            identified("note", pa.string(), 2),
            identified("v", pa.struct([part]), 3),
        )
        return of_types(store, name, fields, [(at, f"{at}" * 9, {"a": value}) for at in range(200)])

    files = [file(f"old{at}", pa.int64(), 21, 7) for at in range(2)]
    files += [file(f"new{at}", pa.string(), 22, "x") for at in range(2)]
    assert not parts(store, files, columns).decoded
    with pytest.raises(NotMergeable):
        merge_files(group(files, columns), options_of(columns), store.outputs(), MergeOptions())


def test_a_file_without_row_groups_has_columns_that_take_nothing():
    bare = io.BytesIO()
    pq.ParquetWriter(bare, pa.schema([("a", pa.int64()), ("b", pa.string())])).close()
    assert read_source(bare).stored.sizes == (0, 0)
