"""Show and check a root of the draft that is given as a file, with the leaves that it lists."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icectl.checks.draft_16025.manifests import (
    check_bitmaps,
    check_counts,
    check_entries,
    check_live_once,
)
from icectl.checks.finding import Finding, finding
from icectl.codec.draft_16025.mumbling import read_mumbling
from icectl.entries.draft_16025.rows import LEAVES, PARTITION, STATS, DraftStatus
from icectl.errors import CorruptTable, MissingFile, Unsupported
from icectl.spec.manifest import Content, FileFormat
from icectl.storage.store import Store
from icectl.table.draft_16025.root import DraftManifest, read_leaf, read_root

_BITMAPS = ("dead_positions", "deleted_positions", "replaced_positions")
_IDS = ("snapshot_id", "dv_snapshot_id")


def draft_rows(store: Store, location: str, view: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a root and its leaves: all, those of `manifests`, or of live `files`.

    Order: the root's first, then leaf by leaf.
    Raises: as read_root.
    """
    root = read_root(store, location)
    leaves = () if view == "manifests" else root.leaves
    for manifest in (root, *(read_leaf(store, root, entry) for entry in leaves)):
        alive = manifest.alive
        for place, row in enumerate(_rows(manifest.rows)):
            is_leaf = row["content"] in LEAVES
            if view == "entries" or (is_leaf == (view == "manifests") and alive[place]):
                is_live = bool(alive[place])
                yield {"manifest": manifest.location, "position": place, "live": is_live} | _shown(
                    row
                )


def _rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows of a manifest, with values of structs for JSON."""
    flat = [name for name in rows.column_names if name not in (PARTITION, STATS)]
    columns = {name: rows[name].to_pylist() for name in flat} | {
        name: _plain(rows[name].combine_chunks())
        for name in (PARTITION, STATS)
        if name in rows.column_names
    }
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _plain(column: pa.Array) -> list[Any]:
    """Return values for JSON, whatever Python has no values of as text.

    Nulls in structs are left out.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_struct(column.type):
        members = [_plain(member) for member in column.flatten()]
        named = [field.name for field in column.type]
        return [
            {name: value for name, value in zip(named, row, strict=True) if value is not None}
            if is_there
            else None
            for is_there, row in zip(
                column.is_valid().to_pylist(), zip(*members, strict=True), strict=True
            )
        ]
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return list(column.to_pylist())


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry for JSON: ids as texts, bitmaps as positions, what is not there left out."""
    shown = {name: value for name, value in row.items() if value is not None}
    shown["status"] = DraftStatus(row["status"]).name.lower()
    shown["content"] = Content(row["content"]).name.lower()
    shown["file_format"] = FileFormat(row["file_format"]).name
    for name in _IDS:
        if name in shown:
            shown[name] = str(shown[name])
    for name in _BITMAPS:
        if name in shown:
            shown[name] = read_mumbling(shown[name]).tolist()
    return {
        name: value.hex() if isinstance(value, bytes) else value for name, value in shown.items()
    }


@dataclass(frozen=True, slots=True)
class CheckedRoot:
    """The findings of a root and its leaves, and what was read for them."""

    table_location: str
    findings: tuple[Finding, ...]
    file_count: int
    bytes_read: int


def check_root(store: Store, location: str) -> CheckedRoot:
    """Check a root and the leaves that it lists by the rules of the draft.

    Raises: StorageError; Unsupported.
    """
    try:
        root = read_root(store, location)
    except CorruptTable as error:
        return CheckedRoot(location, (_broken(location, error),), 1, 0)
    findings = list(check_entries(location, root.rows, content=None))
    rows = zip(root.rows.select(["location", "content"]).to_pylist(), root.alive, strict=True)
    live = [
        row["location"]
        for row, is_live in rows
        if is_live and row["content"] in (Content.DATA, Content.EQUALITY_DELETES)
    ]
    size = root.size_bytes
    entries = root.leaves
    for entry in entries:
        try:
            leaf = read_leaf(store, root, entry)
        except MissingFile as error:
            findings.append(finding("V4-211", str(entry["location"]), error.message))  # V4-211
        except (CorruptTable, Unsupported) as error:
            findings.append(_broken(str(entry["location"]), error))
        else:
            size += leaf.size_bytes
            findings += _in_leaf(entry, leaf)
            alive = leaf.rows.filter(leaf.alive)
            live += alive["location"].to_pylist()
    findings += check_live_once(location, live)
    return CheckedRoot(root.table_location, tuple(findings), 1 + len(entries), size)


def _in_leaf(entry: Mapping[str, Any], leaf: DraftManifest) -> Iterator[Finding]:
    if entry["file_size_in_bytes"] != leaf.size_bytes:  # V4-211
        message = f"it has {leaf.size_bytes:,} bytes, not {entry['file_size_in_bytes']:,}"
        yield finding("V4-211", leaf.location, message)
    yield from check_entries(leaf.location, leaf.rows, content=Content(entry["content"]))
    yield from check_counts(entry, leaf.rows)
    try:
        bitmaps = {name: read_mumbling(entry[name]) for name in _BITMAPS if entry[name] is not None}
    except CorruptTable as error:
        yield _broken(leaf.location, error)
        return
    yield from check_bitmaps(entry, bitmaps)


def _broken(location: str, error: CorruptTable | Unsupported) -> Finding:
    rule = error.rule or "V4-200"
    return finding(rule, location, error.message.removesuffix(f" ({rule})"))
