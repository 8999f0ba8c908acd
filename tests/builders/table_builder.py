"""Builds real file-system tables through icectl's own codecs, along the axes that matter.

Axes: format version, partitioning, kinds of delete, refs, manifest layout, metadata compression.
The builder remembers which row ids every snapshot shows, so that tests have an expectation that no
reader computed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icectl.entries.partition_key import encode_key
from icectl.entries.rows import CARRIED, PLANNING
from icectl.files.deletion_vectors import write_dv
from icectl.files.metadata_file import read_metadata, write_metadata
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.files.parquet.schema import arrow_schema
from icectl.files.puffin import NewBlob, read_puffin, write_puffin
from icectl.format.file_names import metadata_file_name
from icectl.format.manifest import (
    Content,
    FieldSummary,
    FileFormat,
    ManifestContent,
    ManifestFile,
    Status,
)
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec, partition_path, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.sort import SortOrder
from icectl.format.transforms import apply, parse_transform
from icectl.format.types import DecimalType, NestedField, PrimitiveType, Type
from icectl.format.updates import (
    AddSnapshot,
    SetProperties,
    SetSnapshotRef,
    UpgradeFormatVersion,
    apply_all,
    with_log,
)
from tests.builders.plain_manifests import list_of, manifest_of

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "category", PrimitiveType("string"), required=False),
        NestedField(3, "amount", DecimalType(9, 2), required=False),
        NestedField(4, "at", PrimitiveType("timestamp"), required=False),
        NestedField(5, "note", PrimitiveType("string"), required=False),
    ),
)
POSITION_DELETE_SCHEMA = Schema(
    0,
    (
        NestedField(2147483546, "file_path", PrimitiveType("string"), required=True),
        NestedField(2147483545, "pos", PrimitiveType("long"), required=True),
    ),
)
PARTITIONINGS: Mapping[str, tuple[PartitionField, ...]] = {
    "none": (),
    "identity": (PartitionField((2,), 1000, "category", parse_transform("identity")),),
    "day": (PartitionField((4,), 1000, "at_day", parse_transform("day")),),
    "truncate": (PartitionField((5,), 1000, "note_prefix", parse_transform("truncate[6]")),),
    "bucket": (PartitionField((1,), 1000, "id_bucket", parse_transform("bucket[4]")),),
    "two": (
        PartitionField((2,), 1000, "category", parse_transform("identity")),
        PartitionField((1,), 1001, "id_bucket", parse_transform("bucket[4]")),
    ),
}
START_MS = 1_750_000_000_000
"""2025-06-15T15:06:40Z: when every built table begins."""

EntryRow = dict[str, Any]


def make_rows(ids: Iterable[int]) -> list[EntryRow]:
    """Rows of SCHEMA for the given ids; every seventh note is null."""
    return [
        {
            "id": id_,
            "category": f"c{id_ % 3}",
            "amount": Decimal(id_ * 125 % 1_000_000).scaleb(-2),
            "at": 1_700_000_000_000_000 + id_ * 3_600_000_000,
            "note": None if id_ % 7 == 0 else f"note {id_}",
        }
        for id_ in ids
    ]


def _parquet(
    columns: pa.Table, schema: Schema, row_group_rows: int | None
) -> tuple[bytes, FileMetrics]:
    """A file of columns, and what its footer says of them."""
    file = BytesIO()
    pq.write_table(columns, file, compression="zstd", row_group_size=row_group_rows)
    return file.getvalue(), read_metrics(file, schema)


@lru_cache(500)
def _data_file(ids: tuple[int, ...], row_group_rows: int | None) -> tuple[bytes, FileMetrics]:
    """A file of rows. Many tables of tests have the same, and writing one is half of a commit."""
    columns = pa.Table.from_pylist(make_rows(ids), schema=arrow_schema(SCHEMA))
    return _parquet(columns, SCHEMA, row_group_rows)


def by_spec(rows: Sequence[EntryRow]) -> list[list[EntryRow]]:
    """Rows apart by their spec, as manifests hold them."""
    numbers = dict.fromkeys(row["spec_id"] for row in rows)
    return [[row for row in rows if row["spec_id"] == number] for number in numbers]


@dataclass
class TableBuilder:
    """One table under construction; every method that changes it commits a new version."""

    directory: Path
    format_version: int = 2
    partitioning: str = "none"
    properties: dict[str, str] = field(default_factory=dict)
    codec: str = "deflate"
    compressed_metadata: bool = False
    commit_interval_ms: int = 60_000
    merge_manifests_above: int = 100
    start_ms: int = START_MS
    location: str = ""
    row_group_rows: int | None = None

    def __post_init__(self) -> None:
        self.location = self.location or str(self.directory)
        for folder in ("data", "metadata"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        self.spec = PartitionSpec(0, PARTITIONINGS[self.partitioning])
        self.types: tuple[Type, ...] = tuple(result_types(self.spec, [SCHEMA]))  # type: ignore[arg-type]
        self.version = 0
        self.now_ms = self.start_ms
        self.ids_of: dict[int, frozenset[int]] = {}
        self._row_of_id: dict[str, list[int]] = {}
        self._deleted_positions: dict[str, set[int]] = {}
        self._entries: dict[str, list[EntryRow]] = {}
        self._manifests_of: dict[int, list[ManifestFile]] = {}
        self._counter = 0
        self.metadata = TableMetadata(
            format_version=self.format_version,
            table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
            location=self.location,
            last_sequence_number=0,
            last_updated_ms=self.now_ms,
            last_column_id=5,
            schemas=(SCHEMA,),
            current_schema_id=0,
            partition_specs=(self.spec,),
            default_spec_id=0,
            last_partition_id=max((f.field_id for f in self.spec.fields), default=999),
            sort_orders=(SortOrder(0, ()),),
            default_sort_order_id=0,
            properties=dict(self.properties),
            next_row_id=0 if self.format_version >= 3 else None,
        )
        self._write_version(self.metadata)

    # -- what tests call ------------------------------------------------------------------------

    def append(self, ids: Sequence[int], *, files: int = 1, branch: str = "main") -> int:
        """Add rows in `files` files a partition; returns the snapshot id."""
        groups: dict[tuple[Any, ...], list[EntryRow]] = {}
        for row in make_rows(ids):
            groups.setdefault(self._partition_of(row), []).append(row)
        added = []
        for values, rows in groups.items():
            size = -(-len(rows) // files)
            added += [
                self._write_data_file(values, rows[start : start + size])
                for start in range(0, len(rows), size)
            ]
        live = self.ids(branch) | set(ids)
        return self._commit(branch, "append", live, added=added)

    def delete_rows(
        self, ids: Iterable[int], *, kind: str = "position", branch: str = "main"
    ) -> int:
        """Delete rows by `position` (v2 files, v3 DVs) or `equality`; returns the snapshot id.

        `keys` is by equality, too, whether there is a row with the key or not, as upserts do.
        """
        doomed = set(ids) if kind == "keys" else set(ids) & self.ids(branch)
        if kind != "position":
            added, removed = (
                [
                    self._write_equality_deletes(values, group)
                    for values, group in self._by_partition(doomed).items()
                ],
                set(),
            )
        elif self.format_version >= 3:
            added, removed = self._write_dvs(doomed, branch)
        else:
            added, removed = self._write_position_deletes(doomed, branch), set()
        live = self.ids(branch) - doomed
        return self._commit(branch, "delete", live, added=added, removed=removed)

    def remove_data_files(
        self, count: int, *, branch: str = "main", keeps_vectors: bool = False
    ) -> int:
        """Drop the first `count` data files with all their rows, as a metadata delete does.

        Manifests are listed from the newest to the oldest, files as they were written.
        """
        rows = [row for row in self.live(branch) if row["content"] == Content.DATA][:count]
        gone = {row["location"] for row in rows}
        removed = {(row["location"], row["content_offset"]) for row in rows} | {
            (row["location"], row["content_offset"])
            for row in self.live(branch)
            if row["referenced_data_file"] in gone and not keeps_vectors
        }
        live = self.ids(branch) - {id_ for path in gone for id_ in self._row_of_id[path]}
        return self._commit(branch, "delete", live, removed=removed)

    def replace_data_files(self, count: int, *, branch: str = "main") -> int:
        """Merge the first `count` data files of a partition into one, deletes applied.

        Order: as for remove_data_files. The partition is that of the very first file.
        """
        files = [row for row in self.live(branch) if row["content"] == Content.DATA]
        chosen = [row for row in files if row["partition_key"] == files[0]["partition_key"]][:count]
        paths = {row["location"] for row in chosen}
        ids = sorted(
            id_ for path in paths for id_ in self._row_of_id[path] if id_ in self.ids(branch)
        )
        removed = {
            (row["location"], row["content_offset"])
            for row in self.live(branch)
            if row["location"] in paths or row["referenced_data_file"] in paths
        }
        rows = make_rows(ids)
        added = [self._write_data_file(self._partition_of(rows[0]), rows)] if rows else []
        return self._commit(branch, "replace", self.ids(branch), added=added, removed=removed)

    def loose_data_files(self, ids: Sequence[int]) -> list[EntryRow]:
        """Write a data file for each partition of the rows; no snapshot has them."""
        groups: dict[tuple[Any, ...], list[EntryRow]] = {}
        for row in make_rows(ids):
            groups.setdefault(self._partition_of(row), []).append(row)
        return [self._write_data_file(values, rows) for values, rows in groups.items()]

    def loose_vectors(self, files: Mapping[str, Sequence[int]]) -> list[EntryRow]:
        """Write vectors over positions of data files into one file; no snapshot has them."""
        location, path = self._new_path("data", ".puffin")
        blobs = [
            NewBlob(
                type="deletion-vector-v1",
                content=write_dv(positions),
                fields=(2147483645,),
                snapshot_id=-1,
                sequence_number=-1,
                properties={"referenced-data-file": name, "cardinality": str(len(positions))},
            )
            for name, positions in files.items()
        ]
        content = write_puffin(blobs, properties={})
        path.write_bytes(content)
        return [
            self._row(
                (None,) * len(self.types),
                location,
                FileFormat.PUFFIN,
                Content.POSITION_DELETES,
                len(positions),
            )
            | {
                "referenced_data_file": name,
                "content_offset": blob.offset,
                "content_size_in_bytes": blob.length,
                "file_size_in_bytes": len(content),
            }
            for (name, positions), blob in zip(
                files.items(), read_puffin(content).blobs, strict=True
            )
        ]

    def ref(
        self, name: str, kind: str = "tag", *, snapshot_id: int | None = None, **retention: int
    ) -> None:
        """Create or move a tag or branch, with its own retention settings."""
        head = snapshot_id or self._head("main")
        assert head is not None
        self._update([SetSnapshotRef(name, SnapshotRef(head, kind, **retention))])

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set table properties."""
        self._update([SetProperties(dict(properties))])

    def upgrade(self) -> None:
        """Raise the format version to 3; files get row ids with the next commit."""
        self.format_version = 3
        self._update([UpgradeFormatVersion(3)])

    def respec(self, partitioning: str) -> None:
        """Partition what is appended from now on in another way; older files keep their spec."""
        first = self.metadata.last_partition_id + 1
        fields = tuple(
            replace(item, field_id=first + at)
            for at, item in enumerate(PARTITIONINGS[partitioning])
        )
        self.spec = PartitionSpec(self.spec.spec_id + 1, fields)
        self.types = tuple(result_types(self.spec, [SCHEMA]))  # type: ignore[arg-type]
        highest = max([first - 1, *(item.field_id for item in fields)])
        self._replace(
            partition_specs=(*self.metadata.partition_specs, self.spec),
            default_spec_id=self.spec.spec_id,
            last_partition_id=highest,
        )

    def reschema(self, schema: Schema) -> None:
        """Make another schema of the same columns current; new files have those of SCHEMA."""
        self._replace(schemas=(*self.metadata.schemas, schema), current_schema_id=schema.schema_id)

    def ids(self, branch: str = "main") -> frozenset[int]:
        """Row ids that a branch shows now."""
        head = self._head(branch)
        return self.ids_of[head] if head is not None else frozenset()

    def live(self, branch: str = "main") -> list[EntryRow]:
        """Live entries of a branch as dictionaries, numbers inherited."""
        head = self._head(branch)
        manifests = self._manifests_of.get(head, []) if head is not None else []
        return [
            row
            for manifest in manifests
            for row in self._entries[manifest.manifest_path]
            if row["status"] != Status.DELETED
        ]

    # -- files ----------------------------------------------------------------------------------

    def _spec(self, spec_id: int | None) -> tuple[PartitionSpec, tuple[Type, ...]]:
        """A spec, by default the one of new files, and the types of its values."""
        if spec_id is None or spec_id == self.spec.spec_id:
            return self.spec, self.types
        spec = self.metadata.spec(spec_id)
        assert spec is not None
        return spec, tuple(result_types(spec, [SCHEMA]))  # type: ignore[arg-type]

    def _new_path(self, folder: str, suffix: str) -> tuple[str, Path]:
        self._counter += 1
        name = f"{folder}/{self._counter:05}{suffix}"
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return f"{self.location}/{name}", path

    def _partition_of(self, row: EntryRow) -> tuple[Any, ...]:
        by_id = {column.id: row[column.name] for column in SCHEMA.fields}
        return tuple(
            apply(part.transform, SCHEMA.field(part.source_ids[0]).type, by_id[part.source_ids[0]])  # type: ignore[union-attr]
            for part in self.spec.fields
        )

    def _by_partition(self, ids: Iterable[int]) -> dict[tuple[Any, ...], list[int]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for row in make_rows(sorted(ids)):
            groups.setdefault(self._partition_of(row), []).append(row["id"])
        return groups

    def _folder(self, values: tuple[Any, ...], spec_id: int | None = None) -> str:
        spec, types = self._spec(spec_id)
        path = partition_path(spec, types, values)
        return f"data/{path}" if path else "data"

    def _write_data_file(self, values: tuple[Any, ...], rows: list[EntryRow]) -> EntryRow:
        location, path = self._new_path(self._folder(values), ".parquet")
        ids = self._row_of_id[location] = [row["id"] for row in rows]
        made = _data_file(tuple(ids), self.row_group_rows)
        return self._write_parquet(made, location, path, values, Content.DATA)

    def _write_position_deletes(self, ids: set[int], branch: str) -> list[EntryRow]:
        rows = []
        for entry in self.live(branch):
            if entry["content"] != Content.DATA:
                continue
            path = entry["location"]
            positions = [at for at, id_ in enumerate(self._row_of_id[path]) if id_ in ids]
            place = (entry["spec_id"], entry["partition_values"])
            rows += [(place, path, at) for at in positions]
            self._deleted_positions.setdefault(path, set()).update(positions)
        added = []
        for place in dict.fromkeys(place for place, _, _ in rows):
            spec_id, values = place
            location, path = self._new_path(self._folder(values, spec_id), "-deletes.parquet")
            records = sorted((p, at) for found, p, at in rows if found == place)
            columns = pa.table(
                {"file_path": [p for p, _ in records], "pos": [at for _, at in records]},
                schema=arrow_schema(POSITION_DELETE_SCHEMA),
            )
            made = _parquet(columns, POSITION_DELETE_SCHEMA, self.row_group_rows)
            added.append(
                self._write_parquet(made, location, path, values, Content.POSITION_DELETES, spec_id)
            )
        return added

    def _write_equality_deletes(
        self, values: tuple[Any, ...], ids: list[int], spec_id: int | None = None
    ) -> EntryRow:
        location, path = self._new_path(self._folder(values, spec_id), "-equality.parquet")
        schema = Schema(0, SCHEMA.fields[:1])
        columns = pa.table({"id": ids}, schema=arrow_schema(schema))
        made = _parquet(columns, schema, self.row_group_rows)
        row = self._write_parquet(made, location, path, values, Content.EQUALITY_DELETES, spec_id)
        return row | {"equality_ids": [1]}

    def _write_dvs(self, ids: set[int], branch: str) -> tuple[list[EntryRow], set[tuple[str, Any]]]:
        location, path = self._new_path("data", ".puffin")
        live = self.live(branch)
        blobs, rows, removed = [], [], set()
        for entry in live:
            if entry["content"] != Content.DATA:
                continue
            data_file = entry["location"]
            fresh = {at for at, id_ in enumerate(self._row_of_id[data_file]) if id_ in ids}
            if not fresh:
                continue
            positions = self._deleted_positions.setdefault(data_file, set())
            positions |= fresh
            removed |= {
                (row["location"], row["content_offset"])
                for row in live
                if row["referenced_data_file"] == data_file
            }
            blobs.append(
                NewBlob(
                    type="deletion-vector-v1",
                    content=write_dv(sorted(positions)),
                    fields=(),
                    snapshot_id=-1,
                    sequence_number=-1,
                    properties={
                        "referenced-data-file": data_file,
                        "cardinality": str(len(positions)),
                    },
                )
            )
            rows.append(
                self._row(
                    entry["partition_values"],
                    location,
                    FileFormat.PUFFIN,
                    Content.POSITION_DELETES,
                    len(positions),
                    entry["spec_id"],
                )
                | {"referenced_data_file": data_file}
            )
        content = write_puffin(blobs, properties={"created-by": "icectl tests"})
        written = read_puffin(content).blobs
        path.write_bytes(content)
        for row, blob in zip(rows, written, strict=True):
            row |= {
                "content_offset": blob.offset,
                "content_size_in_bytes": blob.length,
                "file_size_in_bytes": len(content),
            }
        return rows, removed

    def _write_parquet(
        self,
        made: tuple[bytes, FileMetrics],
        location: str,
        path: Path,
        values: tuple[Any, ...],
        content: Content,
        spec_id: int | None = None,
    ) -> EntryRow:
        raw, metrics = made
        path.write_bytes(raw)
        count = metrics.record_count
        row = self._row(values, location, FileFormat.PARQUET, content, count, spec_id)
        maps = (
            "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
            "upper_bounds",
        )  # fmt: skip
        return (
            row
            | {name: sorted(getattr(metrics, name).items()) for name in maps}
            | {"file_size_in_bytes": len(raw), "split_offsets": list(metrics.split_offsets)}
        )

    def _row(
        self,
        values: tuple[Any, ...],
        location: str,
        file_format: FileFormat,
        content: Content,
        record_count: int,
        spec_id: int | None = None,
    ) -> EntryRow:
        spec, types = self._spec(spec_id)
        return dict.fromkeys((*PLANNING.names, *CARRIED.names)) | {
            "content": int(content), "status": int(Status.ADDED), "location": location,
            "file_format": int(file_format), "spec_id": spec.spec_id, "partition_values": values,
            "partition_key": encode_key(types, values), "record_count": record_count,
            "sort_order_id": 0 if content == Content.DATA else None,
        }  # fmt: skip

    # -- commits --------------------------------------------------------------------------------

    def _head(self, branch: str) -> int | None:
        ref = self.metadata.refs.get(branch)
        return ref.snapshot_id if ref else None

    def _commit(
        self,
        branch: str,
        operation: str,
        ids: Iterable[int],
        *,
        added: Sequence[EntryRow] = (),
        removed: Iterable[tuple[str, Any]] = (),
    ) -> int:
        self.now_ms += self.commit_interval_ms
        self._counter += 1
        snapshot_id = 7_000_000_000_000_000_000 + self._counter
        parent = self._head(branch) if branch in self.metadata.refs else self._head("main")
        sequence_number = self.metadata.last_sequence_number + 1 if self.format_version > 1 else 0
        doomed = set(removed)
        kept: list[ManifestFile] = []
        for manifest in self._manifests_of.get(parent or 0, []):
            rows = self._entries[manifest.manifest_path]
            if any((row["location"], row["content_offset"]) in doomed for row in rows):
                kept.append(self._rewrite(manifest, doomed, snapshot_id, sequence_number))
            elif manifest.added_files_count or manifest.existing_files_count:
                kept.append(manifest)
        fresh = []
        for content in ManifestContent:
            rows = [
                dict(row)
                for row in added
                if (row["content"] != Content.DATA) == (content == ManifestContent.DELETES)
            ]
            fresh += [
                self._write_manifest(part, content, snapshot_id, sequence_number)
                for part in by_spec(rows)
            ]
        manifests = fresh + self._merged(kept, snapshot_id, sequence_number)
        manifests, added_rows = self._assign_row_ids(manifests)
        self._manifests_of[snapshot_id] = manifests
        self.ids_of[snapshot_id] = frozenset(ids)
        self._add_snapshot(snapshot_id, parent, sequence_number, operation, branch, added_rows)
        return snapshot_id

    def _add_snapshot(
        self,
        snapshot_id: int,
        parent: int | None,
        sequence_number: int,
        operation: str,
        branch: str,
        added_rows: int,
    ) -> None:
        first_row_id = self.metadata.next_row_id
        location, path = self._new_path("metadata", f"-snap-{snapshot_id}.avro")
        path.write_bytes(
            list_of(
                self._manifests_of[snapshot_id],
                snapshot_id,
                sequence_number,
                format_version=self.format_version,
                parent_snapshot_id=parent,
                first_row_id=first_row_id,
                codec=self.codec,
            )
        )
        live = [
            row
            for manifest in self._manifests_of[snapshot_id]
            for row in self._entries[manifest.manifest_path]
            if row["status"] != Status.DELETED
        ]
        data = [row for row in live if row["content"] == Content.DATA]
        summary = {
            "operation": operation,
            "total-data-files": str(len(data)),
            "total-delete-files": str(len(live) - len(data)),
            "total-records": str(sum(row["record_count"] for row in data)),
            "total-files-size": str(
                sum(row["content_size_in_bytes"] or row["file_size_in_bytes"] for row in live)
            ),
        }
        snapshot = Snapshot(
            snapshot_id,
            self.now_ms,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            manifest_list=location,
            summary=summary,
            schema_id=0,
            first_row_id=first_row_id if self.format_version >= 3 else None,
            added_rows=added_rows if self.format_version >= 3 else None,
        )
        old = self.metadata.refs.get(branch)
        ref = replace(old, snapshot_id=snapshot_id) if old else SnapshotRef(snapshot_id, "branch")
        self._update([AddSnapshot(snapshot), SetSnapshotRef(branch, ref)], tick=False)

    def _rewrite(
        self,
        manifest: ManifestFile,
        doomed: set[tuple[str, Any]],
        snapshot_id: int,
        sequence_number: int,
    ) -> ManifestFile:
        rows = []
        for row in self._entries[manifest.manifest_path]:
            if row["status"] == Status.DELETED:
                continue
            gone = (row["location"], row["content_offset"]) in doomed
            status = (
                {"status": int(Status.DELETED), "snapshot_id": snapshot_id}
                if gone
                else {"status": int(Status.EXISTING)}
            )
            rows.append(row | status)
        return self._write_manifest(rows, manifest.content, snapshot_id, sequence_number)

    def _merged(
        self, manifests: list[ManifestFile], snapshot_id: int, sequence_number: int
    ) -> list[ManifestFile]:
        """The manifests, or one for each content where there are too many."""
        if len(manifests) <= self.merge_manifests_above:
            return manifests
        merged = []
        for content in ManifestContent:
            rows = [
                row if row["status"] == Status.DELETED else row | {"status": int(Status.EXISTING)}
                for manifest in manifests
                if manifest.content == content
                for row in self._entries[manifest.manifest_path]
                if row["status"] != Status.DELETED or row["snapshot_id"] == snapshot_id
            ]
            merged += [
                self._write_manifest(part, content, snapshot_id, sequence_number)
                for part in by_spec(rows)
            ]
        return merged

    def _write_manifest(
        self, rows: list[EntryRow], content: ManifestContent, snapshot_id: int, sequence_number: int
    ) -> ManifestFile:
        stored = []
        for at, row in enumerate(rows):
            stored.append(row | {"manifest": 0, "manifest_pos": at})
            if row["status"] == Status.ADDED:
                stored[-1]["snapshot_id"] = snapshot_id
                row |= {
                    "snapshot_id": snapshot_id,
                    "sequence_number": sequence_number,
                    "file_sequence_number": sequence_number,
                }
        schema = pa.schema([*PLANNING, *CARRIED])
        table = pa.Table.from_pylist(stored, schema=schema)
        location, path = self._new_path("metadata", f"-m{int(content)}.avro")
        written = manifest_of(
            table,
            SCHEMA,
            self._spec(rows[0]["spec_id"])[0],
            format_version=self.format_version,
            content=content,
            snapshot_id=snapshot_id,
            codec=self.codec,
        )
        path.write_bytes(written)
        self._entries[location] = rows
        return self._describe(location, len(written), content, snapshot_id, sequence_number)

    def _describe(
        self,
        location: str,
        length: int,
        content: ManifestContent,
        snapshot_id: int,
        sequence_number: int,
    ) -> ManifestFile:
        rows = self._entries[location]
        by_status = {status: [row for row in rows if row["status"] == status] for status in Status}
        live = by_status[Status.ADDED] + by_status[Status.EXISTING]
        spec, types = self._spec(rows[0]["spec_id"])
        return ManifestFile(
            location,
            length,
            spec.spec_id,
            content,
            sequence_number,
            min((row["sequence_number"] for row in live), default=sequence_number),
            snapshot_id,
            **{
                f"{status.name.lower()}_files_count": len(found)
                for status, found in by_status.items()
            },
            **{
                f"{status.name.lower()}_rows_count": sum(row["record_count"] for row in found)
                for status, found in by_status.items()
            },
            partitions=tuple(
                self._summary([row["partition_values"][at] for row in rows], type_)
                for at, type_ in enumerate(types)
            ),
        )

    @staticmethod
    def _summary(values: list[Any], type_: Type) -> FieldSummary:
        present = [value for value in values if value is not None]
        bounds = (
            (encode(type_, min(present)), encode(type_, max(present))) if present else (None, None)
        )
        return FieldSummary(len(present) < len(values), False, *bounds)

    def _assign_row_ids(self, manifests: list[ManifestFile]) -> tuple[list[ManifestFile], int]:
        """Give data manifests without one a first_row_id, and their files theirs (R-102, R-103)."""
        if self.format_version < 3:
            return manifests, 0
        start = next_row_id = self.metadata.next_row_id or 0
        assigned = []
        for listed in manifests:
            manifest = listed
            if listed.content == ManifestContent.DATA and listed.first_row_id is None:
                manifest = replace(listed, first_row_id=next_row_id)
                row_id = next_row_id
                for row in self._entries[manifest.manifest_path]:
                    if row["status"] != Status.DELETED and row["first_row_id"] is None:
                        row["first_row_id"] = row_id
                        row_id += row["record_count"]
                next_row_id += (manifest.added_rows_count or 0) + (
                    manifest.existing_rows_count or 0
                )
            assigned.append(manifest)
        return assigned, next_row_id - start

    def _replace(self, **members: Any) -> None:
        self.now_ms += self.commit_interval_ms
        replaced = replace(self.metadata, **members, last_updated_ms=self.now_ms)
        updated, _ = with_log(replaced, self.metadata_location, self.now_ms)
        self._write_version(updated)

    def _update(self, updates: Sequence[Any], *, tick: bool = True) -> None:
        if tick:
            self.now_ms += self.commit_interval_ms
        updated, _ = with_log(
            apply_all(self.metadata, updates), self.metadata_location, self.now_ms
        )
        self._write_version(updated)

    def follow(self) -> None:
        """Go on from the metadata that others have committed; their snapshots have no rows here."""
        found = (self.directory / "metadata").glob("v*.metadata.json*")
        newest = max(found, key=lambda path: int(path.name[1:].split(".")[0]))
        self.metadata = read_metadata(newest.read_bytes())
        self.version = int(newest.name[1:].split(".")[0])

    @property
    def metadata_location(self) -> str:
        """Where the current metadata file is."""
        name = metadata_file_name(self.version, gzip=self.compressed_metadata)
        return f"{self.location}/metadata/{name}"

    def _write_version(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self.version += 1
        folder = self.directory / "metadata"
        content = write_metadata(metadata, compressed=self.compressed_metadata)
        (folder / metadata_file_name(self.version, gzip=self.compressed_metadata)).write_bytes(
            content
        )
        (folder / "version-hint.text").write_text(str(self.version))


def filled_table(
    directory: Path, *ids: Sequence[int], files: int = 1, **options: Any
) -> TableBuilder:
    """A table with a commit for each of `ids`, of so many files a partition."""
    table = TableBuilder(directory, **options)
    for rows in ids:
        table.append(rows, files=files)
    return table


def worn_table(directory: Path, version: int = 2) -> TableBuilder:
    """Appends, deletes of rows, files that were replaced and manifests that were merged."""
    table = TableBuilder(directory, version, "identity", merge_manifests_above=3)
    table.append(range(8), files=2)
    table.append(range(8, 15))
    table.delete_rows([1, 9])
    table.append(range(15, 24))
    table.replace_data_files(2)
    table.delete_rows([2, 16])
    table.append(range(24, 30))
    return table
