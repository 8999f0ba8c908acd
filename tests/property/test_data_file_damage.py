"""Data files with bytes changed or cut off end in an error of this program, or are read."""

import io

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.data_rows import ids_of
from icectl.rows.workers import KernelCrashed, WorkerPool

ROWS = [{"n": number, "s": f"s{number}", "l": [number, None]} for number in range(300)]
MAPPING = [{"names": [name], "field-id": at} for at, name in enumerate("nsl")]


def table():
    return pa.Table.from_pylist(ROWS)


def parquet_file():
    file = io.BytesIO()
    pq.write_table(table(), file, compression="snappy", write_page_checksum=True)
    return file.getvalue()


def orc_file():
    file = io.BytesIO()
    orc.write_table(table(), file, compression="zlib")
    return file.getvalue()


def avro_file():
    kinds = {"n": "long", "s": "string", "l": {"type": "array", "items": ["null", "long"]}}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    file = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(file, schema, ROWS, codec="deflate", sync_interval=2000)
    return file.getvalue()


FILES = {"parquet": parquet_file(), "orc": orc_file(), "avro": avro_file()}


def read(file, file_format):
    opened = open_data_file(file, file_format, MAPPING)
    numbers = [number for field in opened.schema for number in ids_of(field)]
    return [row for rows in opened.batches(numbers) for row in rows.batch.to_pylist()]


def outcome(file, file_format):
    """The rule of the error that reading ends in; `read` where it does not, as damage may do."""
    try:
        read(file, file_format)
    except CorruptTable as error:
        return [error.rule]
    except Unsupported:
        return ["unsupported"]
    return ["read"]


@pytest.fixture(scope="module")
def workers():
    with WorkerPool() as made:
        yield made


@pytest.mark.parametrize("file_format", FILES)
def test_a_whole_file_is_read(file_format):
    assert read(FILES[file_format], file_format) == ROWS


@pytest.mark.parametrize("file_format", FILES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_r099_damage_never_ends_in_anything_but_an_error(workers, file_format, data):
    content = bytearray(FILES[file_format])
    # Heads and tails of files say how to read the rest, so that half of the damage goes there.
    places = st.integers(0, len(content) - 1) | st.integers(len(content) - 200, len(content) - 1)
    for at in data.draw(st.lists(places, min_size=1, max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    file = io.BytesIO(content[:end])
    try:
        ended = workers.call(outcome, file, file_format)
    except KernelCrashed:  # native readers do, and then take their process along
        ended = ("R-099",)
    assert ended in {("R-099",), ("unsupported",), ("read",)}


def test_r099_a_column_called_required_against_its_histogram_ends_a_worker_at_most(workers):
    content, optional, required = FILES["parquet"], b"\x25\x02\x18\x01n", b"\x25\x00\x18\x01n"
    assert content.count(optional) == 1
    damaged = io.BytesIO(content.replace(optional, required))
    try:
        assert workers.call(outcome, damaged, "parquet") == ("R-099",)
    except KernelCrashed as crash:
        assert crash.signal_name == "SIGABRT"  # noqa: PT017 - what pyarrow 26 does
    assert workers.call(outcome, io.BytesIO(content), "parquet") == ("read",)
