"""Random file groups with random deletes: what is written is what a slow reader sees."""

import io
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.files.deletion_vectors import dv_blob
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.metrics_modes import metrics_modes
from icectl.format.partition import spec_from_json
from icectl.rows.deleted_positions import DeletionVector, PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.read_data import written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns, rewrite_data
from icectl.rows.write_data import write_options
from tests.builders.data_files import MemoryFiles, identified, schema, table

TAGS = {"type": "list", "element-id": 5, "element": "string", "element-required": False}
COLUMNS = schema(
    (1, "id", "long"), (2, "name", "string"), (4, "tags", TAGS), (3, "ratio", "double"),
    (6, "late", "int", {"initial-default": 7}),
)  # fmt: skip
SPEC = spec_from_json(
    {
        "spec-id": 1,
        "fields": [{"source-id": 2, "field-id": 1000, "name": "n", "transform": "truncate[1]"}],
    }
)
PATH, POS = (
    identified("file_path", pa.string(), 2_147_483_546),
    identified("pos", pa.int64(), 2_147_483_545),
)
FLOATS = st.sampled_from([0.5, -1.5, float("nan"), float("inf"), None])
IDS = st.integers(-4, 4) | st.none()
NAMES = st.sampled_from(["", "a", "b", "ab", "é", "x" * 20, None])
ROW = st.tuples(IDS, NAMES, st.none() | st.lists(NAMES, max_size=3), FLOATS)
FIELDS: dict[str, list[pa.Field]] = {
    "id": [identified("id", pa.int64(), 1), identified("key", pa.int32(), 1)],
    "name": [identified("name", pa.string(), 2), identified("n", pa.large_string(), 2)],
    "tags": [identified("tags", pa.list_(identified("element", pa.string(), 5)), 4)],
    "ratio": [identified("ratio", pa.float64(), 3), identified("r", pa.float32(), 3)],
    "late": [identified("late", pa.int32(), 6)],
}
FORMATS = st.sampled_from(["parquet", "orc", "avro"])
ORDER = ("id", "name", "tags", "ratio", "late")


@dataclass
class Drawn:
    """A data file: its rows as the table means them, and which are deleted by position."""

    rows: list[dict[str, Any]]
    fields: dict[str, pa.Field]
    row_group_size: int
    file_format: str
    by_vector: set[int]
    by_position: set[int]
    sequence_number: int


@dataclass
class Equality:
    names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    sequence_number: int
    fields: list[pa.Field] = field(default_factory=list)


@st.composite
def files(draw):
    fields = {
        name: draw(st.sampled_from(choices))
        for name, choices in FIELDS.items()
        if name == "id" or draw(st.booleans())
    }
    rows = []
    for values in draw(st.lists(ROW, max_size=12)):
        row = dict(zip(ORDER, (*values, draw(st.integers(0, 2))), strict=True))
        absent = {"late": 7, "name": None, "tags": None, "ratio": None}
        rows.append({name: row[name] if name in fields else absent[name] for name in ORDER})
    chosen = {at for at in draw(st.sets(st.integers(0, 11), max_size=4)) if at < len(rows)}
    is_vector = draw(st.booleans())
    return Drawn(
        rows, fields, draw(st.integers(1, 5)), draw(FORMATS), chosen if is_vector else set(),
        set() if is_vector else chosen, draw(st.integers(1, 4)),
    )  # fmt: skip


@st.composite
def equalities(draw):
    names = draw(st.sampled_from([("id",), ("name",), ("id", "name"), ("late", "id")]))
    values = {"id": IDS, "name": NAMES, "late": st.integers(0, 8)}
    keys = draw(st.lists(st.tuples(*(values[name] for name in names)), min_size=1, max_size=4))
    fields = [draw(st.sampled_from(FIELDS[name])) for name in names]
    return Equality(names, keys, draw(st.integers(1, 5)), fields)


def is_deleted(row, at, file, deletes):
    if at in file.by_vector | file.by_position:
        return True
    return any(
        one.sequence_number > file.sequence_number
        and tuple(row[name] for name in one.names) in one.keys
        for one in deletes
    )


def canonical(row):
    ratio = "nan" if row["ratio"] != row["ratio"] else row["ratio"]
    return str([row["id"], row["name"], row["tags"], ratio, row["late"]])


def group_of(drawn, deletes, store):
    sources, positions, vectors = [], [], []
    named = []
    for number, file in enumerate(drawn):
        location = f"f{number}"
        fields = list(file.fields.values())
        rows = table(fields, [[row[name] for name in file.fields] for row in file.rows])
        told = {"sequence_number": file.sequence_number}
        sources.append(store.add(location, rows, file.file_format, **told))
        if file.file_format == "parquet":
            sink = io.BytesIO()
            pq.write_table(rows, sink, row_group_size=file.row_group_size)
            store.content[location] = sink.getvalue()
        named += [(location, at) for at in sorted(file.by_position)]
        if file.by_vector:
            store.content[f"v{number}"] = write_puffin(
                [dv_blob(sorted(file.by_vector), location)], {}
            )
            (blob,) = read_puffin(store.content[f"v{number}"]).blobs
            place = blob.offset, blob.length
            vectors.append(DeletionVector(f"v{number}", *place, len(file.by_vector), location))
    if named:
        file = store.add("p", table([PATH, POS], named))
        positions.append(PositionDeletes(file, frozenset(one.location for one in sources)))
    equality = []
    for number, one in enumerate(deletes):
        file = store.add(f"e{number}", table(one.fields, one.keys))
        older = (each for each in sources if each.sequence_number < one.sequence_number)
        ids = tuple(int(each.metadata[b"PARQUET:field_id"]) for each in one.fields)
        equality.append(EqualityDeletes(file, ids, frozenset(each.location for each in older)))
    columns = TableColumns(written_schema(COLUMNS, 2), COLUMNS)
    deleted = DeletesOfGroup(tuple(positions), tuple(vectors), tuple(equality))
    return FileGroup(tuple(sources), 1000, deleted, columns, SPEC, None)


@given(st.lists(files(), min_size=1, max_size=4), st.lists(equalities(), max_size=4))
@settings(max_examples=40, deadline=None)
def test_live_rows_are_written_once_each_into_their_partitions(drawn, deletes):
    store = MemoryFiles()
    options = write_options({}, 2**30, metrics_modes({}, COLUMNS, ()))
    found = rewrite_data(group_of(drawn, deletes, store), options, store.outputs())
    expected = Counter(
        canonical(row)
        for file in drawn
        for at, row in enumerate(file.rows)
        if not is_deleted(row, at, file, deletes)
    )
    written = {file.partition_key: store.rows(file.location) for file in found.files}
    assert Counter(canonical(row) for rows in written.values() for row in rows) == expected
    assert len(written) == len(found.files)
    assert found.deleted_row_count == sum(len(file.rows) for file in drawn) - expected.total()
    for file in found.files:
        rows = written[file.partition_key]
        assert len({row["name"] if row["name"] is None else row["name"][:1] for row in rows}) == 1
        assert file.metrics.record_count == len(rows)
        assert file.metrics.null_value_counts[3] == sum(row["ratio"] is None for row in rows)
        nan = sum(row["ratio"] != row["ratio"] for row in rows)
        # Java takes a column whose values are all NaN for one that no filter finds.
        assert file.metrics.nan_value_counts == ({} if nan == len(rows) else {3: nan})
