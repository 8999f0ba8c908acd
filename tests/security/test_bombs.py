"""Small files that would unpack to gigabytes end in one error, within a bound of memory."""

import gzip
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Lock
from time import sleep
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files import inflate
from icectl.files.avro.container import (
    Block,
    in_batches,
    read_blocks,
    read_header,
    write_header,
    write_long,
)
from icectl.files.deletion_vectors import read_bitmap, read_dv, write_bitmap, write_dv
from icectl.files.inflate import UnusuallyLargeError, usual_sizes
from icectl.files.manifest.manifest_list import ManifestListReader, read_manifest_list
from icectl.files.manifest.parquet_columns import ParquetColumns
from icectl.files.metadata_file import read_metadata_json
from icectl.files.puffin import MAGIC, read_footer, read_puffin
from icectl.table import manifests
from icectl.table.manifests import _Decoder
from icectl.table.reading import FileRead
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.fault.changing import run

MIB = 2**20
MANY = 64 * MIB
MARKER = bytes(16)
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}


def _zeros_by_deflate(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()


def avro_bomb(codec: str, size: int = MANY) -> bytes:
    """One block, of one record, that inflates to so many bytes."""
    pack: dict[str, Callable[[int], bytes]] = {
        "deflate": _zeros_by_deflate,
        "zstandard": lambda size: bytes(cramjam.zstd.compress(bytes(size))),
        "snappy": lambda size: bytes(cramjam.snappy.compress_raw(bytes(size))) + bytes(4),
    }
    stored = pack[codec](size)
    header = write_header(SCHEMA, {}, codec=codec, sync_marker=MARKER)
    return header + write_long(1) + write_long(len(stored)) + stored + MARKER


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_r008_a_block_that_inflates_to_too_much(codec):
    with pytest.raises(CorruptTable, match="inflates to more than") as error:
        list(read_blocks(read_header(avro_bomb(codec))))
    assert error.value.rule == "R-008"


def test_r008_blocks_that_inflate_to_too_much_together():
    one = avro_bomb("deflate", 12 * MIB)
    header = write_header(SCHEMA, {}, codec="deflate", sync_marker=MARKER)
    with pytest.raises(CorruptTable, match="inflates to more than"):
        list(read_blocks(read_header(one + one[len(header) :])))
    assert len(list(read_blocks(read_header(one)))) == 1


def test_files_that_are_read_side_by_side_inflate_to_what_is_usual_together():
    """Each of them is within its own bound."""
    one = read_header(avro_bomb("deflate", 12 * MIB))
    with usual_sizes(8 * len(one.content)):
        for _ in range(5):
            list(read_blocks(one))
        with pytest.raises(UnusuallyLargeError):
            list(read_blocks(one))
    assert len(list(read_blocks(one))) == 1


def test_manifests_that_are_unusually_large_are_read_one_by_one(tmp_path, monkeypatch):
    filled_table(tmp_path / "t", *([start] for start in range(6)))
    words = ["inspect", str(tmp_path / "t"), "files", "--json"]
    _, usual = run(words)
    alone: list[int] = []
    decode = _Decoder.decode_large

    def decode_large(self: _Decoder[Any], index: int, content: FileRead) -> Any:
        assert not manifests._ONE_LARGE.locked()
        alone.append(index)
        return decode(self, index, content)

    monkeypatch.setattr(_Decoder, "decode_large", decode_large)
    monkeypatch.setattr(inflate, "_USUAL_ALWAYS", 10)
    monkeypatch.setattr(inflate, "_USUAL_RATIO", 0)
    code, document = run(words)
    assert (code, document["result"]) == (0, usual["result"])
    assert sorted(alone) == list(range(6))


def test_files_are_inflated_side_by_side_as_far_as_there_is_room(monkeypatch):
    """Whatever the number of threads is; a file that wants more has all of it to itself."""
    monkeypatch.setattr(inflate, "_room", inflate._Room(3 * MANY))
    at_once: list[int] = []
    running = 0
    lock = Lock()

    def inflating(stored_bytes: int) -> None:
        nonlocal running
        with usual_sizes(stored_bytes):
            with lock:
                running += 1
                at_once.append(running)
            sleep(0.01)
            with lock:
                running -= 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(inflating, [1] * 32))
        assert 1 < max(at_once) <= 3
        at_once.clear()
        list(pool.map(inflating, [10 * MANY] * 4))
        assert max(at_once) == 1


def parquet_bomb(size: int) -> bytes:
    """A manifest of one path of so many bytes, compressed."""
    manifest = {"data_file": [{"file_path": "x" * size}]}
    sink = BytesIO()
    pq.write_table(pa.table(manifest), sink, compression="zstd", use_dictionary=False)
    return sink.getvalue()


def test_r008_a_manifest_in_parquet_that_inflates_to_too_much():
    content = parquet_bomb(MANY)
    assert len(content) < MIB // 8
    with pytest.raises(CorruptTable, match="inflates to too much") as error:
        ParquetColumns(content, "R-008").read()
    assert error.value.rule == "R-008"


def test_manifests_in_parquet_are_within_the_budget_of_those_side_by_side():
    one = ParquetColumns(parquet_bomb(12 * MIB), "R-008")
    with usual_sizes(1):
        for _ in range(5):
            assert one.read().row_count == 1
        with pytest.raises(UnusuallyLargeError):
            one.read()
    assert one.read().row_count == 1


SUMMARY = {"type": "record", "name": "s", "fields": [
    {"name": "contains_null", "type": "boolean", "field-id": 509},
    {"name": "lower_bound", "type": ["null", "bytes"], "field-id": 510},
    {"name": "upper_bound", "type": ["null", "bytes"], "field-id": 511}]}  # fmt: skip
LIST = {"type": "record", "name": "manifest_file", "fields": [
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
    {"name": "partitions", "type": {"type": "array", "items": SUMMARY, "element-id": 508},
     "field-id": 507}]}  # fmt: skip


def list_of(summaries: int) -> bytes:
    """A manifest list of one row with so many summaries of partitions, three bytes each."""
    record = write_long(1) + b"m" + write_long(9) + write_long(0)
    record += write_long(summaries) + bytes(3 * summaries) + b"\0"
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = packer.compress(record) + packer.flush()
    header = write_header(LIST, {}, codec="deflate", sync_marker=MARKER)
    return header + write_long(1) + write_long(len(stored)) + stored + MARKER


@pytest.mark.parametrize("read", [read_manifest_list, ManifestListReader().read])
def test_r008_an_array_whose_values_would_take_gigabytes(read):
    """Some KiB of a file hold an array, of which each value is a hundred bytes in memory."""
    assert len(read(list_of(7))[0].partitions or ()) == 7
    content = list_of(4_000_000)
    assert len(content) < MIB // 16
    with pytest.raises(CorruptTable, match="has more than 8 MiB") as error:
        read(content)
    assert error.value.rule == "R-008"


def test_many_records_are_decoded_in_batches():
    header = read_header(write_header(SCHEMA, {}, codec="null", sync_marker=MARKER))
    record = write_long(MIB // 4) + bytes(MIB // 4)
    batches = list(in_batches(header.schema, [Block(10, record * 10), Block(2, record * 2)]))
    assert [sum(block.record_count for block in batch) for batch in batches] == [4, 4, 2, 2]


def test_r008_a_block_that_announces_too_many_records():
    header = write_header(SCHEMA, {}, codec="null", sync_marker=MARKER)
    content = header + write_long(10**9) + write_long(1) + b"\0" + MARKER
    with pytest.raises(CorruptTable, match="more records than its size allows"):
        list(read_blocks(read_header(content)))


def test_r006_metadata_that_inflates_to_too_much():
    with pytest.raises(CorruptTable, match="inflates to too much") as error:
        read_metadata_json(gzip.compress(b"[" + b" " * MANY + b"]", 9))
    assert error.value.rule == "R-006"


def test_r006_metadata_of_too_many_values():
    with pytest.raises(CorruptTable, match="inflates to too much"):
        read_metadata_json(gzip.compress(b'{"a":[' + b"[]," * 3_000_000 + b"[]]}", 9))


def test_metadata_that_compresses_well_is_read():
    """A wide schema, again and again."""
    fields = [{"id": id_, "name": f"column_{id_}", "type": "long"} for id_ in range(500)]
    members = {"schemas": [{"schema-id": id_, "fields": fields} for id_ in range(200)]}
    assert read_metadata_json(gzip.compress(json.dumps(members).encode(), 9)) == members


def test_r118_a_puffin_footer_that_inflates_to_too_much():
    payload = bytes(cramjam.lz4.compress(b" " * MANY))
    end = struct.pack("<iI", len(payload), 1) + MAGIC
    with pytest.raises(CorruptTable, match="inflates to too much"):
        read_puffin(MAGIC + MAGIC + payload + end)


def test_r118_a_puffin_footer_of_many_levels_is_no_json():
    payload = b"[" * 200_000
    tail = MAGIC + payload + struct.pack("<iI", len(payload), 0) + MAGIC
    with pytest.raises(CorruptTable, match="not JSON"):
        read_footer(tail, 10**6)


def test_r118_a_vector_of_more_positions_than_its_entry_says():
    """20,000 containers of all 65,536 positions each, in 200 KB."""
    blob = write_dv(np.arange(10))
    assert len(read_dv(blob, 10)) == 10
    with pytest.raises(CorruptTable, match="more positions than are stated, 9") as error:
        read_dv(blob, 9)
    assert error.value.rule == "R-118"
    with pytest.raises(CorruptTable, match="more positions than are stated"):
        read_bitmap(write_bitmap(np.arange(10)), 9)


def test_a_vector_of_more_positions_than_memory_holds():
    count = 20_000
    runs = struct.pack("<I", 12347 | (count - 1) << 16) + b"\xff" * ((count + 7) // 8)
    header = b"".join(struct.pack("<HH", key, 65535) for key in range(count))
    run = struct.pack("<HHH", 1, 0, 65535)
    with pytest.raises(Unsupported, match="more than 67,108,864 positions"):
        read_bitmap(runs + header + bytes(4 * count) + run * count)


_LIMITED = (
    "import resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    "from icectl.__main__ import main\n"
    "main()\n"
)


def test_manifests_that_inflate_to_too_much_end_a_command_with_15(tmp_path):
    """In a process of limited memory."""
    table = filled_table(tmp_path / "t", range(4))
    bomb = avro_bomb("deflate", 256 * MIB)
    for manifest in (tmp_path / "t" / "metadata").glob("*-m0.avro"):
        manifest.write_bytes(bomb)
    assert read_metadata(current_metadata(tmp_path / "t"))["format-version"] == 2
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, "inspect", table.location, "files"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 15, done.stderr
    assert "-m0.avro`" in done.stderr
    assert "Traceback" not in done.stderr
