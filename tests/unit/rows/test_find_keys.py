"""Rows that are looked up by keys or values: files that can't have any are not read."""

import tempfile
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.rows.read import blank_task, condition_job
from icectl.entries.conditions import Constant, Predicate, parse_where
from icectl.entries.partition_key import encode_key
from icectl.errors import OtherFile
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.types import DecimalType, NestedField, PrimitiveType
from icectl.rows import equality_deletes, find_job
from icectl.rows import sorted_keys as sorted_keys_of
from icectl.rows.find_job import FindJob, Keys, find_or_rule_out, keys_of, run_find
from icectl.rows.key_ranges import KeyRanges
from icectl.table.rewrite_tasks import InputFile
from tests.builders.data_files import MemoryFiles, identified, table
from tests.builders.plain_metadata import plain_metadata

ID = identified("id", pa.int64(), 1)
SCHEMA = Schema(0, (NestedField(1, "id", PrimitiveType("long"), required=False),))
METADATA = plain_metadata(
    SCHEMA, PartitionSpec(0, ()), format_version=2, location="t", last_column_id=1,
    table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
)  # fmt: skip


def found(
    files: MemoryFiles, rows: Predicate | Keys, metadata: TableMetadata = METADATA
) -> dict[str, list[int]]:
    """The positions of rows by file."""
    task = replace(blank_task(METADATA), inputs=inputs_of(files))
    looked = run_find(task, job_of(rows, metadata), files.outputs())
    return {one.location: one.positions.tolist() for one in looked}


def inputs_of(files: MemoryFiles) -> tuple[InputFile, ...]:
    return tuple(
        InputFile(location, FileFormat.PARQUET, len(content),
                  pq.read_metadata(BytesIO(content)).num_rows, 0, encode_key((), ()), 0)
        for location, content in files.content.items()
    )  # fmt: skip


def job_of(rows: Predicate | Keys, metadata: TableMetadata = METADATA) -> FindJob:
    within = Constant(value=True) if isinstance(rows, Keys) else rows
    return FindJob(condition_job(metadata, within), rows)


def ruled_out(files: MemoryFiles, rows: Predicate | Keys) -> dict[str, str]:
    """By what files are ruled out, each of which is a task."""
    tasks = [replace(blank_task(METADATA), inputs=(file,)) for file in inputs_of(files)]
    job = job_of(rows)
    looked = {task.inputs[0].location: find_or_rule_out(task, job, files.outputs())
              for task in tasks}  # fmt: skip
    return {location: by for location, by in looked.items() if isinstance(by, str)}


def keys(*ids: int) -> Keys:
    return keys_of(pa.table({"id": list(ids)}), SCHEMA)[0]


def among(*ids: int) -> Predicate:
    return parse_where(f"id in ({', '.join(map(str, ids))})", METADATA)


WAYS = [("filter", keys), ("dictionary", keys), ("bounds", keys), ("filter", among),
        ("dictionary", among)]  # fmt: skip


@pytest.mark.parametrize(("by", "rows"), WAYS)
def test_a_file_that_cannot_have_a_value_is_not_read(by, rows):
    files = MemoryFiles()
    how: dict[str, Any] = {"use_dictionary": by == "dictionary", "compression": "none"}
    if by == "filter":
        how["bloom_filter_options"] = {"id": {"ndv": 100, "fpp": 0.001}}
    spread = 1 if by == "bounds" else 2
    for at in range(2):
        sink = BytesIO()
        first = 200 * at if by == "bounds" else at
        pq.write_table(table([ID], [(first + spread * n,) for n in range(100)]), sink, **how)
        content = bytearray(sink.getvalue())
        chunk = pq.read_metadata(BytesIO(content)).row_group(0).column(0)
        if at:  # whoever decodes its rows fails
            size = chunk.total_compressed_size - (chunk.data_page_offset - 4)
            content[chunk.data_page_offset : chunk.data_page_offset + size] = bytes(size)
        files.content[f"f{at}"] = bytes(content)
    assert found(files, rows(8, 40)) == {"f0": [8 // spread, 40 // spread]}
    assert ruled_out(files, rows(8, 40)) == {"f1": "bloom" if by == "filter" else by}
    with pytest.raises(Exception, match="damaged"):
        found(files, rows(8, 299 if by == "bounds" else 9))


def test_other_conditions_read_all_files():
    files = MemoryFiles()
    for at in range(2):
        files.add(f"f{at}", table([ID], [(at + 2 * n,) for n in range(9)]))
    for text, expected in (
        ("not id = 4", {"f0": [0, 1, *range(3, 9)], "f1": [*range(9)]}),
        ("id = 4 or id >= 16", {"f0": [2, 8], "f1": [8]}),
        ("id = 4 and id >= 16", {}),
    ):
        assert found(files, parse_where(text, METADATA)) == expected


def test_bounds_that_no_decimal_of_the_column_has_rule_nothing_out():
    column = NestedField(1, "x", DecimalType(9, 2), required=False)
    for low, high in ((b"\xff", b"\x7f" + bytes(12)), (b"\x81" + bytes(40), b"\1")):
        ranges = KeyRanges.empty([column])
        ranges.add([pa.array([Decimal("1.25")], pa.decimal128(9, 2))])
        counts = {1: 5}, {1: 0}
        assert ranges.may_be_in(FileMetrics(5, {}, *counts, {}, {1: low}, {1: high}))


@pytest.mark.parametrize("is_large", [False, True])
def test_keys_are_sorted_once_for_all_files(monkeypatch, tmp_path, is_large):
    """Many keys on a worker: in temporary files, whose names are gone by then."""
    if is_large:
        monkeypatch.setattr(find_job, "MOST_KEPT_BYTES", 0)
        monkeypatch.setattr(sorted_keys_of, "_PARTS_BITS", 1)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sorted_keys = []
    index = equality_deletes.EqualityIndex

    def counted(*parts: Any) -> Any:
        sorted_keys.append(parts)
        return index(*parts)

    module = sorted_keys_of if is_large else equality_deletes
    monkeypatch.setattr(module, "EqualityIndex", counted)
    wanted = keys(4, 711 + is_large)  # of which no other test has an index
    for first in range(3):
        files = MemoryFiles()
        files.add("f", table([ID], [(first + n,) for n in range(9)]))
        assert found(files, wanted) == {"f": [4 - first]}
        assert list(tmp_path.iterdir()) == []
    assert 1 <= len(sorted_keys) <= 1 + is_large


def test_rows_of_files_without_a_column_have_its_default():
    field = replace(SCHEMA.fields[0], id=2, name="more", initial_default=7)
    both = Schema(0, (*SCHEMA.fields, field))
    metadata = replace(METADATA, schemas=(both,), last_column_id=2)
    for wanted, count in ((7, 3), (8, 0)):
        files = MemoryFiles()
        files.add("f", table([ID], [(1,), (2,), (3,)]))
        rows = keys_of(pa.table({"more": [wanted]}), both)[0]
        assert len(found(files, rows, metadata).get("f", [])) == count


def filtered_files(*firsts: int, count: int = 100) -> MemoryFiles:
    """Files of even numbers from such a first one, with filters."""
    files = MemoryFiles()
    for at, first in enumerate(firsts):
        sink = BytesIO()
        rows = table([ID], [(first + 2 * n,) for n in range(count)])
        options = {"id": {"ndv": 2 * count, "fpp": 1e-6}}
        pq.write_table(rows, sink, use_dictionary=False, bloom_filter_options=options)
        files.content[f"f{at}"] = sink.getvalue()
    return files


def found_in_each(files: MemoryFiles, wanted: Keys) -> dict[str, list[int]]:
    """The positions of rows by file, each of which is a task."""
    positions: dict[str, list[int]] = {}
    for location, content in files.content.items():
        one = MemoryFiles()
        one.content, one.opened = {location: content}, files.opened
        positions |= found(one, wanted)
    return positions


@pytest.fixture
def parquet_files(monkeypatch) -> list[object]:
    """Parquet files that pyarrow opens."""
    opened: list[object] = []
    parquet_file = pq.ParquetFile

    def opening(file: object, **options: Any) -> pq.ParquetFile:
        opened.append(file)
        return parquet_file(file, **options)

    monkeypatch.setattr(pq, "ParquetFile", opening)
    return opened


def test_of_files_that_filters_rule_out_only_the_first_is_opened(parquet_files):
    wanted = keys(40, 712)
    assert found_in_each(filtered_files(0, 1), wanted) == {"f0": [20]}
    del parquet_files[:]
    assert found_in_each(filtered_files(0, *[1] * 9, 0), wanted) == {"f0": [20], "f10": [20]}
    assert len(parquet_files) == 2
    glanced_at = ruled_out(filtered_files(0, 1, 1), wanted)
    assert (glanced_at, len(parquet_files)) == ({"f1": "bloom", "f2": "bloom"}, 3)


def test_a_file_that_says_something_else_of_its_columns_is_opened(parquet_files):
    wanted = keys(40, 713)
    assert found_in_each(filtered_files(1), wanted) == {}
    schema = pa.schema([ID.with_type(pa.int32())])
    files, sink = filtered_files(1), BytesIO()
    options = {"id": {"ndv": 9, "fpp": 1e-6}}
    narrow = pa.table([pa.array([40, 80], pa.int32())], schema)
    pq.write_table(narrow, sink, use_dictionary=False, bloom_filter_options=options)
    files.content["narrow"] = sink.getvalue()
    del parquet_files[:]
    assert found_in_each(files, wanted) == {"narrow": [0]}
    assert len(parquet_files) == 1


@pytest.mark.parametrize("member", ["record_count", "size_bytes"])
def test_an_entry_that_says_something_else_of_a_file_has_it_opened(parquet_files, member):
    files, wanted = filtered_files(1), keys(40, 714)
    assert found_in_each(files, wanted) == {}
    del parquet_files[:]
    (content,) = files.content.values()
    one = InputFile("f0", FileFormat.PARQUET, len(content), 100, 0, encode_key((), ()), 0)
    job = FindJob(condition_job(METADATA, Constant(value=True)), wanted)
    wrong = replace(one, **{member: getattr(one, member) + 1})
    for file in (one, wrong):
        task = replace(blank_task(METADATA), inputs=(file,))
        if file is wrong and member == "record_count":
            with pytest.raises(OtherFile, match="101"):
                run_find(task, job, files.outputs())
        else:
            assert run_find(task, job, files.outputs()) == []
        assert bool(parquet_files) == (file is wrong)


def test_filters_that_rule_nothing_out_are_not_glanced_at_for_long():
    files = filtered_files(1, *[0] * 60)
    assert len(found_in_each(files, keys(40, 715))) == 60
    assert 61 < len(files.opened) < 61 + 12
