"""Inventories as listings; the layouts are those of Amazon's user guide on S3 Inventory."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import IcectlError, StorageError, Unsupported, UsageError
from icectl.storage.identity import SameStore
from icectl.storage.inventory import InventoryFiles, read_inventory
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.local.store import LocalStore

JAN_2 = 1_704_153_600_000
"""2024-01-02T00:00:00Z in milliseconds."""
SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def listed(location: str) -> list[tuple[str, int, int | None]]:
    found = pa.Table.from_batches(read_inventory(LocalStore(), location), LISTING_SCHEMA)
    return [tuple(row.values()) for row in found.to_pylist()]


def refusal(location: str) -> IcectlError:
    with pytest.raises(IcectlError) as raised:
        listed(location)
    return raised.value


def s3_inventory(folder: Path, name: str, content: bytes, **members: object) -> str:
    """An S3 Inventory as it lies in its bucket: the manifest, and beside it one data file."""
    write(folder / "inv" / "b" / "daily" / "data" / name, content)
    manifest = {
        "sourceBucket": "b",
        "destinationBucket": "arn:aws:s3:::reports",
        "version": "2016-11-30",
        "creationTimestamp": "1514944800000",
        "fileFormat": "CSV",
        "fileSchema": SCHEMA,
        "files": [{"key": f"inv/b/daily/data/{name}", "size": len(content), "MD5checksum": "f111"}],
    }
    path = folder / "inv" / "b" / "daily" / "2024-01-03T00-00Z" / "manifest.json"
    return write(path, json.dumps({**manifest, **members}))


ROWS = (
    '"b","t/data/dt%3D2024-01-02/a+b%2B%C3%A9.parquet","v1","true","false","12",'
    '"2024-01-02T00:00:00.000Z","e"\n'
    '"b","t/data/old.parquet","v0","false","false","7","2024-01-02T00:00:00.000Z","e"\n'
    '"b","t/data/gone.parquet","v2","true","true","","2024-01-02T00:00:00.000Z",""\n'
    '"b","t/data/","v0","true","false","0","2024-01-02T00:00:00.000Z","e"\n'
    '"b","t/data/untold.parquet","","true","false","8","","e"\n'
)
LISTED = [
    ("s3://b/t/data/dt=2024-01-02/a b+é.parquet", 12, JAN_2),
    ("s3://b/t/data/untold.parquet", 8, None),
]


def test_csv_of_s3_inventory_takes_its_columns_from_the_manifest(tmp_path):
    manifest = s3_inventory(tmp_path, "x.csv.gz", gzip.compress(ROWS.encode()))
    assert listed(manifest) == LISTED
    assert listed(f"file://{manifest}") == LISTED


@pytest.mark.parametrize("compress", [gzip.compress, bytes])
def test_one_csv_file_has_a_header_line_in_any_case(tmp_path, compress):
    header = "BUCKET,key,version_id,is_latest,Is_Delete_Marker,size,last_modified_date,e_tag\n"
    assert listed(write(tmp_path / "a", compress((header + ROWS).encode()))) == LISTED


def test_a_plain_list_has_locations_as_they_are(tmp_path):
    location = write(
        tmp_path / "list.csv",
        "\ufefflocation,size,last_modified\n"
        "s3a://b/t/100%25+1,1,2024-01-02T01:00:00+01:00\n"
        '"/wh/t/a,b",2,\n',
    )
    assert listed(location) == [("s3a://b/t/100%25+1", 1, JAN_2), ("/wh/t/a,b", 2, None)]


def test_times_without_a_zone_are_utc(tmp_path):
    location = write(tmp_path / "a", "location,size,last_modified\n/a,1,2024-01-02 00:00:00.5\n")
    assert listed(location) == [("/a", 1, JAN_2 + 500)]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_of_s3_inventory_has_plain_keys(tmp_path, unit):
    table = pa.table(
        {
            "bucket": ["b"] * 4,
            "key": ["t/a%20+b", "t/old", "t/gone", "t/untold"],
            "version_id": ["v", "v", "v", None],
            "is_latest": [True, False, True, None],
            "is_delete_marker": [False, False, True, None],
            "size": pa.array([12, 7, None, 8], pa.int64()),
            "last_modified_date": pa.array(
                [JAN_2, JAN_2, JAN_2, None], pa.timestamp("ms", "UTC")
            ).cast(pa.timestamp(unit, "UTC")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    expected = [("s3://b/t/a%20+b", 12, JAN_2), ("s3://b/t/untold", 8, None)]
    assert listed(str(tmp_path / "x.parquet")) == expected
    content = (tmp_path / "x.parquet").read_bytes()
    form = {"fileFormat": "Parquet", "fileSchema": "message s3.inventory { ... }"}
    assert listed(s3_inventory(tmp_path, "x.parquet", content, **form)) == expected


def test_an_inventory_of_nothing_is_empty(tmp_path):
    assert listed(s3_inventory(tmp_path, "x.csv", b"", files=[])) == []
    assert listed(write(tmp_path / "a", "location,size,last_modified\n")) == []


def test_orc_is_refused(tmp_path):
    error = refusal(s3_inventory(tmp_path, "x.orc", b"ORC...", fileFormat="ORC"))
    assert isinstance(error, Unsupported)
    place = tmp_path / "inv/b/daily/data/x.orc"
    assert error.message == f"inventory `{place}`: ORC inventories can't be read"


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("key,size,last_modified", "bucket"), ("bucket,size,last_modified", "key"),
        ("location,last_modified", "size"), ("location,size", "modification time"),
        ("b,t/data/a,12", "bucket"), ("", "bucket"),
    ],
)  # fmt: skip
def test_a_missing_column_is_named(tmp_path, header, missing):
    location = write(tmp_path / "a", f"{header}\nb,t/data/b,12\n")
    error = refusal(location)
    assert isinstance(error, UsageError)
    assert error.message == f"inventory `{location}`: no column holds the {missing} of objects"
    assert "manifest.json" in error.hint


@pytest.mark.parametrize(
    "row",
    [
        "/a,many,2024-01-02T00:00:00Z", "/a,1,yesterday", "/a,1", "/a,1,2,3", ",1,", "/a,,",
        "/\xff,1,",
    ],
)  # fmt: skip
def test_a_row_that_makes_no_sense_is_one_error(tmp_path, row):
    content = f"location,size,last_modified\n/z,1,\n{row}\n".encode("latin-1")
    error = refusal(write(tmp_path / "a", content))
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"inventory `{tmp_path}/a`: ")
    assert "\n" not in error.message


@pytest.mark.parametrize("kept", [5, 60, -1])
def test_a_gzip_file_that_ends_early_is_one_error(tmp_path, kept):
    content = gzip.compress(f"location,size,last_modified\n{'/a,1,' * 9}\n".encode())[:kept]
    error = refusal(write(tmp_path / "a", content))
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"inventory `{tmp_path}/a`: it can't be read as gzipped CSV: ")


def test_a_parquet_file_that_ends_early_is_one_error(tmp_path):
    error = refusal(write(tmp_path / "a", b"PAR1 and nothing else"))
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"inventory `{tmp_path}/a`: it can't be read as Parquet: ")


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("key", [1], "the key column holds numbers"),
        ("last_modified_date", [1], "modification times are int64, not timestamps"),
        ("size", [None], "objects without a name or a size"),
        ("key", [None], "objects without a name or a size"),
    ],
)
def test_a_parquet_column_of_another_type_is_one_error(tmp_path, name, value, wrong):
    columns = {"bucket": ["b"], "key": ["k"], "size": [1]}
    columns["last_modified_date"] = pa.array([1], pa.timestamp("ms"))
    pq.write_table(pa.table({**columns, name: value}), tmp_path / "a")
    error = refusal(str(tmp_path / "a"))
    assert isinstance(error, UsageError)
    assert error.message == f"inventory `{tmp_path}/a`: {wrong}"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "Expecting property name"),
        ('{"files": []}', "it has no 'destinationBucket'"),
        ('{"destinationBucket": 1, "fileSchema": "", "files": []}', "'int' object has no"),
        ('{"destinationBucket": "b", "fileSchema": "", "files": [1]}', "'int' object is not"),
    ],
)
def test_json_that_is_no_manifest_is_one_error(tmp_path, content, wrong):
    error = refusal(write(tmp_path / "a", content))
    assert isinstance(error, UsageError)
    expected = f"inventory `{tmp_path}/a`: not a manifest of S3 Inventory: {wrong}"
    assert error.message.startswith(expected)


def test_a_file_that_is_missing_or_still_being_written_is_named(tmp_path):
    gone = refusal(str(tmp_path / "gone"))
    assert isinstance(gone, StorageError)
    assert gone.message == f"the inventory file `{tmp_path}/gone` is missing"
    key = "inv/b/daily/data/x.csv"
    manifest = s3_inventory(tmp_path, "x.csv", b"b", files=[{"key": f"{key}.2", "size": 1}])
    assert refusal(manifest).message == f"the inventory file `{tmp_path}/{key}.2` is missing"
    manifest = s3_inventory(tmp_path, "x.csv", b"b", files=[{"key": key, "size": 2}])
    message = f"inventory `{tmp_path}/{key}`: it has 1 bytes, and 2 by its manifest"
    assert refusal(manifest).message == message


LOCATIONS = [
    "s3://b/wh/t/data/a", "s3://b/wh/t2/data/b", "s3://b/wh/t", "s3a://b/wh/t/data/c",
    "s3://c/wh/t/data/d", "hdfs://nn/wh/t/e", "s3://b/wh/t/f",
]  # fmt: skip


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "files.csv"
    lines = [f"{place},{number},2025-06-09T15:06:40Z" for number, place in enumerate(LOCATIONS)]
    path.write_text("\n".join(["location,size,last_modified", *lines]) + "\n")
    return str(path)


def found(inventory: str, location: str, same_store: SameStore) -> list[tuple[str, int]]:
    files = InventoryFiles(LocalStore(), inventory, same_store)
    rows = [row for batch in files.below(location) for row in batch.to_pylist()]
    assert {row["modified_ms"] for row in rows} == {1_749_481_600_000}
    return sorted((row["location"], row["size_bytes"]) for row in rows)


@pytest.mark.parametrize("location", ["s3://b/wh/t", "s3a://b/wh/t/"])
def test_files_below_a_location_are_spelled_as_it_is(inventory, location):
    base = location.rstrip("/")
    assert found(inventory, location, SameStore()) == [
        (f"{base}/data/a", 0),
        (f"{base}/data/c", 3),
        (f"{base}/f", 6),
    ]


def test_stores_that_are_vouched_for_count(inventory):
    vouched = SameStore({"hdfs": "s3"}, {"nn": "b", "c": "b"})
    names = ["data/a", "data/c", "data/d", "e", "f"]
    assert found(inventory, "s3://b/wh/t", vouched) == [
        (f"s3://b/wh/t/{name}", size) for name, size in zip(names, (0, 3, 4, 5, 6), strict=True)
    ]


def test_an_inventory_of_elsewhere_is_wrong_usage(inventory):
    with pytest.raises(UsageError, match="names no file under s3://x/wh/t"):
        found(inventory, "s3://x/wh/t", SameStore())
