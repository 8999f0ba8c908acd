"""Parquet data files by field id, and what they have in common with other formats."""

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files.compiled import loops
from icectl.files.data_file import open_data_file
from icectl.files.data_rows import LARGEST_BATCH_BYTES, FileRows, batch_rows, ids_of, retype_array
from icectl.files.parquet import data_file as data_file_parquet
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.storage.streams import CountingReader


def with_id(name, kind, number):
    return pa.field(
        name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)}
    )


POINT = pa.struct([with_id("x", pa.int32(), 4), with_id("y", pa.int32(), 5)])
TAGS = pa.map_(
    pa.field("key", pa.string(), nullable=False, metadata={"PARQUET:field_id": "7"}),
    with_id("value", pa.list_(with_id("element", pa.int64(), 9)), 8),
)
SCHEMA = pa.schema(
    [
        with_id("id", pa.int64(), 1),
        with_id("point", POINT, 3),
        with_id("name", pa.string(), 2),
        with_id("tags", TAGS, 6),
    ]
)
ROWS = [
    {"id": 1, "point": {"x": 1, "y": None}, "name": "a", "tags": [("k", [1, None])]},
    {"id": 2, "point": None, "name": None, "tags": None},
    {"id": 3, "point": {"x": 3, "y": 4}, "name": "c", "tags": []},
]


def written(rows=ROWS, schema=SCHEMA, **options):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), file, **options)
    return file.getvalue()


def read(content, field_ids, file_format="PARQUET", mapping=()):
    opened = open_data_file(content, file_format, mapping)
    return [row for rows in opened.batches(field_ids) for row in rows.batch.to_pylist()]


def ids(schema):
    return [number for field in schema for number in ids_of(field)]


def test_columns_are_those_that_have_an_id_at_any_depth():
    content = written()
    assert read(content, [1, 2]) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
    ]
    assert read(content, [5]) == [{"point": row["point"]} for row in ROWS]
    assert read(content, [9]) == [{"tags": row["tags"]} for row in ROWS]
    assert read(content, range(1, 10)) == ROWS


def test_batches_carry_field_ids_and_come_in_the_order_of_the_file():
    opened = open_data_file(written(), "parquet")
    (rows,) = opened.batches([9, 2, 3])
    assert rows.batch.schema.names == ["point", "name", "tags"]
    assert ids(rows.batch.schema) == [3, 4, 5, 2, 6, 7, 8, 9]
    assert ids(opened.schema) == [1, 3, 4, 5, 2, 6, 7, 8, 9]


def test_row_groups_come_one_by_one_with_the_place_of_their_rows():
    opened = open_data_file(written(row_group_size=2), "parquet")
    assert opened.record_count == 3
    assert [(rows.first_row, rows.batch["id"].to_pylist()) for rows in opened.batches([1])] == [
        (0, [1, 2]),
        (2, [3]),
    ]


def test_rows_are_counted_without_a_column():
    opened = open_data_file(written(row_group_size=2), "parquet")
    found = [(rows.first_row, rows.batch.num_rows) for rows in opened.batches([99])]
    assert found == [(0, 2), (2, 1)]
    assert all(rows.batch.num_columns == 0 for rows in opened.batches([]))


def test_batches_of_wide_rows_are_shorter():
    assert batch_rows(1000, 1000) == 131_072
    assert batch_rows(1_000_000, 1000 * LARGEST_BATCH_BYTES) == 1000
    assert batch_rows(1, 10**12) == 1
    assert batch_rows(0, 0) == 1
    rows = [{"name": str(number) * 2_000_000} for number in range(9)] * 3
    content = written(rows, pa.schema([with_id("name", pa.string(), 1)]), use_dictionary=False)
    sizes = [part.batch.num_rows for part in open_data_file(content, "parquet").batches([1])]
    assert sizes == [16, 11]


def test_names_with_dots_and_names_that_stand_twice_are_told_apart():
    inner = pa.struct([with_id("b", pa.int32(), 3)])
    fields = [with_id("a", inner, 2), with_id("a.b", pa.int32(), 1), with_id("c", pa.int32(), 4)]
    content = written([{"a": {"b": 1}, "a.b": 2, "c": 3}], pa.schema(fields))
    assert read(content, [1]) == [{"a.b": 2}]
    assert read(content, [3]) == [{"a": {"b": 1}}]
    twice = pa.schema([with_id("n", pa.int32(), 1), with_id("n", pa.int32(), 2)])
    file = io.BytesIO()
    pq.write_table(pa.table([[5], [6]], schema=twice), file)
    assert read(file.getvalue(), [2]) == [{"n": 6}]


MAPPING = [
    {"names": ["id"], "field-id": 1},
    {"names": ["other", "point"], "field-id": 3, "fields": [{"names": ["y"], "field-id": 5}]},
    {
        "names": ["tags"],
        "field-id": 6,
        "fields": [
            {"names": ["key"], "field-id": 7},
            {"names": ["value"], "field-id": 8, "fields": [{"names": ["element"], "field-id": 9}]},
        ],
    },
]


def test_r181_a_file_without_ids_gets_those_of_the_name_mapping():
    bare = pa.schema(
        [
            ("id", pa.int64()),
            ("point", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
            ("name", pa.string()),
            ("tags", pa.map_(pa.string(), pa.list_(pa.field("array", pa.int64())))),
        ]
    )
    content = written(schema=bare)
    (rows,) = open_data_file(content, "parquet", MAPPING).batches([5, 9])
    assert ids(rows.batch.schema) == [3, 5, 6, 7, 8, 9]
    assert rows.batch.to_pylist() == [{"point": row["point"], "tags": row["tags"]} for row in ROWS]
    assert read(content, range(10)) == [{}, {}, {}]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64(), 2), pa.large_list(pa.int64())])
def test_r181_lists_of_other_kinds_of_arrow_get_ids_too(kind):
    mapping = [{"names": ["c"], "field-id": 1, "fields": [{"names": ["element"], "field-id": 2}]}]
    content = written([{"c": [1, 2]}], pa.schema([("c", kind)]))
    (rows,) = open_data_file(content, "parquet", mapping).batches([2])
    assert ids(rows.batch.schema) == [1, 2]
    assert rows.batch["c"].type == kind
    assert rows.batch.to_pylist() == [{"c": [1, 2]}]


def test_r181_a_file_with_an_id_does_without_the_name_mapping():
    schema = pa.schema([with_id("id", pa.int64(), 7), with_id("name", pa.string(), None)])
    opened = open_data_file(written([{"id": 1, "name": "a"}], schema), "parquet", MAPPING)
    assert ids(opened.schema) == [7]


def test_timestamps_of_96_bits_are_microseconds():
    far = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - as stored
    schema = pa.schema([with_id("at", pa.timestamp("us"), 1)])
    content = written([{"at": far}], schema, use_deprecated_int96_timestamps=True)
    (rows,) = open_data_file(content, "parquet").batches([1])
    assert rows.batch.schema.field("at").type == pa.timestamp("us")
    assert rows.batch.to_pylist() == [{"at": far}]


def test_metrics_and_properties_come_out_of_the_footer():
    schema = SCHEMA.with_metadata({"delete-type": "position"})
    opened = open_data_file(written(schema=schema), "parquet")
    assert opened.properties == {"delete-type": "position"}
    fields = (NestedField(1, "id", PrimitiveType("long"), required=False),)
    metrics = opened.metrics(Schema(0, fields))
    assert (metrics.record_count, metrics.null_value_counts[2]) == (3, 1)
    assert metrics.upper_bounds == {1: (3).to_bytes(8, "little")}
    assert metrics.split_offsets == (4,)


@pytest.mark.skipif(loops() is None, reason="no compiled loops")
def test_facts_of_a_footer_are_those_that_pyarrow_finds():
    content = written(compression="zstd")
    opened = open_data_file(content, "parquet")
    found = opened.facts()
    assert set(found) == {1, 2, 4, 5}
    row_group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    chunks = {1: 0, 4: 1, 5: 2, 2: 3}
    rows = [column.to_pylist() for column in pq.read_table(io.BytesIO(content)).flatten()]
    for id_, place in chunks.items():
        chunk = row_group.column(place)
        stated = chunk.statistics
        least, greatest = (
            one.encode() if isinstance(one, str) else one.to_bytes(8 if id_ == 1 else 4, "little")
            for one in (stated.min, stated.max)
        )
        texts = [one.encode() for one in rows[place] if isinstance(one, str)]
        value_bytes = sum(map(len, texts)) if texts else None
        sizes = chunk.total_compressed_size, value_bytes
        assert found[id_][1] == (chunk.num_values, *sizes, stated.null_count, least, greatest)
    assert found[5][0] == pa.int32()
    assert opened.split_offsets == (4,)
    several = open_data_file(written(row_group_size=1), "parquet")
    assert several.facts() is None
    assert len(several.split_offsets) == 3
    for count, is_looked_at in ((100, True), (101, False)):
        wide = io.BytesIO()
        pq.write_table(pa.table({f"c{at}": [at] for at in range(count)}), wide)
        assert (open_data_file(wide.getvalue(), "parquet").facts() is not None) == is_looked_at


def test_r099_text_that_is_no_utf_8_is_read_and_found_when_looked_at():
    octets = pa.array([b"fine", b"\xff\xfe"])
    text = pa.Array.from_buffers(pa.string(), 2, octets.buffers())
    file = io.BytesIO()
    pq.write_table(pa.table([text], schema=pa.schema([with_id("c", pa.string(), 1)])), file)
    (rows,) = open_data_file(file.getvalue(), "parquet").batches([1])
    assert rows.batch["c"].cast(pa.binary()) == octets
    with pytest.raises(CorruptTable, match=r"the data file is damaged: .*UTF8.* \(R-099\)"):
        rows.check()
    FileRows(0, rows.batch.slice(0, 1)).check()


def test_other_formats_are_not_supported():
    with pytest.raises(Unsupported, match="`vortex` can't be read"):
        open_data_file(written(), "vortex")


def test_r099_damage_in_a_page_is_found_by_its_checksum():
    content = bytearray(written(write_page_checksum=True, compression="none", use_dictionary=False))
    at = content.index(b"\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0")
    content[at] = 9
    with pytest.raises(CorruptTable, match=r"the Parquet file is damaged: .*CRC.*R-099"):
        read(bytes(content), [1])
    assert read(bytes(content), [2]) == [{"name": row["name"]} for row in ROWS]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 100, written()[:-5], written()[-200:]])
def test_r099_what_is_no_parquet_file_is_damaged(content):
    with pytest.raises(CorruptTable, match="R-099"):
        read(content, [1])


def test_an_encrypted_file_is_not_supported():
    import pyarrow.parquet.encryption as pe

    class Keys(pe.KmsClient):
        def wrap_key(self, key_bytes, master_key_identifier):
            return key_bytes.hex()

        def unwrap_key(self, wrapped_key, master_key_identifier):
            return bytes.fromhex(wrapped_key)

    factory = pe.CryptoFactory(lambda _: Keys())
    configuration = pe.EncryptionConfiguration(footer_key="k", column_keys={"k": ["id"]})
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    content = written(
        [{"id": 1}], pa.schema([with_id("id", pa.int64(), 1)]), encryption_properties=properties
    )
    with pytest.raises(Unsupported, match="the Parquet file can't be read"):
        read(content, [1])


class Failing(io.BytesIO):
    """A file whose storage fails behind a position."""

    def __init__(self, content, failure):
        super().__init__(content)
        self.failure = failure

    def read(self, size=-1):
        if self.tell() < 2000:
            raise self.failure
        return super().read(size)


@pytest.mark.parametrize(
    "failure", [StorageError("denied"), OSError(5, "no disk"), FileNotFoundError("gone")]
)
def test_errors_of_the_file_pass(failure):
    rows = [{"id": number, "point": None, "name": "x", "tags": None} for number in range(9000)]
    opened = open_data_file(Failing(written(rows, compression="none"), failure), "parquet")
    with pytest.raises(type(failure)) as caught:
        list(opened.batches([1]))
    assert str(caught.value) == str(failure)


def test_nanoseconds_beyond_a_unit_are_cut_off_downward():
    stored = pa.array([-1, -1000, None, 1999], pa.timestamp("ns"))
    assert retype_array(stored, pa.timestamp("us")).cast(pa.int64()).to_pylist() == [
        -1, -1, None, 1,
    ]  # fmt: skip


def wide(kind, value, count=6_000, distinct=7, width=20_000):
    """Rows of wide texts of which there are few, stored as dictionaries."""
    texts = [f"{number}" * width for number in range(distinct)]
    values = pa.array([value(texts[at % distinct]) for at in range(count)], kind)
    schema = pa.schema([with_id("id", pa.int64(), 1), with_id("wide", kind, 2)])
    return pa.table([pa.array(range(count)), values], schema=schema)


LISTS = pa.list_(with_id("element", pa.string(), 3))
NESTED = pa.struct([with_id("in", pa.list_(with_id("element", pa.binary(), 5)), 4)])
ENTRIES = pa.map_(
    pa.field("key", pa.string(), nullable=False, metadata={"PARQUET:field_id": "7"}),
    with_id("value", pa.string(), 8),
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), lambda text: text),
        (LISTS, lambda text: [text, None, text]),
        (NESTED, lambda text: {"in": [text.encode()]}),
        (ENTRIES, lambda text: [("key", text)]),
    ],
    ids=["text", "list", "struct", "map"],
)
@pytest.mark.parametrize("kept", [True, False])
def test_batches_have_a_size_whatever_little_is_stored_of_it(kind, value, kept):
    rows = wide(kind, value, 4_000)
    file = io.BytesIO()
    pq.write_table(rows, file, store_schema=kept)
    assert len(file.getvalue()) < 2**20
    parts = [part.batch for part in open_data_file(file.getvalue(), "parquet").batches([1, 2])]
    assert max(part.nbytes for part in parts) <= 3 * LARGEST_BATCH_BYTES // 2 + 2**20
    assert pa.Table.from_batches(parts)["id"].to_pylist() == list(range(4_000))
    assert pa.Table.from_batches(parts)["wide"].slice(1000, 9).to_pylist() == (
        rows["wide"].slice(1000, 9).to_pylist()
    )


def test_wide_values_behind_many_narrow_ones_do_not_make_a_large_batch():
    schema = pa.schema([with_id("wide", pa.string(), 2)])
    codes = pa.array([0] * 300_000 + [1] * 3_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["", "x" * 100_000]))
    file = io.BytesIO()
    table = pa.Table.from_arrays([column], schema=pa.schema([schema[0].with_type(column.type)]))
    pq.write_table(table, file, store_schema=False, row_group_size=len(table))
    parts = [part.batch for part in open_data_file(file.getvalue(), "parquet").batches([2])]
    assert sum(part.num_rows for part in parts) == 303_000
    assert max(part.nbytes for part in parts) <= 3 * LARGEST_BATCH_BYTES // 2 + 2**20


def test_nulls_before_the_first_value_do_not_hide_how_wide_it_is():
    rows = wide(LISTS, lambda text: [text], 4_000)
    nulls = rows.slice(0, 10).set_column(1, rows.schema[1], pa.nulls(10, LISTS))
    file = io.BytesIO()
    pq.write_table(pa.concat_tables([nulls, rows]), file, row_group_size=5_000)
    parts = [part.batch for part in open_data_file(file.getvalue(), "parquet").batches([2])]
    assert sum(part.num_rows for part in parts) == 4_010
    assert max(part.nbytes for part in parts) <= 3 * LARGEST_BATCH_BYTES // 2 + 2**20


def test_values_that_share_bytes_in_the_file_are_measured_by_the_first_ones():
    schema = pa.schema([with_id("wide", pa.string(), 2)])
    texts = pa.array(["x" * 20_000 + str(at) for at in range(10_000, 14_000)])
    file = io.BytesIO()
    table = pa.Table.from_arrays([texts], schema=schema)
    pq.write_table(table, file, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    assert len(file.getvalue()) < 2**20
    parts = [part.batch for part in open_data_file(file.getvalue(), "parquet").batches([2])]
    assert parts[0].num_rows == 64 + 256 + 1024  # 27 MB: the first ones are few
    assert pa.Table.from_batches(parts)["wide"].to_pylist() == texts.to_pylist()
    assert max(part.nbytes for part in parts) <= 3 * LARGEST_BATCH_BYTES // 2 + 2**20


def test_columns_of_large_row_groups_are_read_piece_by_piece(monkeypatch):
    class Watched(io.BytesIO):
        longest = 0

        def read(self, size=-1):
            self.longest = max(self.longest, size)
            return super().read(size)

    for limit in ("_WHOLE_CHUNKS_BYTES", "_LARGEST_WORST_BYTES"):
        monkeypatch.setattr(data_file_parquet, limit, 2**20)
    texts = [f"{at * 7919:x}" * 1000 for at in range(4_000)]
    schema = pa.schema([with_id("wide", pa.string(), 2)])
    file = Watched()
    table = pa.Table.from_arrays([pa.array(texts)], schema=schema)
    pq.write_table(table, file, use_dictionary=False, compression="none", write_batch_size=8)
    assert len(file.getvalue()) > 2**24
    parts = [part.batch for part in open_data_file(file, "parquet").batches([2])]
    assert pa.Table.from_batches(parts)["wide"].to_pylist() == texts
    assert file.longest <= 2**21


def test_decimals_as_byte_strings_in_a_dictionary_are_read_too():
    file = io.BytesIO()
    schema = pa.schema([with_id("wide", pa.decimal128(30, 2), 2)])
    values = [Decimal(number).scaleb(-2) for number in range(100)] * 3_000
    pq.write_table(pa.Table.from_arrays([pa.array(values, schema[0].type)], schema=schema), file)
    assert [row["wide"] for row in read(file.getvalue(), [2])] == values


def bytes_read(content: bytes) -> int:
    """What is asked of a file to read all of its rows."""
    file = CountingReader(io.BytesIO(content))
    opened = open_data_file(file, "parquet")
    assert sum(rows.batch.num_rows for rows in opened.batches(None)) == opened.record_count
    return file.bytes_read


def test_a_short_file_is_read_once():
    content = written([{"id": number, "name": f"{number:x}"} for number in range(900)])
    assert len(content) < 2**16
    assert bytes_read(content) == len(content)


def test_dictionaries_are_not_looked_into_where_few_batches_do_without():
    rows = [{"id": number, "name": f"{number * 7919:020x}"} for number in range(3000)]
    content = written(rows, compression="none")
    assert len(content) > 2**16
    assert bytes_read(content) < len(content) + 2**16 + 2**12
    assert read(content, [1, 2]) == rows


LISTED = pa.list_(with_id("element", pa.string(), 3))


@pytest.mark.parametrize("kind", [pa.string(), LISTED], ids=["text", "list"])
def test_a_row_group_of_which_the_footer_tells_a_small_size_is_one_batch(kind):
    texts = [f"{number % 3000 * 7919:032x}" for number in range(9_000)]
    schema = pa.schema([with_id("name", kind, 2)])
    rows = [{"name": text if kind == pa.string() else [text, None]} for text in texts]
    content = written(rows, schema, compression="none")
    # Were each value as long as all that is stored, these would be 900 MB.
    assert pq.read_metadata(io.BytesIO(content)).row_group(0).total_byte_size > 10**5
    assert bytes_read(content) < len(content) + 2**16 + 2**12
    parts = list(open_data_file(content, "parquet").batches([2]))
    assert [(part.first_row, part.batch.num_rows) for part in parts] == [(0, 9_000)]
    assert parts[0].batch.to_pylist() == rows
