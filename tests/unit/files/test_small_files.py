"""Small Parquet files read together: the rows and footers of each, and which are read alone."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable
from icectl.files.parquet import small_files
from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.small_files import SmallFile, alike, open_alike, small_file
from tests.builders.data_files import identified

FLAT = [
    identified("id", pa.int64(), 1),
    identified("name", pa.string(), 2),
    identified("real", pa.float64(), 3),
]
SCHEMA = pa.schema(
    [
        *FLAT,
        identified("list", pa.list_(identified("element", pa.int32(), 5)), 4),
        identified("s", pa.struct([identified("text", pa.string(), 7)]), 6),
        identified("uuid", pa.binary(16), 8),
    ]
)


def stored(number: int, schema: pa.Schema = SCHEMA, count: int = 50, **options: Any) -> bytes:
    """A file of rows, some of them null, some of which repeat."""
    rows = [
        {
            "id": id_,
            "name": None if id_ % 7 == 0 else f"n{id_ % 5}",
            "real": id_ / 3,
            "list": list(range(id_ % 4)),
            "s": {"text": f"t{number}"} if id_ % 3 else None,
            "uuid": id_.to_bytes(16, "big"),
        }
        for id_ in range(number * count, number * count + count)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, **options)
    return sink.getvalue()


def small(content: bytes) -> SmallFile:
    found = small_file(content)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "compression": "none"},
        {"data_page_version": "2.0", "data_page_size": 64, "write_page_index": True},
        {"compression": "zstd", "write_page_checksum": True},
    ],
)
def test_files_that_are_alike_are_one_with_all_rows_in_order(options):
    contents = [stored(number, **options) for number in range(5)]
    together = open_alike([*map(small, contents)], ())
    assert together is not None
    (rows,) = together.opened.batches(None)
    alone = [open_parquet(io.BytesIO(content), ()) for content in contents]
    read = [found.batch for opened in alone for found in opened.batches(None)]
    assert (rows.first_row, rows.batch.equals(pa.concat_batches(read))) == (0, True)
    assert rows.batch["id"].to_pylist() == list(range(250))
    assert [*together.facts] == [opened.facts() for opened in alone]
    assert [*together.split_offsets] == [opened.split_offsets for opened in alone]
    (some,) = together.opened.batches({7})
    assert some.batch.schema.names == ["s"]


def test_columns_that_any_of_the_files_has_bloom_filters_of_have_them():
    filtered = stored(1, bloom_filter_options={"name": {"ndv": 50, "fpp": 0.01}})
    together = open_alike([small(stored(0)), small(filtered)], ())
    assert together is not None
    assert together.opened.filtered == {2}


def test_only_files_whose_footers_agree_are_alike():
    others = [
        stored(2, pa.schema([identified("id", pa.int64(), 9), *FLAT[1:]])),
        stored(3, pa.schema(FLAT[1:])),
        stored(4, SCHEMA.with_metadata({"a": "b"})),
    ]
    files = [small(stored(0)), small(stored(1)), None, *map(small, others), None, small(stored(5))]
    assert [*alike(files)] == [range(2), *(range(at, at + 1) for at in range(2, 8))]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        stored(0)[:-1],
        stored(0, row_group_size=20),
        stored(0)[:-90] + bytes(82) + stored(0)[-8:],
        stored(0)[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1",
    ],
)
def test_other_files_are_opened_by_themselves(content):
    assert small_file(content) is None


@pytest.mark.parametrize(
    ("limit", "most"), [("LARGEST_BATCH_ROWS", 149), ("LARGEST_BATCH_BYTES", 3_000)]
)
def test_more_rows_than_a_batch_has_are_not_read_together(monkeypatch, limit, most):
    files = [small(stored(number, pa.schema(FLAT))) for number in range(3)]
    assert open_alike(files, ()) is not None
    monkeypatch.setattr(small_files, limit, most)
    assert open_alike(files, ()) is None
    assert open_alike(files[:2], ()) is not None


def test_texts_of_unknown_length_are_not_read_together():
    files = [small(stored(number)) for number in range(2)]
    unknown = [
        SmallFile(
            file.content,
            file.row_count,
            [chunk._replace(value_bytes=None) for chunk in file.chunks],
            file.described,
        )
        for file in files
    ]
    assert open_alike(files, ()) is not None
    assert open_alike(unknown, ()) is None


def with_number(content: bytes, number: int, other: int, *, once: bool) -> bytes:
    """A file whose footer has another number where it first has this one, or everywhere."""
    footer_at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    found, wanted = (bytes([part << 1 & 127 | 128, part >> 6]) for part in (number, other))
    footer = content[footer_at:]
    assert found in footer
    return content[:footer_at] + footer.replace(found, wanted, 1 if once else -1)


def test_a_footer_with_fewer_rows_than_pages_leaves_the_rows_of_other_files_where_they_are():
    """Decoded as row groups of one file, the last row of the next one would be lost."""
    content = stored(0, pa.schema(FLAT), 1000)
    lying = with_number(content, 1000, 999, once=False)
    together = open_alike([small(lying), small(content)], ())
    assert together is not None
    (rows,) = together.opened.batches(None)
    assert rows.batch["id"].to_pylist() == [*range(999), *range(1000)]


def test_a_file_of_other_rows_than_its_footer_says_is_damage():
    content = stored(0, pa.schema(FLAT), 1000)
    lying = with_number(content, 1000, 999, once=True)
    assert small(lying).row_count == 999
    together = open_alike([small(content), small(lying)], ())
    assert together is not None
    with pytest.raises(CorruptTable, match="other rows than its footer says") as found:
        list(together.opened.batches(None))
    assert found.value.rule == "R-099"
