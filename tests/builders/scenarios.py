"""The scenarios of the version 4 paper: files in memory as it lists them, read or to be compared.

tests/golden/v4/scenarios.json holds the paper's tables, word for word, in a form to be read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from icectl.catalog.files import NAMED_FILE
from icectl.entries.rows import ALL_COLUMNS, CARRIED, PLANNING
from icectl.files.deletion_vectors import dv_blob, read_dv, write_bitmap
from icectl.files.puffin import read_puffin, write_puffin
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata_json import parse_metadata
from icectl.format.snapshot import Snapshot
from icectl.sfc1.commit.draft import NewFile
from icectl.sfc1.manifest_file import COUNTS, STATS, TreeContent, write_tree
from icectl.sfc1.manifests import TreeSchema, vector_positions
from icectl.table.reader import Reader
from tests.builders.commits import loaded_at
from tests.builders.expiry import context_of
from tests.builders.plain_manifests import manifest_of
from tests.stores.fixed_env import FixedEnv

GOLDEN = Path(__file__).parents[1] / "golden" / "v4" / "scenarios.json"
SCENARIOS: Mapping[str, Any] = json.loads(GOLDEN.read_text())
ROWS = 100

METADATA = {
    "format-version": 4,
    "table-uuid": "0b8c1f0e-6f0e-4b8e-9a53-5b6b0a0d8f11",
    "location": "file:///t",
    "last-sequence-number": 0,
    "last-updated-ms": 0,
    "last-column-id": 2,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {"id": 2, "name": "data", "required": False, "type": "string"},
            ],
        }
    ],
    "current-schema-id": 0,
    "expressions": [],
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "next-row-id": 0,
}
FACTS = TreeSchema(parse_metadata(METADATA))


@dataclass
class Files:
    """Files by location; what reading a tree needs of a store."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def read(self, location: str) -> bytes:
        return self.contents[location]

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self.contents[location][offset : offset + length]

    def store(self, file: NewFile) -> None:
        self.contents[file.location] = file.content

    def vector(self, row: Mapping[str, Any]) -> Any:
        """The positions of a delete vector of either kind."""
        if row["content"] == Content.MANIFEST_DV:
            return vector_positions(self.read_range, row)
        return read_dv(
            self.read_range(row["location"], row["content_offset"], row["content_size_in_bytes"])
        )


def data_location(name: str) -> str:
    """Where a data file or the Puffin file of a delete vector lies."""
    kind = "puffin" if name.startswith("DV") else "parquet"
    return f"file:///t/data/{name}.{kind}"


def leaf_location(name: str, kind: str = "parquet") -> str:
    """Where a leaf lies."""
    return f"file:///t/metadata/{name}.{kind}"


@dataclass
class Scenario:
    """One scenario of the paper with its files."""

    name: str
    files: Files = field(default_factory=Files)

    @cached_property
    def golden(self) -> Mapping[str, Any]:
        return SCENARIOS[self.name]

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        return self.golden["snapshots"]

    def number(self, snapshot: str) -> int:
        """The sequence number of a snapshot; its id is 100 more."""
        return [one["snapshot"] for one in self.snapshots].index(snapshot) + 1

    def added_in(self, name: str) -> int:
        """The sequence number of the snapshot that added a file."""
        for number, one in enumerate(self.snapshots, 1):
            if name in (*one["added_files"], *one["added_vectors"]):
                return number
        # A file that no snapshot reports as added came with a leaf of the first that has it live.
        return 1

    def file_row(self, name: str) -> dict[str, Any]:
        """The row of a data file or delete vector, with nothing tracked."""
        if name.startswith("DV"):
            described = self.golden["files"][name]
            content, place = self._vector(name, described)
            return {
                "content": Content.POSITION_DELETES, "location": data_location(name),
                "file_format": FileFormat.PUFFIN, "spec_id": 0,
                "record_count": len(described["positions"]), "file_size_in_bytes": len(content),
                "content_offset": place.offset, "content_size_in_bytes": place.length,
                "referenced_file": data_location(described["referenced"]),
            }  # fmt: skip
        number = int(name.removeprefix("D"))
        return {
            "content": Content.DATA,
            "location": data_location(name),
            "file_format": FileFormat.PARQUET,
            "spec_id": 0,
            "record_count": ROWS,
            "file_size_in_bytes": 1_000 + number,
            STATS: {
                "s1": {
                    "lower_bound": 1_000 * number,
                    "upper_bound": 1_000 * number + ROWS - 1,
                    "tight_bounds": True,
                    "value_count": ROWS,
                }
            },
        }

    def _vector(self, name: str, described: Mapping[str, Any]) -> tuple[bytes, Any]:
        blob = dv_blob(described["positions"], data_location(described["referenced"]))
        content = write_puffin([blob], {})
        self.files.contents[data_location(name)] = content
        return content, read_puffin(content).blobs[0]

    # -- files as the paper lists them ----------------------------------------------------------

    def build(self) -> None:
        """Write every leaf and root."""
        for name, described in self.golden["files"].items():
            if described["kind"].endswith("manifest"):
                self._write_leaf(name, described)
        for one in self.snapshots:
            rows = pa.concat_tables([FACTS.empty(), *(self._root_row(row) for row in one["rows"])])
            self.files.contents[leaf_location(one["snapshot"])] = write_tree(rows, TreeContent.ROOT)

    def snapshot(self, name: str) -> Snapshot:
        """A snapshot with its root manifest."""
        number = self.number(name)
        return Snapshot(100 + number, 0, None, number, root_manifest=leaf_location(name))

    def reader(self) -> Reader:
        """The table with all its snapshots, each the child of the one before, and its files."""
        line = [self.snapshot(one["snapshot"]) for one in self.snapshots]
        parents = [None, *(one.snapshot_id for one in line)]
        linked = [
            replace(one, parent_snapshot_id=parent, summary={"operation": "overwrite"})
            for one, parent in zip(line, parents, strict=False)
        ]
        return reader_of(self.files, linked)

    def _write_leaf(self, name: str, described: Mapping[str, Any]) -> None:
        rows = []
        for file, status in described["rows"]:
            row = self.file_row(file) | {"status": Status[status]}
            if status != "ADDED":
                added = self.added_in(file)
                row |= {
                    "snapshot_id": 100 + added,
                    "sequence_number": added,
                    "file_sequence_number": added,
                }
            rows.append(row)
        if described["format"] == "avro":
            content = self._avro(rows)
            self.files.contents[leaf_location(name, "avro")] = content
            return
        data = described["kind"] == "data manifest"
        content = write_tree(table(*rows), TreeContent.DATA if data else TreeContent.DELETE)
        self.files.contents[leaf_location(name)] = content

    def _avro(self, rows: list[dict[str, Any]]) -> bytes:
        columns = dict.fromkeys(ALL_COLUMNS)
        entries = [
            columns
            | {key: value for key, value in row.items() if key in ALL_COLUMNS}
            | {"partition_key": b"", "manifest": 0, "manifest_pos": at}
            for at, row in enumerate(rows)
        ]
        metadata = FACTS.metadata
        return manifest_of(
            pa.Table.from_pylist(entries, schema=pa.schema([*PLANNING, *CARRIED])),
            metadata.current_schema,
            metadata.default_spec,
            format_version=3,
            snapshot_id=101,
            codec="deflate",
        )

    def _root_row(self, row: Mapping[str, Any]) -> pa.Table:
        name, content, status = row["name"], Content(row["content"]), Status[row["status"]]
        tracked = self.number(row["snapshot"])
        sequence_number = self.number(row.get("seq_of", row["snapshot"]))
        values = {
            "content": content,
            "status": status,
            "spec_id": 0,
            "snapshot_id": 100 + tracked,
            "sequence_number": self.number(
                row.get("data_seq_of", row.get("seq_of", row["snapshot"]))
            ),
            "file_sequence_number": sequence_number,
            "first_row_id": row.get("first_row_id"),
        }
        if content in (Content.DATA, Content.POSITION_DELETES):
            values = self.file_row(name) | values
        else:
            values |= self._manifest_row(name, content, sequence_number)
        return table(values)

    def _manifest_row(self, name: str, content: Content, sequence_number: int) -> dict[str, Any]:
        described = self.golden["files"][name]
        if content is Content.MANIFEST_DV:
            kind = self.golden["files"][described["referenced"]]["format"]
            bitmap = write_bitmap(described["positions"])
            return {
                "file_format": FileFormat.PUFFIN,
                "record_count": len(described["positions"]),
                "inline_content": bitmap,
                "referenced_file": leaf_location(described["referenced"], kind),
            }
        statuses = [status for _, status in described["rows"]]
        records = [self.file_row(file)["record_count"] for file, _ in described["rows"]]
        counts = dict.fromkeys(COUNTS, 0)
        for status, record_count in zip(statuses, records, strict=True):
            counts[f"{status.lower()}_files_count"] += 1
            counts[f"{status.lower()}_rows_count"] += record_count
        # Added rows inherit the number of the leaf; a leaf without live rows has that too (V4-104).
        counts["min_sequence_number"] = min(
            (
                sequence_number if status == "ADDED" else self.added_in(file)
                for file, status in described["rows"]
                if status != "DELETED"
            ),
            default=sequence_number,
        )
        location = leaf_location(name, described["format"])
        affiliated = described.get("referenced")
        return {
            "location": location,
            "file_format": FileFormat[described["format"].upper()],
            "record_count": len(statuses),
            "file_size_in_bytes": len(self.files.contents[location]),
            "referenced_file": None if affiliated is None else leaf_location(affiliated),
            **counts,
        }


def reader_of(files: Files, snapshots: Sequence[Snapshot]) -> Reader:
    """A table of some snapshots, the last of which is the current one."""
    metadata = replace(
        FACTS.metadata,
        snapshots=tuple(snapshots),
        current_snapshot_id=snapshots[-1].snapshot_id,
        last_sequence_number=snapshots[-1].sequence_number,
    )
    loaded = loaded_at("file:///t/metadata/v1.metadata.json", metadata, NAMED_FILE)
    context = context_of(store=files, env=FixedEnv(), concurrency=2)  # type: ignore[arg-type]
    return Reader(context, loaded)


def table(*rows: Mapping[str, Any]) -> pa.Table:
    """Rows of a tree; columns not named are null."""
    columns = dict.fromkeys(FACTS.rows_schema.names) | {"status": Status.ADDED}
    full = [columns | dict(row) for row in rows]
    return pa.Table.from_pylist(full, schema=FACTS.rows_schema)


def names(rows: pa.Table, content: Content) -> list[str]:
    """Names of the files of one content."""
    return sorted(
        Path(location).stem
        for location, code in zip(
            rows["location"].to_pylist(), rows["content"].to_pylist(), strict=True
        )
        if code == content
    )
