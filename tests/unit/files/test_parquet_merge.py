"""Parquet files put together: pages as they are, one footer, and what can't be put together."""

import base64
import io
import random
import time
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from icectl.errors import CorruptTable
from icectl.files.parquet import merge
from icectl.files.parquet.merge import CopyRange, MergedFile, check_alike
from icectl.files.parquet.merge_columns import NotMergeable
from icectl.files.parquet.merge_footer import FILTER_AT, FILTER_SIZE, read_source


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 7 == 0 else f"name {n % 50}" for n in numbers]),
            "tags": pa.array([[f"t{n % 5}"] * (n % 4) for n in numbers], pa.list_(pa.string())),
            "at": pa.array([n * 1_000_000 for n in numbers], pa.timestamp("us", "UTC")),
            "point": pa.array([{"x": n / 3, "y": None if n % 2 else n} for n in numbers]),
        }
    )


def written(table: pa.Table, **options) -> bytes:
    file = io.BytesIO()
    defaults = {"row_group_size": 300, "write_page_index": True, "write_page_checksum": True}
    pq.write_table(table, file, **{**defaults, **options})
    return file.getvalue()


def test_a_byte_that_differs_shows_in_whichever_part_it_is(monkeypatch):
    monkeypatch.setattr(merge, "_PART_BYTES", 1000)
    monkeypatch.setattr(merge, "_BLOCK_BYTES", 300)
    source = io.BytesIO(written(rows(0, 500)))
    output = io.BytesIO()
    made = MergedFile(output, check_alike([read_source(source)]))
    made.add(read_source(source), source)
    made.finish()
    content = output.getvalue()
    assert len(content) > 8000

    def is_same(stored: bytes) -> bool:
        return made.is_stored_as(io.BytesIO(stored), lambda: io.BytesIO(stored))

    assert is_same(content)
    assert not is_same(content[:-1])
    assert not is_same(content + b"x")
    for at in [*range(0, len(content), 400), len(content) - 1]:
        assert not is_same(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]), at


def merged(contents, columns=None, *, whole=False) -> bytes:
    """The merge of files; `whole` ones are copied with all that is in them, from first to last."""
    files = [io.BytesIO(content) for content in contents]
    sources = [read_source(file) for file in files]
    output = io.BytesIO()
    made = MergedFile(output, check_alike(sources))
    for source, file, content in zip(sources, files, contents, strict=True):
        if whole:

            def copy(start: int, end: int, content: bytes = content) -> None:
                output.write(content[start:end])

            made.add(source, file, CopyRange(copy, is_whole=True))
        else:
            made.add(source, file)
    if columns is not None:
        made.add_columns(read_source(io.BytesIO(columns)), io.BytesIO(columns))
    made.finish()
    assert made.size_bytes == len(output.getvalue())
    return output.getvalue()


WAYS = [
    {"compression": {"id": "snappy", "name": "zstd", "at": "gzip"}},
    {"compression": "none", "data_page_version": "2.0"},
    {"compression": "lz4", "use_dictionary": False, "write_page_index": False},
    {"data_page_size": 200, "dictionary_pagesize_limit": 40, "write_page_checksum": False},
    {"version": "1.0", "store_schema": False},
]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("options", WAYS)
def test_rows_are_those_of_the_files_in_order(options, whole, monkeypatch):
    monkeypatch.setattr(merge, "_BLOCK_BYTES", 333)
    tables = [rows(0, 1000), rows(1000, 1), rows(1001, 700)]
    contents = [written(table, **options) for table in tables]
    found = merged(contents, whole=whole)
    assert found.startswith(b"".join(contents)) is whole
    expected = pa.concat_tables(tables)
    for check in (True, False):
        assert pq.read_table(io.BytesIO(found), page_checksum_verification=check).equals(expected)
    twice = pa.concat_tables([expected, expected])
    for again in (False, True):
        both = merged([found, found], whole=again)
        assert pq.read_table(io.BytesIO(both)).equals(twice)


@pytest.mark.parametrize("whole", [False, True])
def test_what_footers_say_of_chunks_stays(whole):
    contents = [written(rows(0, 1000)), written(rows(1000, 1000))]
    found = pq.read_metadata(io.BytesIO(merged(contents, whole=whole)))
    groups = []
    for content in contents:
        metadata = pq.read_metadata(io.BytesIO(content))
        groups += [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    assert (found.num_rows, found.num_row_groups) == (2000, len(groups))
    assert found.created_by == pq.read_metadata(io.BytesIO(contents[0])).created_by
    for at, group in enumerate(groups):
        now = found.row_group(at)
        assert (now.num_rows, now.total_byte_size) == (group.num_rows, group.total_byte_size)
        for column in range(found.num_columns):
            one, other = now.column(column).to_dict(), group.column(column).to_dict()
            for place in ("file_offset", "data_page_offset", "dictionary_page_offset"):
                one.pop(place), other.pop(place)
            assert one == other
            assert now.column(column).has_offset_index
            assert now.column(column).has_column_index


@pytest.mark.parametrize("copied", [False, True])
def test_columns_come_behind_those_that_are_there(copied):
    first, second = written(rows(0, 700)), written(rows(700, 500))
    more = pa.table({"_row_id": pa.array(range(50, 1250), pa.int64())})
    file = io.BytesIO()
    with pq.ParquetWriter(file, more.schema, store_schema=False) as writer:
        for start, count in ((0, 300), (300, 300), (600, 100), (700, 300), (1000, 200)):
            writer.write_table(more.slice(start, count))
    found = merged([first, second], file.getvalue(), whole=copied)
    whole = pa.concat_tables([rows(0, 700), rows(700, 500)])
    read = pq.read_table(io.BytesIO(found))
    assert read.column("_row_id").to_pylist() == list(range(50, 1250))
    assert read.drop_columns("_row_id").to_pylist() == whole.to_pylist()
    metadata = pq.read_metadata(io.BytesIO(found))
    single = pq.read_metadata(io.BytesIO(first)).row_group(0).total_byte_size
    added = pq.read_metadata(file).row_group(0).total_byte_size
    assert metadata.row_group(0).total_byte_size == single + added


def test_row_groups_without_rows_are_left_out():
    empty = written(rows(0, 10).slice(0, 0))
    found = merged([empty, written(rows(0, 10)), empty])
    assert pq.read_metadata(io.BytesIO(found)).num_row_groups == 1
    with pytest.raises(NotMergeable, match="it has no rows"):
        merged([empty, empty])


@pytest.mark.parametrize("whole", [False, True])
def test_bloom_filters_come_along(whole):
    contents = [
        written(rows(start, 900), bloom_filter_options={"id": {"ndv": 300}, "name": True})
        for start in (0, 900)
    ]
    found = merged(contents, whole=whole)

    def filters(content: bytes) -> list[bytes]:
        source = read_source(io.BytesIO(content))
        at, sizes = source.of_chunks(FILTER_AT), source.of_chunks(FILTER_SIZE)
        return [
            content[start : start + size]
            for start, size in zip(at.tolist(), sizes.tolist(), strict=True)
            if start
        ]

    expected = filters(contents[0]) + filters(contents[1])
    assert filters(found) == expected
    assert len(expected) == 12
    assert pq.read_table(io.BytesIO(found)).num_rows == 1800


def test_files_that_say_other_things_of_all_rows_are_not_put_together():
    plain = rows(0, 10)
    with pytest.raises(NotMergeable, match="columns"):
        merged([written(plain), written(plain.drop_columns("name"))])
    with pytest.raises(NotMergeable, match="format version"):
        merged([written(plain), written(plain, version="1.0")])
    spark = plain.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    with pytest.raises(NotMergeable, match="meaning of dates"):
        merged([written(plain), written(spark)])
    first = written(plain)
    with pytest.raises(NotMergeable, match="writer"):
        merged([first, first.replace(b"parquet-cpp-arrow", b"parquet-cpp-arrox")])


class Keys(encryption.KmsClient):
    """A service whose master keys protect nothing."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("in_the_clear", [False, True], ids=["footer too", "columns"])
def test_encrypted_files_are_not_put_together(in_the_clear):
    chosen = encryption.EncryptionConfiguration("footer", column_keys={"key": ["id"]})
    chosen.plaintext_footer = in_the_clear
    factory = encryption.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), chosen)
    content = written(rows(0, 10), encryption_properties=properties)
    assert content.endswith(b"PAR1" if in_the_clear else b"PARE")
    with pytest.raises(NotMergeable, match="ends early" if in_the_clear else "encrypted"):
        read_source(io.BytesIO(content))


def test_pairs_that_differ_go_and_others_stay():
    one, other = (
        rows(0, 10).replace_schema_metadata({"same": "1", "differs": str(n)}) for n in range(2)
    )
    found = pq.read_metadata(io.BytesIO(merged([written(one), written(other)]))).metadata
    assert found[b"same"] == b"1"
    assert b"differs" not in found


def test_damaged_pages_are_not_copied():
    content = bytearray(written(rows(0, 1000), compression="none"))
    at = content.index(b"name 12")
    content[at] ^= 1
    with pytest.raises(NotMergeable, match="checksum"):
        merged([bytes(content)])


def test_no_damage_is_more_than_an_error_or_what_pyarrow_reads_too():
    """A merge of damaged files ends in an error, or has what the damaged file has."""
    whole = written(rows(0, 60), row_group_size=40, compression="none")
    pick = random.Random(7)
    made = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(pick.randint(1, 3)):
            content[pick.randrange(len(content))] = pick.randrange(256)
        if pick.random() < 0.2:
            del content[pick.randrange(len(content)) :]
        try:
            found = merged([bytes(content)])
        except (NotMergeable, CorruptTable):
            continue
        made += 1
        try:
            expected = pq.read_table(io.BytesIO(bytes(content)), page_checksum_verification=True)
        except Exception:  # noqa: BLE001 - whatever pyarrow says of damage
            continue
        assert pq.read_table(io.BytesIO(found), page_checksum_verification=True).equals(expected)
    assert made


def test_footers_cut_anywhere_end_in_one_error():
    content = written(rows(0, 10))
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    for end in range(size):
        cut = content[: -8 - size] + footer[:end] + end.to_bytes(4, "little") + b"PAR1"
        with pytest.raises((CorruptTable, NotMergeable)):
            read_source(io.BytesIO(cut))


def test_forty_thousand_chunks_take_a_second_and_little_memory():
    table = pa.table({f"c{n}": pa.array([n, n], pa.int64()) for n in range(20)})
    content = written(table, row_group_size=1)
    while read_source(io.BytesIO(content)).groups.size < 2000:
        content = merged([content] * 10)
    tracemalloc.start()
    began = time.process_time()
    source = read_source(io.BytesIO(content))
    taken, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(source.chunks.start) >= 40_000
    assert taken < 2
    assert peak < 200 << 20
