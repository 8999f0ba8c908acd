"""Data and delete files of other writers, against the readers that their formats come with."""

from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icectl.errors import Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.data_rows import ids_of

BEYOND_PYARROW = {"impala/iceberg_migrated_complex_test/000000_0"}
"""Its footer says that a list is of the logical type Null."""


def files_of(directory: Path, magic: bytes) -> list[Path]:
    found = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return [path for path in found if path.read_bytes().startswith(magic)]


def opened(path: Path, file_format: str):
    """The file with ids for all columns, whether it has its own or none."""
    content = path.read_bytes()
    names = open_data_file(content, file_format).schema.names
    mapping = [{"names": [name], "field-id": at} for at, name in enumerate(names)]
    file = open_data_file(content, file_format, mapping)
    return file, [number for field in file.schema for number in ids_of(field)]


def columns(path: Path, file_format: str) -> tuple[pa.Table, int]:
    """All columns with an id, and the rows that the file says it has."""
    file, numbers = opened(path, file_format)
    batches = [rows.batch for rows in file.batches(numbers)]
    for batch in batches:
        batch.validate(full=True)
    schema = pa.schema([field for field in file.schema if any(True for _ in ids_of(field))])
    return pa.Table.from_batches(batches, schema), file.record_count


def test_parquet_files_of_all_writers_are_read_as_pyarrow_does(fixtures_dir):
    paths = files_of(fixtures_dir, b"PAR1")
    beyond = set()
    for path in paths:
        try:
            found, record_count = columns(path, "PARQUET")
        except Unsupported:
            beyond.add(str(path.relative_to(fixtures_dir)))
            continue
        expected = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
        assert found.num_rows == record_count == expected.num_rows, path
        assert found.equals(expected.select(found.schema.names)), path
    assert beyond == BEYOND_PYARROW
    assert len(paths) == 332


def test_orc_files_of_all_writers_are_read_as_pyarrow_does(fixtures_dir):
    paths = files_of(fixtures_dir, b"ORC")
    for path in paths:
        found, record_count = columns(path, "ORC")
        expected = orc.ORCFile(path).read()
        assert found.num_rows == record_count == expected.num_rows, path
        assert found.equals(expected), path
    assert len(paths) == 18


def test_avro_data_files_are_read_as_fastavro_does(fixtures_dir):
    names = ["impala/iceberg_avro_mixed/data", "impala/iceberg_v3_default_value_avro/data"]
    paths = [path for name in names for path in files_of(fixtures_dir / name, b"Obj\x01")]
    for path in paths:
        found, record_count = columns(path, "AVRO")
        with path.open("rb") as file:
            expected = list(fastavro.reader(file))
        assert found.to_pylist() == expected, path
        assert record_count == len(expected)
    assert len(paths) == 4


def test_manifests_are_avro_files_of_nested_columns(fixtures_dir):
    """More writers make Avro manifests than data files, and with maps whose keys are integers."""
    paths = files_of(fixtures_dir, b"Obj\x01")
    for path in paths:
        found, record_count = columns(path, "AVRO")
        assert found.num_rows == record_count, path
    name = "iceberg-cxx/deletion_vectors/metadata/c670791d-ace7-4600-a57f-305823486daa-m0.avro"
    found, _ = columns(fixtures_dir / name, "AVRO")
    with (fixtures_dir / name).open("rb") as file:
        stored = [row["data_file"] for row in fastavro.reader(file)]
    for row, expected in zip(found["data_file"].to_pylist(), stored, strict=True):
        assert row["file_path"] == expected["file_path"]
        pairs = [(item["key"], item["value"]) for item in expected["value_counts"] or []]
        assert (row["value_counts"] or []) == pairs
    assert len(paths) == 468


def test_the_kind_of_deletes_stands_in_the_properties_of_a_delete_file(fixtures_dir):
    directory = fixtures_dir / "impala/iceberg_v2_positional_delete_all_rows_orc/data"
    (path,) = directory.glob("*delete*.orc")
    file, _ = opened(path, "ORC")
    assert file.properties["delete-type"] == "position"
    positions = [row for rows in file.batches([2147483545]) for row in rows.batch.to_pylist()]
    assert positions == [{"pos": 0}, {"pos": 1}, {"pos": 2}]
