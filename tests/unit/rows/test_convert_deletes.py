"""Rows that equality deletes delete, by a search in memory, by one on disk, and by hand."""

import math
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.checks.file_identity import StatedFile
from icectl.entries.partition_key import encode_key
from icectl.errors import CorruptTable, Unsupported
from icectl.files.deletion_vectors import read_dv
from icectl.files.parquet.metrics import read_metrics
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField, PartitionSpec, parse_transform
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.rows.compact_job import ConvertJob, TypedSpec
from icectl.rows.convert_deletes import run_convert
from icectl.table.rewrite_tasks import ConvertTask, DeleteFile, InputFile
from tests.builders.data_files import MemoryFiles, identified, schema, table

A, B, C = (
    identified("a", pa.int64(), 1),
    identified("b", pa.string(), 2),
    identified("c", pa.float64(), 3),
)
EVER = schema((1, "a", "long"), (2, "b", "string"), (3, "c", "double"))
BY_B = PartitionSpec(1, (PartitionField((2,), 1000, "b", parse_transform("identity")),))
SPECS = {
    0: TypedSpec(PartitionSpec(0, ()), ()),
    1: TypedSpec(BY_B, (PrimitiveType("string"),)),
}
ALL, X, Y = (
    (0, b""),
    (1, encode_key([PrimitiveType("string")], ["x"])),
    (
        1,
        encode_key([PrimitiveType("string")], ["y"]),
    ),
)


class Subject:
    """Data files and equality deletes, and the rows that a search finds."""

    def __init__(self, ever: Schema = EVER) -> None:
        self.files = MemoryFiles()
        self.inputs: list[InputFile] = []
        self.deletes: list[DeleteFile] = []
        self.ever = ever

    def data(self, rows: pa.Table, number: int, where: tuple[int, bytes] = ALL, **how: Any) -> None:
        location = f"f{len(self.inputs)}"
        content = self._put(location, rows, **how)
        metrics = read_metrics(BytesIO(content), self.ever) if not how else None
        stated = None if metrics is None else StatedFile(len(content), metrics)
        form = FileFormat[how.get("file_format", "parquet").upper()]
        self.inputs.append(
            InputFile(location, form, len(content), len(rows), *where, number, stated=stated)
        )

    def delete(
        self, rows: pa.Table, ids: tuple[int, ...], number: int, where: tuple[int, bytes] = ALL
    ) -> None:
        location = f"d{len(self.deletes)}"
        content = self._put(location, rows)
        self.deletes.append(
            DeleteFile(location, FileFormat.PARQUET, len(content), len(rows), number, *where, ids)
        )

    def _put(
        self, location: str, rows: pa.Table, file_format: str = "parquet", **how: Any
    ) -> bytes:
        if not how:
            self.files.add(location, rows, file_format)
            return self.files.content[location]
        sink = BytesIO()
        pq.write_table(rows, sink, **how)
        self.files.content[location] = sink.getvalue()
        return sink.getvalue()

    def found(self, **limits: int) -> dict[str, list[int]]:
        by_file = self.told(**limits).by_file(ConvertTask("0-0", 0, tuple(self.inputs), ()))
        assert all(len(read_dv(vector)) == count for count, vector in by_file.values())
        return {location: read_dv(vector).tolist() for location, (_, vector) in by_file.items()}

    def told(self, **limits: int) -> Any:
        job = ConvertJob(SPECS, self.ever, (), frozenset({0}), **limits)
        task = ConvertTask("0-0", 0, tuple(self.inputs), tuple(self.deletes))
        return run_convert(task, job, self.files.outputs())


def same(left: Any, right: Any) -> bool:
    """Whether two values are one key, as Java compares them."""
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    return left == right and type(left) is type(right)


VALUES = st.tuples(
    st.sampled_from([None, 0, 1, 2, 2**40]),
    st.sampled_from([None, "", "x", "y"]),
    st.sampled_from([None, 0.0, -0.0, math.nan, 1.5]),
)
FILES = st.lists(
    st.tuples(
        st.lists(VALUES, max_size=12),
        st.integers(1, 5),
        st.sampled_from([ALL, X, Y]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
FILTERED = {
    "use_dictionary": False,
    "bloom_filter_options": {name: {"ndv": 100, "fpp": 0.001} for name in "abc"},
    "row_group_size": 4,
}
DELETES = st.lists(
    st.tuples(
        st.lists(VALUES, min_size=1, max_size=6),
        st.sampled_from([(1,), (2,), (3,), (1, 2), (3, 1), (1, 2, 3)]),
        st.integers(1, 6),
        st.sampled_from([ALL, X, Y]),
    ),
    min_size=1,
    max_size=6,
)


@given(files=FILES, deletes=DELETES)
def test_rows_are_those_that_the_format_says_however_many_keys_fit(files, deletes):
    subject = Subject()
    texts = {X: "x", Y: "y"}
    files = [
        ([(a, texts.get(where, b), c) for a, b, c in rows], number, where, has_filters)
        for rows, number, where, has_filters in files
    ]
    for rows, number, where, has_filters in files:
        subject.data(table([A, B, C], rows), number, where, **(FILTERED if has_filters else {}))
    for keys, ids, number, where in deletes:
        subject.delete(table([A, B, C], keys), ids, number, where)
    expected = {}
    for at, (rows, number, where, _) in enumerate(files):
        gone = [
            place
            for place, row in enumerate(rows)
            if any(
                number < newer
                and scope in (ALL, where)
                and any(all(same(row[id_ - 1], key[id_ - 1]) for id_ in ids) for key in keys)
                for keys, ids, newer, scope in deletes
            )
        ]
        if gone:
            expected[f"f{at}"] = gone
    assert subject.found() == expected
    assert subject.found(most_keys=2) == expected


def test_wide_keys_go_to_disk_by_their_bytes():
    subject = Subject()
    texts = ["x" * 1000 + str(number) for number in range(50)]
    subject.data(table([B], [(text,) for text in texts]), 1)
    subject.delete(table([B], [(text,) for text in texts[::7]]), (2,), 2)
    assert subject.found(most_key_bytes=3000) == {"f0": list(range(0, 50, 7))}


@pytest.mark.parametrize("limits", [{}, {"most_keys": 10}])
def test_many_keys_of_many_ranges_are_all_found(limits, monkeypatch):
    from icectl.rows import spilled_keys
    from icectl.storage import spill

    monkeypatch.setattr(spilled_keys, "_PART_KEYS", 100)
    monkeypatch.setattr(spill, "_WAITING_BYTES", 1000)
    subject = Subject()
    for start in range(0, 5000, 1000):
        subject.data(table([A], [(id_,) for id_ in range(start, start + 1000)]), 1 + start // 1000)
    subject.delete(table([A], [(id_,) for id_ in range(0, 5000, 3)]), (1,), 4)
    gone = set(range(0, 5000, 3))
    starts = (0, 1000, 2000)
    expected = {
        f"f{start // 1000}": sorted(id_ - start for id_ in gone & set(range(start, start + 1000)))
        for start in starts
    }
    assert subject.found(**limits) == expected


def test_row_groups_without_a_key_are_not_read():
    subject = Subject()
    rows = table([A, B], [(id_, str(id_)) for id_ in range(1000)])
    subject.data(rows, 1, row_group_size=100)
    subject.delete(table([A], [(5,), (250,), (255,), (5000,)]), (1,), 2)
    told = subject.told()
    assert subject.found() == {"f0": [5, 250, 255]}
    assert (told.read_files, told.read_rows, told.key_count) == (1, 200, 4)


@pytest.mark.parametrize("by", ["filters", "dictionaries"])
def test_row_groups_without_a_key_by_filters_or_dictionaries_are_not_read(by):
    subject = Subject()
    rows = [(id_ * 37 % 1009, f"{id_ % 7 * 2}", None) for id_ in range(1000)]
    how = {"row_group_size": 100} | ({"use_dictionary": False} if by == "filters" else {})
    if by == "filters":
        how["bloom_filter_options"] = {"a": {"ndv": 100, "fpp": 0.0001}}
    subject.data(table([A, B, C], rows), 1, **how)
    id_ = rows[250][0]
    subject.delete(table([A], [(id_,)]), (1,), 2)
    assert (subject.found(), subject.told().read_rows) == ({"f0": [250]}, 100)
    # Both columns have their value in other row groups; bounds have all.
    subject.delete(table([A, B], [(rows[3][0], "5"), (rows[703][0], "7")]), (1, 2), 2)
    assert subject.found() == {"f0": [250]}
    assert subject.told().read_rows == (100 if by == "dictionaries" else 300)


def test_files_without_a_key_by_their_entries_are_not_opened():
    subject = Subject()
    subject.data(table([A], [(id_,) for id_ in range(10)]), 1)
    subject.data(table([A], [(id_,) for id_ in range(10, 20)]), 1)
    subject.delete(table([A], [(5,), (25,)]), (1,), 2)
    assert (subject.told().read_files, subject.found()) == (1, {"f0": [5]})


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_other_formats_are_searched_whole(file_format):
    subject = Subject()
    subject.data(table([A, B], [(1, "x"), (2, "y"), (None, "x")]), 1, file_format=file_format)
    subject.delete(table([A], [(2,), (None,)]), (1,), 2)
    assert subject.found() == {"f0": [1, 2]}


def test_columns_that_files_lack_have_their_defaults():
    column = NestedField(2, "b", PrimitiveType("string"), required=False, initial_default="none")
    subject = Subject(Schema(0, (EVER.fields[0], column)))
    subject.data(table([A], [(1,), (2,)]), 1)
    subject.data(table([A, B], [(1, "none"), (2, "x")]), 1)
    subject.delete(table([A, B], [(1, "none")]), (1, 2), 2)
    assert subject.found() == {"f0": [0], "f1": [0]}


def test_narrow_columns_are_found_by_wide_keys():
    narrow = identified("a", pa.int32(), 1)
    subject = Subject()
    subject.data(table([narrow], [(1,), (2,)]), 1, row_group_size=1)
    subject.delete(table([A], [(2,), (2**33,)]), (1,), 2)
    assert subject.found() == {"f0": [1]}


@pytest.mark.parametrize(
    ("ids", "rows", "kind", "message"),
    [
        ((1,), table([B], [("x",)]), CorruptTable, "d0` lacks the column `a`"),
        ((9,), table([A], [(1,)]), CorruptTable, "d0` compares columns that no schema"),
        ((), table([A], [(1,)]), CorruptTable, "d0` compares columns that no schema"),
        ((4,), table([A], [(1,)]), Unsupported, "d0` compares `v`"),
    ],
)
def test_r123_deletes_that_make_no_sense_are_named(ids, rows, kind, message):
    subject = Subject(schema((1, "a", "long"), (2, "b", "string"), (4, "v", "variant")))
    subject.data(table([A], [(1,)]), 1)
    subject.delete(rows, ids, 2)
    with pytest.raises(kind, match=message):
        subject.told()


def test_damaged_deletes_are_named():
    subject = Subject()
    subject.data(table([A], [(1,)]), 1)
    subject.delete(table([A], [(1,)]), (1,), 2)
    subject.files.content["d0"] = b"PAR1" + bytes(100)
    with pytest.raises(CorruptTable, match="d0"):
        subject.told()
