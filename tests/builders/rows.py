"""Reads the rows of a table without icectl: fastavro, pyarrow and the format's own words.

For tables of the builder and of the peers on local paths. Deletes are applied by sequence number
and partition as R-111 to R-113 say; the DV decoder here is its own. Roots and leaves of version 4
are read by the names that icectl gives their columns.
"""

import gzip
import json
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow.parquet as pq
from pyarrow import orc

Row = tuple[tuple[str, Any], ...]

_LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""Columns that carry the identity of rows, and belong to no table's schema."""


def local(location: str) -> Path:
    """The path of a local location, with or without a scheme; URIs may have escapes, or not."""
    if not location.startswith("file:"):
        return _path(location)
    path = urlparse(location).path
    return Path(path) if "%" not in path or Path(path).exists() else Path(unquote(path))


_path = lru_cache(Path)  # of the few files of a table, each asked for thousands of times


def read_metadata(path: Path) -> dict[str, Any]:
    """A metadata JSON, gzip or not."""
    content = path.read_bytes()
    parsed: dict[str, Any] = json.loads(
        gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    )
    return parsed


def with_whole_locations(metadata: dict[str, Any]) -> dict[str, Any]:
    """A metadata JSON of version 4 that may say where files lie from its table's location."""
    base = metadata["location"]
    for snapshot in metadata["snapshots"]:
        snapshot["table-location"] = base
        for key in ("root-manifest", "manifest-list"):
            if key in snapshot:
                snapshot[key] = absolute(base, snapshot[key])
    for member in ("statistics", "partition-statistics"):
        for item in metadata.get(member, []):
            item["statistics-path"] = absolute(base, item["statistics-path"])
    return metadata


def current_metadata(table: Path) -> Path:
    """The file-system table's newest metadata file."""
    found = [
        path for path in (table / "metadata").glob("v*.metadata.json*") if "crc" not in path.name
    ]
    return max(found, key=lambda path: int(path.name[1:].split(".")[0]))


def head(table: Path) -> dict[str, Any]:
    """The current snapshot of a file-system table."""
    metadata = read_metadata(current_metadata(table))
    wanted = metadata["current-snapshot-id"]
    found: dict[str, Any] = next(
        one for one in metadata["snapshots"] if one["snapshot-id"] == wanted
    )
    return found


def read_avro(location: str) -> list[dict[str, Any]]:
    """All records of an Avro file."""
    return [dict(record) for record in _records(local(location), "avro")]


def read_records(data_file: dict[str, Any]) -> list[dict[str, Any]]:
    """All records of a data or delete file, by the names that it has for its columns."""
    path = local(data_file["file_path"])
    return [dict(record) for record in _records(path, data_file["file_format"].lower())]


def _records(path: Path, file_format: str) -> tuple[dict[str, Any], ...]:
    """Each file is decoded once, as names are never used again; it must be there each time."""
    status = path.stat()
    return _decoded(path, file_format, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2_000)
def _decoded(path: Path, file_format: str, _size: int, _mtime_ns: int) -> tuple[Any, ...]:
    if file_format == "parquet":
        return tuple(pq.ParquetFile(path).read(use_threads=False).to_pylist())
    if file_format == "orc":
        return tuple(orc.read_table(path).to_pylist())
    with path.open("rb") as file:
        return tuple(fastavro.reader(file))


def listed_manifests(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """The manifests of a snapshot; version 1 may embed them, with nothing said of them.

    Of version 4 also the files of bitmaps.
    """
    if "root-manifest" in snapshot:
        rows = _parquet(snapshot["root-manifest"], snapshot.get("table-location", ""))
        return [
            {"manifest_path": row["location"]}
            for row in rows
            if row["content_type"] in (3, 4, 5) and row["location"] is not None
        ]
    if "manifest-list" in snapshot:
        return read_avro(snapshot["manifest-list"])
    return [{"manifest_path": path, "partition_spec_id": 0} for path in snapshot["manifests"]]


def live_entries(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """Live entries of a snapshot, sequence number and spec of the manifest filled in."""
    if "root-manifest" in snapshot:
        return list(_tree_entries(snapshot))
    return [
        entry
        for manifest in listed_manifests(snapshot)
        for _, entry in _avro_entries(
            manifest["manifest_path"],
            manifest.get("sequence_number", 0),
            manifest["partition_spec_id"],
        )
    ]


def _avro_entries(location: str, number: int, spec: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(position, live entry) of a manifest that a list names, in Avro or in Parquet."""
    entries = _parquet(location, "") if location.endswith(".parquet") else read_avro(location)
    for at, entry in enumerate(entries):
        if entry["status"] == 2:
            continue
        inherited = number if entry["status"] == 1 else 0
        sequence = entry.get("sequence_number")
        entry["sequence"] = inherited if sequence is None else sequence
        entry["spec"] = spec
        yield at, entry


def _tree_entries(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Live entries of a snapshot of version 4, by its root and leaves (sfc-1 8.1)."""
    number = snapshot["sequence-number"]
    base = snapshot.get("table-location", "")
    rows = _parquet(snapshot["root-manifest"], base)
    root = [row for row in rows if row["tracking_info"]["status"] != 2]
    dead = {local(row["referenced_file"]): _dead(row) for row in root if row["content_type"] == 5}
    for row in root:
        kind, tracked = row["content_type"], row["tracking_info"]
        if kind in (0, 1, 2):
            yield _tree_entry(row, number)
        elif kind in (3, 4):
            gone = dead.get(local(row["location"]), set())
            number_of_leaf = tracked["sequence_number"]
            if row["file_format"] == "avro":
                found = _avro_entries(row["location"], number_of_leaf, row["partition_spec_id"])
            else:
                leaf = enumerate(_parquet(row["location"], base))
                found = (
                    (at, _tree_entry(one, number_of_leaf))
                    for at, one in leaf
                    if one["tracking_info"]["status"] != 2
                )
            yield from (entry for at, entry in found if at not in gone)


def _parquet(location: str, base: str = "") -> list[dict[str, Any]]:
    """The rows of a root or leaf; with a `base`, locations below it are made whole (sfc-1 L1)."""
    rows = [dict(record) for record in _records(local(location), "parquet")]
    for row in rows if base else ():
        for name in ("location", "referenced_file"):
            row[name] = absolute(base, row[name])
    return rows


def absolute(base: str, location: Any) -> Any:
    """A location of version 4 in a table at `base`: those without a scheme lie below (sfc-1 L1)."""
    if location is None or re.match("[A-Za-z][A-Za-z0-9+.-]+:", location):
        return location
    return f"{base.rstrip('/')}/{location}"


def _dead(row: dict[str, Any]) -> set[int]:
    vector = row["deletion_vector"]
    if vector["inline_content"] is not None:
        return _roaring(vector["inline_content"], 0)[0]
    return _blob_positions(row["location"], vector["offset"], vector["size_in_bytes"])


def _tree_entry(row: dict[str, Any], number: int) -> dict[str, Any]:
    """A row of a root or leaf as an entry of older versions; its partition is in its statistics."""
    tracked, vector = row["tracking_info"], row["deletion_vector"] or {}
    sequence = tracked["sequence_number"]
    stats = row.get("content_stats") or {}
    return {
        "status": tracked["status"],
        "snapshot_id": tracked["snapshot_id"],
        "sequence": number if sequence is None else sequence,
        "spec": row["partition_spec_id"],
        "data_file": {
            "content": row["content_type"],
            "file_path": row["location"],
            "file_format": row["file_format"],
            "record_count": row["record_count"],
            "file_size_in_bytes": row["file_size_in_bytes"],
            "referenced_data_file": row["referenced_file"],
            "content_offset": vector.get("offset"),
            "content_size_in_bytes": vector.get("size_in_bytes"),
            "partition": {name: (group or {}).get("lower_bound") for name, group in stats.items()},
        },
    }


def dv_positions(entry: dict[str, Any]) -> set[int]:
    """Positions of a deletion-vector-v1 blob, by a decoder of its own (R-119)."""
    start, length = entry["content_offset"], entry["content_size_in_bytes"]
    return _blob_positions(entry["file_path"], start, length)


def _blob_positions(location: str, start: int, length: int) -> set[int]:
    blob = local(location).read_bytes()[start : start + length]
    assert blob[4:8] == b"\xd1\xd3\x39\x64"
    count, at = struct.unpack_from("<Q", blob, 8)[0], 16
    positions: set[int] = set()
    for _ in range(count):
        key = struct.unpack_from("<I", blob, at)[0]
        low, at = _roaring(blob, at + 4)
        positions |= {(key << 32) | value for value in low}
    return positions


def _roaring(blob: bytes, start: int) -> tuple[set[int], int]:
    cookie = struct.unpack_from("<I", blob, start)[0]
    at = start + 4
    has_runs = (cookie & 0xFFFF) == 12347
    if has_runs:
        size = (cookie >> 16) + 1
        flags = blob[at : at + (size + 7) // 8]
        at += len(flags)
    else:
        assert cookie == 12346
        size, flags, at = struct.unpack_from("<I", blob, at)[0], b"", at + 4
    headers = [struct.unpack_from("<HH", blob, at + 4 * number) for number in range(size)]
    at += 4 * size
    if not has_runs or size >= 4:
        at += 4 * size
    values: set[int] = set()
    for number, (key, cardinality) in enumerate(headers):
        high = key << 16
        if flags and flags[number // 8] >> (number % 8) & 1:
            runs = struct.unpack_from("<H", blob, at)[0]
            at += 2
            for _ in range(runs):
                first, more = struct.unpack_from("<HH", blob, at)
                values |= set(range(high | first, (high | first) + more + 1))
                at += 4
        elif cardinality + 1 <= 4096:
            values |= {high | low for low in struct.unpack_from(f"<{cardinality + 1}H", blob, at)}
            at += 2 * (cardinality + 1)
        else:
            bits = int.from_bytes(blob[at : at + 8192], "little")
            values |= {high | low for low in range(65536) if bits >> low & 1}
            at += 8192
    return values, at


def read_rows(metadata: dict[str, Any], snapshot_id: int | None = None) -> list[Row]:
    """Rows of a snapshot (the current one) after deletes, as sorted tuples of (column, value)."""
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", [])}
    chosen = metadata.get("current-snapshot-id") if snapshot_id is None else snapshot_id
    if chosen in (None, -1):
        return []
    first = {"spec-id": 0, "fields": metadata.get("partition-spec")}
    specs = metadata.get("partition-specs") or [first]
    unpartitioned = {spec["spec-id"] for spec in specs if not spec["fields"]}
    entries = live_entries(snapshots[chosen])
    deletes = [entry for entry in entries if entry["data_file"].get("content", 0)]
    positions = _position_deletes(deletes)
    equality = [entry for entry in deletes if entry["data_file"]["content"] == 2]
    rows: list[Row] = []
    for entry in entries:
        data = entry["data_file"]
        if data.get("content", 0):
            continue
        gone = {
            at
            for at, sequence in positions[local(data["file_path"])]
            if entry["sequence"] <= sequence
        }
        filters = [
            _equality_keys(delete)
            for delete in equality
            if entry["sequence"] < delete["sequence"]
            and (
                delete["spec"] in unpartitioned
                or (delete["spec"], _partition(metadata, delete))
                == (entry["spec"], _partition(metadata, entry))
            )
        ]
        for at, record in enumerate(read_records(data)):
            matched = any(
                tuple(record.get(name) for name in names) in keys for names, keys in filters
            )
            if at not in gone and not matched:
                shown = {name: value for name, value in record.items() if name not in _LINEAGE}
                rows.append(tuple(sorted(shown.items(), key=lambda item: item[0])))
    return sorted(rows, key=repr)


def rows_by_snapshot(directory: Path) -> dict[int, list[Row]]:
    """Rows of every snapshot of a table, by its id."""
    metadata = read_metadata(current_metadata(directory))
    return {
        snapshot["snapshot-id"]: read_rows(metadata, snapshot["snapshot-id"])
        for snapshot in metadata["snapshots"]
    }


def ids_of(directory: Path, snapshot_id: int | None = None) -> list[int]:
    """The ids of the rows of a snapshot (the current one) of a table, sorted."""
    rows = read_rows(read_metadata(current_metadata(directory)), snapshot_id)
    return sorted(dict(row)["id"] for row in rows)


def rows_without_lineage(directory: Path, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """Rows by their ids, without the columns that carry their lineage."""
    found = read_rows(read_metadata(current_metadata(directory)), snapshot_id)
    return [
        {name: value for name, value in row if not name.startswith("_")}
        for row in sorted(found, key=lambda one: dict(one)["id"])
    ]


def _partition(metadata: dict[str, Any], entry: dict[str, Any]) -> list[Any]:
    """The partition of an entry, whichever version wrote it."""
    stored = entry["data_file"]["partition"]
    if "expressions" not in metadata:
        return list(stored.values())
    expressions = {one["expr-id"]: one["expr"] for one in metadata["expressions"]}
    spec = next(one for one in metadata["partition-specs"] if one["spec-id"] == entry["spec"])
    fields = [(field["expr-id"], expressions[field["expr-id"]]) for field in spec["fields"]]
    values = list(stored.values())  # of manifests of old
    if any(re.fullmatch(r"s\d+", name) for name in stored):
        names = [
            expr["source-id"] if expr["transform"] == "identity" else number
            for number, expr in fields
        ]
        values = [stored.get(f"s{name}") for name in names]
    return [
        _plain(value)
        for value, (_, expr) in zip(values, fields, strict=True)
        if expr["transform"] != "void"
    ]


def _plain(value: Any) -> Any:
    """A date as its number of days, a time without its zone: manifests of old have either."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _position_deletes(deletes: list[dict[str, Any]]) -> dict[Path, list[tuple[int, int]]]:
    positions: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    for entry in deletes:
        data = entry["data_file"]
        if data["content"] != 1:
            continue
        if data["file_format"].lower() == "puffin":
            positions[local(data["referenced_data_file"])] += [
                (at, entry["sequence"]) for at in dv_positions(data)
            ]
            continue
        for record in read_records(data):
            positions[local(record["file_path"])].append((record["pos"], entry["sequence"]))
    return positions


def _equality_keys(delete: dict[str, Any]) -> tuple[tuple[str, ...], set[tuple[Any, ...]]]:
    records = read_records(delete["data_file"])
    names = tuple(records[0]) if records else ()
    return names, {tuple(record[name] for name in names) for record in records}
