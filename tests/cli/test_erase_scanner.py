"""The scanner by which erasures are judged finds a planted mark wherever one may hide."""

import gzip
import json
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import cramjam
import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.builders.byte_scanner import Hit, hits_below, hits_in

MARK = b"Mk7Qz-4711x"
TEXT = MARK.decode()
OTHERS = [f"other row {at % 50}" for at in range(2000)]


def parts(content: bytes) -> set[str]:
    return {part for part, _ in hits_in(content, [b"absent mark", MARK])}


def parquet(
    column: pa.Array, *, metadata: dict[str, str] | None = None, **options: object
) -> bytes:
    file = BytesIO()
    schema = pa.schema([pa.field("v", column.type)], metadata=metadata)
    pq.write_table(pa.table([column], schema=schema), file, **options)
    return file.getvalue()


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_values_of_parquet(compression: str, use_dictionary: bool) -> None:
    column = pa.array([*OTHERS, TEXT])
    stored = parquet(column, compression=compression, use_dictionary=use_dictionary)
    assert "values" in parts(stored)
    clean = parquet(pa.array(OTHERS), compression=compression, use_dictionary=use_dictionary)
    assert parts(clean) == set()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[*OTHERS, TEXT]]),
        pa.array([{"a": {"b": TEXT}}]),
        pa.array([[("key", TEXT)]], pa.map_(pa.string(), pa.string())),
        pa.array([[(TEXT, 1)]], pa.map_(pa.string(), pa.int32())),
        pa.array([MARK], pa.binary(len(MARK))),
    ],
    ids=["list", "struct", "map value", "map key", "fixed"],
)
def test_nested_values_of_parquet(column: pa.Array) -> None:
    stored = parquet(column, compression="zstd", write_statistics=False, use_dictionary=False)
    assert "values" in parts(stored)


def test_delta_encoded_values_of_parquet() -> None:
    options = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    stored = parquet(pa.array([f"{TEXT[:6]}AA", TEXT]), write_statistics=False, **options)
    assert MARK not in stored
    assert "values" in parts(stored)


def test_entry_of_a_dictionary_that_no_row_has() -> None:
    indices = pa.array([0, 1] * 100, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", TEXT]))
    stored = parquet(column, compression="gzip", store_schema=False, write_statistics=False)
    assert "values" not in parts(stored)
    assert "dictionary" in parts(stored)


def test_bounds_and_metadata_of_parquet() -> None:
    assert "statistics" in parts(parquet(pa.array([TEXT]), compression="zstd"))
    assert "bytes" in parts(parquet(pa.array([TEXT]), compression="zstd", write_page_index=True))
    assert "metadata" in parts(parquet(pa.array(["a"]), metadata={"note": TEXT}))


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "zlib", "zstd", "lz4"])
@pytest.mark.parametrize("threshold", [0.0, 1.0], ids=["direct", "dictionary"])
def test_orc(compression: str, threshold: float) -> None:
    def stored(values: list[str]) -> bytes:
        file = BytesIO()
        table = pa.table({"v": values, "n": range(len(values))})
        orc.write_table(
            table, file, compression=compression, dictionary_key_size_threshold=threshold
        )
        return file.getvalue()

    # "Mk" comes before "other": it is a lower bound too.
    found = parts(stored([*OTHERS, TEXT]))
    assert {"footer", "statistics"} <= found
    data, dictionary, row_index = "stream 1", "stream 3", "stream 6"
    assert (dictionary if threshold else data) in found
    assert row_index in found
    inner = parts(stored([*OTHERS, "A", TEXT, "zz"]))
    assert not {"footer", "statistics"} & inner
    assert (dictionary if threshold else data) in inner
    assert parts(stored(OTHERS)) == set()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_avro(codec: str) -> None:
    bounds = {"type": "map", "values": "bytes"}
    fields = [{"name": "path", "type": "string"}, {"name": "lower", "type": ["null", bounds]}]
    schema = {"type": "record", "name": "entry", "fields": fields}

    def stored(path: str, lower: bytes, note: str = "") -> bytes:
        file = BytesIO()
        records = [{"path": path, "lower": {"1": lower}}] * 3
        fastavro.writer(file, schema, records, codec=codec, metadata={"note": note})
        return file.getvalue()

    assert "record" in parts(stored("a", MARK))
    assert "record" in parts(stored(f"p={TEXT}/a", b""))
    assert "metadata" in parts(stored("a", b"", TEXT))
    assert parts(stored("a", b"")) == set()


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("packed", [False, True])
def test_puffin(codec: str | None, packed: bool) -> None:
    def stored(content: bytes, note: str = "") -> bytes:
        blob = content if codec is None else bytes(getattr(cramjam, codec).compress(content))
        described = {"type": "x", "fields": [], "offset": 4, "length": len(blob)}
        described |= {"properties": {"note": note}, "compression-codec": codec}
        footer = json.dumps({"blobs": [described]}).encode()
        footer = bytes(cramjam.lz4.compress(footer)) if packed else footer
        tail = len(footer).to_bytes(4, "little") + bytes([packed, 0, 0, 0]) + b"PFA1"
        return b"PFA1" + blob + b"PFA1" + footer + tail

    assert "blob" in parts(stored(b"x" * 1000 + MARK))
    assert "footer" in parts(stored(b"x", TEXT))
    assert parts(stored(b"x")) == set()


def test_json_and_other_files() -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in TEXT)
    assert parts(f'{{"a": ["{escaped}"]}}'.encode()) == {"json"}
    assert parts(f'{{"a": 1}}\n{{"a": "{escaped}"}}\n'.encode()) == {"json"}
    assert "json" in parts(gzip.compress(json.dumps({TEXT: 1}).encode()))
    assert parts(b"no format" + MARK) == {"bytes"}
    assert parts(MARK.hex().upper().encode()) == {"bytes"}
    for path in (b"a=4%204711x/b", b"a=4+4711x/b"):
        assert [mark for _, mark in hits_in(path, [b"4 4711x"])] == [b"4 4711x"]
    for before in range(3):
        assert parts(b64(b"z" * before + MARK + b"rest")) == {"bytes"}


def b64(content: bytes) -> bytes:
    return b64encode(content)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/one").write_bytes(b"." + MARK)
    (tmp_path / "two").write_bytes(b"nothing")
    assert hits_below(tmp_path, [MARK]) == [Hit("a/b/one", "bytes", MARK)]


@pytest.mark.parametrize("start", [b"PAR1", b"Obj\x01", b"ORC", b"PFA1", b"{", b"\x1f\x8b"])
def test_what_cannot_be_decoded_is_no_clean_file(start: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011
        hits_in(start + b"\xff" * 40, [MARK])
