"""Copies of tables by other writers at a place of their own, which commands may then change.

Only locations are rewritten, with fastavro and the writers' own schemas: in metadata JSON, manifest
lists, manifests, position delete files and the footers of deletion vectors. Sizes of rewritten
files are corrected where they are recorded. The copy is a file-system table of one version.
"""

import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tests.builders.rows import read_metadata

PATH_FIELD = 2147483546
BOUNDS = ("lower_bounds", "upper_bounds")
PLACES = {
    "metadata-file", "manifest-list", "statistics-path",
    "write.data.path", "write.metadata.path", "write.object-storage.path",
}  # fmt: skip

Record = dict[str, Any]


def relocate(source: Path, facts: Record, target: Path) -> Path:
    """Copy a table, and let it say that it lies in `target`; returns its metadata file."""
    shutil.copytree(source, target)
    return Relocation(target, facts["prefix_map"]).run(target / facts["metadata_file"])


class Relocation:
    """One copy: where its files are now, and which have another size than before."""

    def __init__(self, target: Path, prefixes: list[dict[str, str]]) -> None:
        self.target = target
        self.prefixes = [item["from"] for item in prefixes]
        self.sizes: dict[str, int] = {}

    def run(self, metadata_file: Path) -> Path:
        metadata = read_metadata(metadata_file)
        lists = {s["manifest-list"] for s in metadata["snapshots"] if "manifest-list" in s}
        manifests = {place for s in metadata["snapshots"] for place in s.get("manifests", ())}
        for location in lists:
            manifests |= {record["manifest_path"] for record in self.records(location)}
        for location in manifests:
            self.rewrite_deletes(location)
        for location in manifests:
            self.rewrite_avro(location, self.move_entry)
        for location in lists:
            self.rewrite_avro(location, self.move_manifest)
        moved = self.moved(metadata)
        moved["location"] = str(self.target)
        return self.store(moved, metadata_file)

    def store(self, metadata: Record, old: Path) -> Path:
        """Leave no other metadata file: they would speak of the old place."""
        number = next((int(part) for part in old.name[1:].split(".") if part.isdigit()), 1)
        folder = self.target / "metadata"
        folder.mkdir(exist_ok=True)
        stale = [*folder.glob("*metadata.json*"), *folder.glob("version-hint.*"), old]
        for path in [*stale, *self.target.rglob(".*.crc")]:
            path.unlink(missing_ok=True)
        path = folder / f"v{number}.metadata.json"
        path.write_text(json.dumps(metadata))
        return path

    def place(self, location: str) -> str:
        """Where a file lies now; unchanged if it is not of this table."""
        for prefix in self.prefixes:
            if location.startswith(prefix):
                return str(self.target / location.removeprefix(prefix))
        return location

    def moved(self, value: Any, name: str = "") -> Any:
        """Metadata JSON with every location replaced."""
        if isinstance(value, dict):
            return {key: self.moved(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.moved(item, name) for item in value]
        if isinstance(value, str) and name in PLACES | {"manifests"}:
            return self.place(value)
        return value

    def records(self, location: str) -> list[Record]:
        """The records of an Avro file, none where it was never published."""
        path = Path(self.place(location))
        if not path.exists():
            return []
        with path.open("rb") as file:
            return list(fastavro.reader(file))  # type: ignore[arg-type]

    def rewrite_avro(self, location: str, change: Callable[[Record], None]) -> None:
        """Change each record of a file; its schema, codec and key-value metadata stay."""
        path = Path(self.place(location))
        if not path.exists():
            return
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            records: list[Any] = list(reader)
            properties = dict(reader.metadata)
        for record in records:
            change(record)
        schema = json.loads(properties.pop("avro.schema"))
        codec = properties.pop("avro.codec", "null")
        output = io.BytesIO()
        fastavro.writer(output, schema, records, codec=codec, metadata=properties)
        path.write_bytes(output.getvalue())
        self.sizes[str(path)] = len(output.getvalue())

    def move_manifest(self, record: Record) -> None:
        record["manifest_path"] = self.place(record["manifest_path"])
        if record["manifest_path"] in self.sizes:
            record["manifest_length"] = self.sizes[record["manifest_path"]]

    def move_entry(self, record: Record) -> None:
        file = record["data_file"]
        file["file_path"] = self.place(file["file_path"])
        if file.get("referenced_data_file"):
            file["referenced_data_file"] = self.place(file["referenced_data_file"])
        if file["file_path"] in self.sizes:
            file["file_size_in_bytes"] = self.sizes[file["file_path"]]
        if file.get("content") == 1:
            for member in BOUNDS:
                for bound in file.get(member) or ():
                    if bound["key"] == PATH_FIELD:
                        bound["value"] = self.place(bound["value"].decode()).encode()

    def rewrite_deletes(self, manifest: str) -> None:
        """Position deletes and vectors name data files inside themselves."""
        for record in self.records(manifest):
            file = record["data_file"]
            path = Path(self.place(file["file_path"]))
            if file.get("content") != 1 or not path.exists() or str(path) in self.sizes:
                continue
            REWRITERS[file["file_format"].lower()](self, path)
            self.sizes[str(path)] = path.stat().st_size

    def moved_column(self, table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("file_path")
        moved = [self.place(location) for location in table["file_path"].to_pylist()]
        return table.set_column(at, table.schema.field(at), pa.array(moved, pa.string()))

    def rewrite_parquet(self, path: Path) -> None:
        pq.write_table(self.moved_column(pq.ParquetFile(path).read()), path)

    def rewrite_orc(self, path: Path) -> None:
        orc.write_table(self.moved_column(orc.read_table(path)), path)

    def rewrite_avro_deletes(self, path: Path) -> None:
        def move(record: Record) -> None:
            record["file_path"] = self.place(record["file_path"])

        self.rewrite_avro(str(path), move)

    def rewrite_puffin(self, path: Path) -> None:
        """Only the footer: blobs keep their offsets."""
        content = path.read_bytes()
        size, flags = struct.unpack("<iI", content[-12:-4])
        assert not flags, "a compressed footer"
        start = len(content) - 12 - size
        footer = json.loads(content[start : start + size])
        for blob in footer["blobs"]:
            properties = blob.get("properties", {})
            if "referenced-data-file" in properties:
                properties["referenced-data-file"] = self.place(properties["referenced-data-file"])
        payload = json.dumps(footer).encode()
        end = struct.pack("<i", len(payload)) + content[-8:]
        path.write_bytes(content[:start] + payload + end)


REWRITERS: dict[str, Callable[[Relocation, Path], None]] = {
    "parquet": Relocation.rewrite_parquet,
    "orc": Relocation.rewrite_orc,
    "avro": Relocation.rewrite_avro_deletes,
    "puffin": Relocation.rewrite_puffin,
}
