"""Data files put together without decoding: rows, lineage and metrics, and what is refused."""

import io
import math
import tempfile
from dataclasses import replace
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.checks.file_identity import StatedFile
from icectl.errors import OtherFile, SelfCheckFailed
from icectl.files.parquet.alike import alike_parts
from icectl.files.parquet.merge_columns import NotMergeable
from icectl.files.parquet.merge_footer import read_source
from icectl.files.parquet.metrics import FileMetrics
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows import merge_files as merging
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.merge_files import MergeOptions, merge_files
from icectl.rows.partition_rows import Partition
from icectl.rows.read_data import SourceFile, written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, rewrite_data
from icectl.rows.row_runs import rows_of
from icectl.rows.write_data import WrittenFile, shaped_metrics, write_options
from tests.builders.data_files import MemoryFiles, identified, schema, table

COLUMNS = schema((1, "id", "long"), (2, "name", "string"), (3, "part", "double"))
FIELDS = (
    identified("id", pa.int64(), 1),
    identified("name", pa.string(), 2),
    identified("part", pa.float64(), 3),
)
OPTIONS = write_options({}, 2**40, metrics_modes({}, COLUMNS, ()))


def some(start: int, stop: int):
    return [(n, None if n % 5 == 0 else f"name {n}", n / 4) for n in range(start, stop)]


def group(store: MemoryFiles, files, version=2, **changed) -> FileGroup:
    columns = TableColumns(written_schema(COLUMNS, version), COLUMNS)
    size = sum(len(store.content[file.location]) for file in files)
    spec, whole = PartitionSpec(0, ()), Partition(b"", "")
    return replace(FileGroup(tuple(files), size, DeletesOfGroup(), columns, spec, whole), **changed)


def merge(whole: FileGroup, store: MemoryFiles) -> WrittenFile:
    return merge_files(whole, OPTIONS, store.outputs(), MergeOptions()).file


def three(store: MemoryFiles, **told):
    bounds = [(0, 40), (40, 41), (41, 100)]
    return [
        store.add(f"f{at}", table(FIELDS, some(*ends)), **told) for at, ends in enumerate(bounds)
    ]


@pytest.fixture(params=[False, True], ids=["copied", "composed"])
def store(request, monkeypatch) -> MemoryFiles:
    """Files that pass through here, and files that storage puts together, however short."""
    monkeypatch.setattr(merging, "_MOST_DEAD", 0)
    return MemoryFiles(composes=request.param)


@pytest.mark.parametrize("version", [1, 2])
def test_rows_and_metrics_are_those_of_a_rewrite(version, store):
    whole = group(store, three(store), version)
    merged = merge(whole, store)
    (rewritten,) = rewrite_data(whole, OPTIONS, store.outputs()).files
    assert store.rows(merged.location) == store.rows(rewritten.location)
    assert merged.file_size_in_bytes == len(store.content[merged.location])
    ours, theirs = merged.metrics, rewritten.metrics
    for name in (
        "record_count",
        "value_counts",
        "null_value_counts",
        "lower_bounds",
        "upper_bounds",
    ):
        assert getattr(ours, name) == getattr(theirs, name)
    opened = pq.ParquetFile(io.BytesIO(store.content[merged.location])).metadata
    groups = [opened.row_group(at) for at in range(opened.num_row_groups)]
    starts = tuple(one.column(0).dictionary_page_offset for one in groups)
    assert ours.split_offsets == starts
    assert len(starts) == 3
    sizes = {at + 1: sum(one.column(at).total_compressed_size for one in groups) for at in range(3)}
    assert ours.column_sizes == sizes


def test_rows_keep_their_ids_and_last_updates(store):
    files = [
        replace(file, first_row_id=first, sequence_number=number)
        for file, first, number in zip(three(store), (500, 7, 1000), (3, 9, 4), strict=True)
    ]
    whole = group(store, files, 3)
    merged = store.rows(merge(whole, store).location)
    (rewritten,) = rewrite_data(whole, OPTIONS, store.outputs()).files
    assert merged == store.rows(rewritten.location)
    assert [row["_row_id"] for row in merged] == [*range(500, 540), 7, *range(1000, 1059)]
    assert [row["_last_updated_sequence_number"] for row in merged] == [3] * 40 + [9] + [4] * 59


def test_what_would_need_decoding_is_refused():
    store = MemoryFiles()
    files = three(store, first_row_id=0)
    refused = [
        (group(store, files, partition=None), "moved"),
        (group(store, [replace(files[0], split=(0, 9)), *files[1:]]), "complete"),
        (group(store, [replace(files[0], first_row_id=None), *files[1:]], 3), "no ids yet"),
    ]
    for whole, why in refused:
        with pytest.raises(NotMergeable, match=why):
            merge(whole, store)
    without_ids = store.add("bare", pa.table({"id": [1]}))
    struct = pa.field("s", pa.struct([identified("inside", pa.string(), 9)]))
    half = store.add("half", table((*FIELDS, struct), [(1, "a", 0.5, {"inside": "b"})]))
    for some_files in ([without_ids], [half, files[0]]):
        with pytest.raises(NotMergeable, match="field id"):
            merge(group(store, some_files), store)


def test_rows_of_files_that_have_ids_keep_them(store):
    """Of three files one has both columns, and nulls in them; one was merged of others before."""
    files = [
        replace(file, first_row_id=first, sequence_number=number)
        for file, first, number in zip(three(store), (500, 700, 1000), (3, 9, 4), strict=True)
    ]
    before = merge(group(store, files[:2], 3), store)
    merged = SourceFile(before.location, "parquet", 41, 12, first_row_id=2000)
    lineage = (
        identified("_row_id", pa.int64(), 2147483540),
        identified("_last_updated_sequence_number", pa.int64(), 2147483539),
    )
    moved = [
        (*row, 40 + at if at % 2 else None, 5 if at % 3 else None)
        for at, row in enumerate(some(100, 110))
    ]
    mixed = store.add(
        "m",
        table((*lineage, *FIELDS), [(*row[3:], *row[:3]) for row in moved]),
        first_row_id=3000,
        sequence_number=8,
    )
    whole = group(store, [merged, files[2], mixed], 3)
    found = store.rows(merge(whole, store).location)
    (rewritten,) = rewrite_data(whole, OPTIONS, store.outputs()).files
    assert found == store.rows(rewritten.location)
    ids = [*range(500, 540), 700, *range(1000, 1059)]
    ids += [40 + at if at % 2 else 3000 + at for at in range(10)]
    assert [row["_row_id"] for row in found] == ids
    updated = [3] * 40 + [9] + [4] * 59 + [5 if at % 3 else 8 for at in range(10)]
    assert [row["_last_updated_sequence_number"] for row in found] == updated
    footer = pq.ParquetFile(io.BytesIO(store.content[list(store.content)[-2]])).metadata
    assert footer.num_columns == 5


def of_real(value: float) -> bytes:
    return encode(PrimitiveType("double"), value)


def with_metrics(store: MemoryFiles, reals, **changed) -> list[SourceFile]:
    """Files whose footers tell of `id` alone, and what their entries state of `part`."""
    files = []
    for at, values in enumerate(reals):
        rows = [(at * 40 + n, f"name {n}", value) for n, value in enumerate(values)]
        content = io.BytesIO()
        pq.write_table(table(FIELDS, rows), content, write_statistics=["id"], row_group_size=2)
        store.content[f"f{at}"] = content.getvalue()
        numbers = [value for value in values if value is not None and not math.isnan(value)]
        lower, upper = (
            ({3: of_real(one)} for one in (min(numbers), max(numbers))) if numbers else ({}, {})
        )
        metrics = FileMetrics(
            len(values),
            value_counts={3: len(values)},
            null_value_counts={3: values.count(None)},
            nan_value_counts={3: sum(value is not None and math.isnan(value) for value in values)},
            lower_bounds=lower,
            upper_bounds=upper,
        )
        metrics = replace(metrics, **changed) if not at else metrics
        stated = StatedFile(len(content.getvalue()), metrics, COLUMNS.fields)
        files.append(SourceFile(f"f{at}", "parquet", len(values), 1, stated=stated))
    return files


NAN = math.nan


@pytest.mark.parametrize(
    ("reals", "changed", "nans", "bounds"),
    [
        ([[1.5, 2, 0.5], [8, -4]], {}, 0, (-4, 8)),
        ([[1.5, NAN, 0.5], [8, -4]], {}, 1, (-4, None)),
        ([[1.5, NAN, None], [None, None]], {}, 1, (1.5, None)),
        ([[1.5, 2], [NAN, NAN]], {}, 2, (1.5, None)),
        ([[NAN, NAN], [NAN]], {}, None, (None, None)),
        ([[None], [None, None]], {}, 0, (None, None)),
        ([[-0.0, 0.0], [1]], {"lower_bounds": {3: of_real(0.0)}}, 0, (-0.0, 1)),
        ([[1.5, 2], [8, -4]], {"nan_value_counts": {}}, None, (-4, None)),
        ([[1.5, 2], [8, -4]], {"lower_bounds": {}}, 0, (None, None)),
        ([[1.5, 2], [8, -4]], {"upper_bounds": {3: b"short"}}, 0, (-4, None)),
        ([[1.5, 2], [8, -4]], {"lower_bounds": {3: of_real(NAN)}}, 0, (None, None)),
    ],
)
def test_metrics_that_footers_lack_are_those_of_entries(reals, changed, nans, bounds, store):
    merged = merge(group(store, with_metrics(store, reals, **changed)), store).metrics
    assert merged.nan_value_counts.get(3) == nans
    found = merged.lower_bounds.get(3), merged.upper_bounds.get(3)
    assert found == tuple(None if one is None else of_real(one) for one in bounds)
    assert merged.lower_bounds[1] == encode(PrimitiveType("long"), 0)
    assert merged.value_counts == dict.fromkeys((1, 2, 3), sum(map(len, reals)))


def test_no_nan_is_counted_of_rows_that_are_left_out(store):
    files = with_metrics(store, [[NAN, NAN, 1.5], [8, -4]])
    deletes = DeletesOfGroup(equality_deletes=(by_value(store, [0, 1], ["f0"]),))
    merged = merge(group(store, files, deletes=deletes), store).metrics
    assert merged.record_count == 3
    assert merged.nan_value_counts == {}
    assert merged.lower_bounds[3] == of_real(-4)
    assert 3 not in merged.upper_bounds


def by_value(store: MemoryFiles, ids, applies_to) -> EqualityDeletes:
    file = store.add(f"e{len(store.content)}", table(FIELDS[:1], [(one,) for one in ids]))
    return EqualityDeletes(file, (1,), frozenset(applies_to))


def test_rows_that_equality_deletes_delete_are_told(store):
    files = three(store)
    deletes = (by_value(store, [3, 45, 99, 7], ["f0", "f1"]), by_value(store, [99, 45], ["f2"]))
    whole = group(store, files, deletes=DeletesOfGroup(equality_deletes=deletes))
    found = merge_files(whole, OPTIONS, store.outputs(), MergeOptions(0.06))
    told = rows_of(found.by_value, ["f0", "f1", "f2"])
    assert {name: rows.tolist() for name, rows in told.items()} == {"f0": [3, 7], "f2": [4, 58]}
    assert [row["id"] for row in store.rows(found.file.location)] == [*range(100)]
    assert not len(found.left_out)
    with pytest.raises(NotMergeable, match="many of its rows"):
        merge_files(whole, OPTIONS, store.outputs(), MergeOptions(0.05))


def test_row_groups_of_deleted_rows_are_left_out(store):
    for at in range(3):
        content = io.BytesIO()
        pq.write_table(table(FIELDS, some(at * 40, at * 40 + 40)), content, row_group_size=10)
        store.content[f"f{at}"] = content.getvalue()
    files = [SourceFile(f"f{at}", "parquet", 40, 1 + at, first_row_id=at * 1000) for at in range(3)]
    ids = [*range(10), *range(35, 40), *range(40, 80), *range(90, 100), 105]
    deletes = DeletesOfGroup(equality_deletes=(by_value(store, ids, ["f0", "f1", "f2"]),))
    found = merge_files(
        group(store, files, 3, deletes=deletes), OPTIONS, store.outputs(), MergeOptions(0.3)
    )
    refused = "only whole files, and rows of one are left out"
    assert (refused in found.file.not_assembled) is store.composes
    names = [file.location for file in files]
    left_out = {name: rows.tolist() for name, rows in rows_of(found.left_out, names).items()}
    assert left_out == {"f0": [*range(10)], "f1": [*range(40)], "f2": [*range(10, 20)]}
    rows = store.rows(found.file.location)
    kept = [*range(10, 40), *range(80, 90), *range(100, 120)]
    assert [row["id"] for row in rows] == kept
    assert [row["_row_id"] for row in rows] == [n // 40 * 1000 + n % 40 for n in kept]
    assert found.file.footer.record_count == 60
    assert len(found.file.footer.split_offsets) == 6
    assert sum(map(len, rows_of(found.by_value, names).values())) == len(ids)
    everything = DeletesOfGroup(equality_deletes=(by_value(store, range(120), names),))
    with pytest.raises(NotMergeable, match="all of them are deleted"):
        merge(group(store, files, 3, deletes=everything), store)


def test_files_with_much_that_nothing_leads_to_are_not_composed():
    store = MemoryFiles(composes=True)
    found = merge(group(store, three(store)), store)
    assert "one has much in between" in found.not_assembled
    assert [row["id"] for row in store.rows(found.location)] == [*range(100)]


def test_files_that_are_deleted_as_a_whole_are_not_composed_with_others(store):
    files = three(store)
    deletes = DeletesOfGroup(equality_deletes=(by_value(store, range(40), ["f0"]),))
    found = merge(group(store, files, deletes=deletes), store)
    assert [row["id"] for row in store.rows(found.location)] == [*range(40, 100)]
    assert found.not_assembled == ""


def test_a_file_of_other_rows_than_its_entry_says_is_told():
    store = MemoryFiles()
    files = three(store)
    whole = group(store, [replace(files[0], record_count=41), *files[1:]])
    with pytest.raises(OtherFile, match="has 40 rows"):
        merge(whole, store)


@pytest.mark.parametrize("place", [4, 500, -20])
def test_bytes_that_are_not_stored_as_written_are_told(place):
    store = MemoryFiles()
    whole = group(store, three(store))
    outputs = store.outputs()

    def read(location: str):
        content = bytearray(store.content[location])
        if location.startswith("out/"):
            content[place] ^= 1
        return io.BytesIO(bytes(content))

    with pytest.raises(SelfCheckFailed, match="other bytes"):
        merge_files(whole, OPTIONS, replace(outputs, open=read), MergeOptions())


def test_a_damaged_page_undoes_what_was_begun():
    store = MemoryFiles()
    files = three(store)
    rows = table(FIELDS, some(0, 40))
    for file in files:
        content = io.BytesIO()
        pq.write_table(rows, content, write_page_checksum=True, compression="none")
        store.content[file.location] = content.getvalue()
    damaged = bytearray(store.content["f1"])
    damaged[damaged.index(np.float64(7.25).tobytes())] ^= 4
    store.content["f1"] = bytes(damaged)
    files = [replace(file, record_count=40) for file in files]
    with pytest.raises(NotMergeable, match="checksum"):
        merge(group(store, files), store)
    assert len(store.left) == 1


NESTED = pa.struct(
    [
        identified("x", pa.int64(), 12),
        identified("y", pa.list_(identified("element", pa.string(), 14)), 13),
    ]
)
MORE = (
    identified("price", pa.decimal128(9, 2), 10),
    identified("place", NESTED, 11),
    identified("uid", pa.uuid(), 15),
)


def evolved(store: MemoryFiles):
    """Files of a table whose columns were renamed, moved and added, each in another state."""
    first = store.add("f0", table(FIELDS, some(0, 40)), first_row_id=0)
    renamed = (FIELDS[2], FIELDS[0], identified("title", pa.string(), 2))
    second = store.add(
        "f1", table(renamed, [(c, a, b) for a, b, c in some(40, 60)]), first_row_id=100
    )
    values = [
        (*row, Decimal(at), {"x": at, "y": ["a"] * at}, bytes([at] * 16))
        for at, row in enumerate(some(60, 80))
    ]
    third = store.add("f2", table((*FIELDS, *MORE), values), first_row_id=200)
    content = io.BytesIO()
    rows = table((*FIELDS, *MORE), values)
    pq.write_table(rows, content, store_decimal_as_integer=True)
    store.content["f2"] = content.getvalue()
    return [first, second, third]


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_a_schema_that_has_evolved(version, store):
    wider = schema(
        (1, "id", "long"), (2, "title", "string"), (3, "part", "double"),
        (10, "price", "decimal(9, 2)"),
        (11, "place", {"type": "struct", "fields": [
            {"id": 12, "name": "x", "type": "long", "required": False},
            {"id": 13, "name": "y", "required": False, "type": {
                "type": "list", "element-id": 14, "element": "string", "element-required": False}},
        ]}),
        (15, "uid", "uuid"),
    )  # fmt: skip
    columns = TableColumns(written_schema(wider, version), wider)
    whole = group(store, evolved(store), version, columns=columns)
    merged = merge_files(whole, OPTIONS, store.outputs(), MergeOptions(verifies_rows=True)).file
    (rewritten,) = rewrite_data(whole, OPTIONS, store.outputs()).files

    def named(location: str) -> list[dict]:
        return [
            {"title" if name == "name" else name: value for name, value in row.items()}
            for row in store.rows(location)
        ]

    assert named(merged.location) == named(rewritten.location)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(store.content[merged.location])
        file.flush()
        found = duckdb.sql(
            f"select id, name, part, price, place.x, len(place.y) from '{file.name}'"
        ).fetchall()
    assert found == [
        (
            row["id"], row["title"], row["part"], row["price"],
            *((row["place"]["x"], len(row["place"]["y"])) if row["place"] else (None, None)),
        )
        for row in named(rewritten.location)
    ]  # fmt: skip
    assert merged.metrics.null_value_counts == rewritten.metrics.null_value_counts


def plain(name: str, kind: pa.DataType, *, required: bool = True) -> pa.Field:
    """A part of a variant, which has no field id."""
    return pa.field(name, kind, not required)


X, Y = (identified(name, pa.int64(), id_, required=True) for name, id_ in (("x", 21), ("y", 23)))
INSIDE = identified("inside", pa.struct([Y]), 22, required=True)
METADATA, VALUE = plain("metadata", pa.binary()), plain("value", pa.binary(), required=False)
OF_A = pa.struct([VALUE, plain("typed_value", pa.int64(), required=False)])
TYPED = plain("typed_value", pa.struct([plain("a", OF_A)]), required=False)
NO_VALUE = {"metadata": b"\1\0\0", "value": b"\0"}
WITH_REQUIRED_PARTS = {
    "struct": (pa.struct([X, INSIDE]), {"x": 1, "inside": {"y": 2}}),
    "list": (pa.list_(identified("element", pa.struct([X]), 24, required=True)), [{"x": 3}]),
    "map": (pa.map_(identified("key", pa.string(), 25, required=True), X), [("k", 4)]),
    "variant": (pa.struct([METADATA, plain("value", pa.binary())]), NO_VALUE),
    "shredded": (pa.struct([METADATA, VALUE, TYPED]), {**NO_VALUE, "typed_value": None}),
}


@pytest.mark.parametrize("name", WITH_REQUIRED_PARTS)
def test_a_file_may_lack_a_column_with_parts_that_are_required(name, store):
    kind, value = WITH_REQUIRED_PARTS[name]
    more = identified("more", kind, 20)
    values = [None if at % 3 else value for at in range(40)]
    rows = [(*row, one) for row, one in zip(some(40, 80), values, strict=True)]
    files = [
        store.add("f0", table(FIELDS, some(0, 40)), first_row_id=0),
        store.add("f1", table((*FIELDS, more), rows), first_row_id=40),
    ]
    merged = store.content[merge(group(store, files, 3), store).location]
    stored = pq.read_table(io.BytesIO(merged))
    assert stored["id"].to_pylist() == [*range(80)]
    assert stored["more"].to_pylist() == [None] * 40 + values
    assert stored.schema.field("more").type == kind


def test_columns_that_have_no_form_in_common_are_not_merged():
    """Of a default readers see another value than null; the type of `at` is one that is unknown."""
    store = MemoryFiles()
    plain = three(store)[0]
    refused = {
        "have one name": (*FIELDS[:2], identified("part", pa.float64(), 7)),
        "not all files have `key`, a required": (
            *FIELDS,
            identified("key", pa.int64(), 8, required=True),
        ),
        "`id` is optional int32, in the files beside it optional int64": (
            identified("id", pa.int32(), 1),
            *FIELDS[1:],
        ),
    }
    for why, fields in refused.items():
        values = [(*row, 1)[: len(fields)] for row in some(0, 3)]
        other = store.add(why, table(fields, values))
        columns = TableColumns(COLUMNS, schema((2, "name", "string")))
        with pytest.raises(NotMergeable, match=why):
            merge(group(store, [plain, other], columns=columns), store)
    added = identified("level", pa.int64(), 9)
    other = store.add("new", table((*FIELDS, added), [(*row, 1) for row in some(0, 3)]))
    default = schema((9, "level", "long", {"initial-default": 4}))
    whole = group(store, [plain, other])
    columns = replace(whole.columns, ever=Schema(0, (*COLUMNS.fields, *default.fields)))
    with pytest.raises(NotMergeable, match="not all files have `level`, which has a default"):
        merge(replace(whole, columns=columns), store)
    with pytest.raises(NotMergeable, match="not all files have `level`, which has a default"):
        merge(group(store, [replace(plain, constants={9: 7}), other]), store)
    rows = store.rows(merge(whole, store).location)
    assert [row["level"] for row in rows] == [None] * 40 + [1] * 3


def parts_of_row_groups(content: bytes, offsets) -> list[int]:
    """In how many parts of a file each row group is that parquet-mr looks for by its middle."""
    whole = pq.ParquetFile(io.BytesIO(content)).metadata
    found = []
    for at in range(whole.num_row_groups):
        row_group = whole.row_group(at)
        chunks = [row_group.column(leaf) for leaf in range(row_group.num_columns)]
        start = min(chunks[0].data_page_offset, chunks[0].dictionary_page_offset or 1 << 60)
        middle = start + sum(chunk.total_compressed_size for chunk in chunks) // 2
        ends = [*offsets[1:], len(content)]
        found.append(sum(a <= middle < b for a, b in zip(offsets, ends, strict=True)))
    return found


ORDERS = {
    "its own": ("idx", "idx"),
    "the first one is gone": ("idx", "dx"),
    "the first one is new": ("dx", "idx"),
    "another one is first": ("idx", "dxi", "dix"),
    "the large one is last, then first": ("ixd", "dxi"),
    "each has lost one": ("ixd", "xd", "id"),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("orders", ORDERS.values(), ids=ORDERS)
def test_each_row_group_is_in_one_part_of_the_file(orders, version, store):
    """Where a file lacks the first column, or has it behind the others, too."""
    digits = np.random.default_rng(1)
    known = {
        "i": (identified("i", pa.int64(), 1), [1] * 4000),
        "d": (identified("d", pa.float64(), 2), digits.random(4000).tolist()),
        "x": (identified("x", pa.string(), 3), ["x"] * 4000),
    }
    files = []
    for at, names in enumerate(orders):
        rows = [*zip(*(known[name][1] for name in names), strict=True)]
        content = io.BytesIO()
        pq.write_table(table([known[name][0] for name in names], rows), content)
        store.content[f"f{at}"] = content.getvalue()
        files.append(SourceFile(f"f{at}", "parquet", 4000, 1, first_row_id=9000 * at))
    wanted = schema((1, "i", "long"), (2, "d", "double"), (3, "x", "string"))
    columns = TableColumns(written_schema(wanted, version), wanted)
    whole = group(store, files, version, columns=columns)
    merged = merge(whole, store)
    content = store.content[merged.location]
    assert parts_of_row_groups(content, merged.metrics.split_offsets) == [1] * len(orders)
    assert parts_of_row_groups(content, [0, 99, len(content) // 2]) == [1] * len(orders)
    (rewritten,) = rewrite_data(whole, OPTIONS, store.outputs()).files
    names = columns.written.fields

    def in_order(location: str):
        return [[row.get(item.name) for item in names] for row in store.rows(location)]

    assert in_order(merged.location) == in_order(rewritten.location)


def test_no_first_column_to_begin_with_is_refused(store):
    part, key = identified("part", pa.float64(), 3), identified("key", pa.float64(), 4)
    files = [store.add("f0", table((part,), [(1.5,)])), store.add("f1", table((key,), [(2.5,)]))]
    with pytest.raises(NotMergeable, match="no column in common"):
        merge(group(store, files), store)
    large, small = [at / 7 for at in range(5000)], [0.5] * 5000
    store.content.clear()
    files = [
        store.add("f0", table((part, key), [*zip(large, small, strict=True)])),
        store.add("f1", table((key, part), [*zip(large, [0.5, 1.5] * 2500, strict=True)])),
    ]
    with pytest.raises(NotMergeable, match="is behind the others"):
        merge(group(store, files), store)
    files.append(store.add("f2", table((part, key), [*zip(large, small, strict=True)])))
    content = store.content[merge(group(store, files), store).location]
    assert parts_of_row_groups(content, [0, len(content) // 3]) == [1, 1, 1]


def test_no_bounds_are_told_of_uuids():
    """Java compares their halves as signed numbers, so that `8…` comes before `7…`."""
    columns = Schema(
        0,
        (
            NestedField(1, "u", PrimitiveType("uuid"), required=False),
            NestedField(2, "n", PrimitiveType("int"), required=False),
        ),
    )
    lower, upper = {1: b"\x70" + bytes(15), 2: bytes(4)}, {1: b"\x80" + bytes(15), 2: bytes(4)}
    metrics = FileMetrics(2, lower_bounds=lower, upper_bounds=upper)
    metrics = replace(metrics, value_counts={1: 2, 2: 2}, null_value_counts={1: 0, 2: 0})
    told = shaped_metrics(metrics, columns, metrics_modes({}, columns, ()))
    assert (set(told.lower_bounds), set(told.upper_bounds)) == ({2}, {2})


def test_files_are_divided_into_parts_that_are_alike():
    """Of seven files two have a column more, two another type, one a column that must not lack."""
    store = MemoryFiles()
    plain = [source.location for source in three(store)[:2]]
    more = (*FIELDS, identified("level", pa.int64(), 9))
    other = (identified("id", pa.int32(), 1), *FIELDS[1:])
    required = (*FIELDS, identified("key", pa.int64(), 8, required=True))
    files = {"a": more, "b": other, "c": more, "d": other, "e": required}
    for name, fields in files.items():
        store.add(name, table(fields, [(*row, 1)[: len(fields)] for row in some(0, 3)]))
    shapes = [read_source(io.BytesIO(store.content[name])).stored for name in (*plain, *files)]
    may_lack = {9: True}
    found = alike_parts([*shapes, "it is encrypted"], lambda _, key: may_lack[key])
    assert found.parts == ((0, 1, 2, 4), (3, 5))
    assert found.odd == {
        6: "not all files have `key`, a required column of the others",
        7: "it is encrypted",
    }
    may_lack[9] = False  # it has a default
    assert alike_parts(shapes, lambda _, key: may_lack[key]).parts == ((0, 1), (2, 4), (3, 5))
    assert alike_parts(shapes[:1], lambda *_: True).odd == {0: "it is a single file"}
