"""Deletes that name their data file in another form than its manifest entry does.

icectl, and readers of layout sfc-1, take `file:///wh/f`, `file:/wh/f` and `/wh/f` for one file.
Iceberg's own readers compare locations to the letter: there such a delete applies to nothing, and
its rows are back.
"""

from collections.abc import Callable, Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.rule import Finding
from icectl.entries.deletes import NamedFiles
from icectl.entries.locations import with_whole_locations
from icectl.entries.rows import (
    Entries,
    data_files,
    delete_files,
    live,
    location_keys,
    position_delete_files,
    take,
)
from icectl.entries.stats import with_referenced_data_files
from icectl.format.locations import with_scheme
from icectl.format.metadata import TableMetadata
from icectl.table.context import TableContext
from icectl.table.manifest_lists import distinct_manifests, manifests_by_snapshot
from icectl.table.manifests import scan_manifests

_NAMED = "referenced_data_file"
_COLUMNS = frozenset(
    {
        "content", "status", "file_format", "location", "record_count", "file_size_in_bytes",
        _NAMED,
    }
)  # fmt: skip
_LISTED = pa.schema([("name", pa.string()), ("manifest", pa.int32())])
_BOUNDS = frozenset({"lower_bounds", "upper_bounds"})
_LOCAL = "^(/|[Ff][Ii][Ll][Ee]:)"


def misspelt_deletes(
    context: TableContext, metadata: TableMetadata, read_names: Callable[[Entries], NamedFiles]
) -> Finding | None:
    """Find a live delete of any snapshot that readers who compare to the letter would not apply.

    Locations of entries count as manifests of version 4 have them, with a scheme. What is compared
    to them is what the delete's entry says, its path bounds, and the paths inside of its file.
    Raises: CorruptTable, Unsupported, StorageError, where something of it cannot be read.
    Cost: every manifest once; every position delete file too, where the table has local files.
    """
    lists = manifests_by_snapshot(context, metadata, metadata.snapshots)
    manifests = distinct_manifests(lists.values())
    scheme = with_scheme(metadata.location, "")
    data, named, files = [], [], []
    for part in scan_manifests(context, metadata, manifests, _COLUMNS | _BOUNDS):
        alive = Entries(with_whole_locations(metadata.location, scheme, live(part.rows).table))
        deletes = with_referenced_data_files(delete_files(alive))
        data.append(_listed(data_files(alive), "location"))
        named.append(_listed(deletes, _NAMED))
        files.append(position_delete_files(deletes).table.select([*sorted(_COLUMNS), "manifest"]))
    if not files:
        return None
    located = pa.concat_tables(data)
    located = located.filter(pc.match_substring_regex(located["name"], _LOCAL))
    if not len(located):  # other locations have one spelling
        return None
    listed = Entries(pa.concat_tables(files))
    by_file: dict[str, list[int]] = {}
    for at, location in enumerate(listed.table["location"].to_pylist()):
        by_file.setdefault(location, []).append(at)
    inside = read_names(take(listed, [places[0] for places in by_file.values()]))
    numbers = listed.table["manifest"].to_pylist()
    named += [
        pa.table({"name": [*names], "manifest": [numbers[at]] * len(names)}, _LISTED)
        for location, names in inside.items()
        for at in by_file[location]
    ]
    places = {manifest.identity: at for at, manifest in enumerate(manifests)}
    snapshots: list[set[int]] = [set() for _ in manifests]
    for snapshot_id, of_snapshot in lists.items():
        for manifest in of_snapshot:
            snapshots[places[manifest.identity]].add(snapshot_id)
    return _misspelt(located, pa.concat_tables(named), snapshots)


def _listed(entries: Entries, column: str) -> pa.Table:
    """Return the files that a column names, each with the manifest that has it."""
    table = entries.table
    return pa.table([table[column], table["manifest"]], _LISTED).drop_null()


def _misspelt(located: pa.Table, named: pa.Table, snapshots: Sequence[Set[int]]) -> Finding | None:
    """Find a data file and a delete that names it in another form, both live in one snapshot.

    `snapshots` are those of each manifest.
    """
    locations, names = pc.unique(located["name"]), pc.unique(named["name"])
    keys, known = location_keys(names), location_keys(locations)
    meant = pc.is_in(known, value_set=keys)
    entries = pa.table({"key": known.filter(meant), "entry": locations.filter(meant)})
    pairs = entries.join(pa.table({"key": keys, "name": names}), "key", join_type="inner")
    unlike = pairs.filter(pc.not_equal(pairs["entry"], pairs["name"])).sort_by("name")
    with_entry = _snapshots_of(located, unlike["entry"], snapshots)
    with_name = _snapshots_of(named, unlike["name"], snapshots)
    for entry, name in zip(unlike["entry"].to_pylist(), unlike["name"].to_pylist(), strict=True):
        if not with_entry[entry].isdisjoint(with_name[name]):
            return _finding(entry, name)
    return None


def _snapshots_of(
    listed: pa.Table, names: pa.ChunkedArray, snapshots: Sequence[Set[int]]
) -> Mapping[str, Set[int]]:
    """Return the snapshots in which each of some files is listed."""
    found: dict[str, set[int]] = {}
    rows = listed.filter(pc.is_in(listed["name"], value_set=names.combine_chunks()))
    for name, manifest in zip(rows["name"].to_pylist(), rows["manifest"].to_pylist(), strict=True):
        found.setdefault(name, set()).update(snapshots[manifest])
    return found


def _finding(entry: str, name: str) -> Finding:
    message = (
        f"a live delete names it `{name}`, and manifests of version 4 `{entry}`: engines that"
        " compare locations to the letter would not apply it, and deleted rows would come back"
    )
    hint = (
        "`icectl compact TABLE --rewrite-all` applies the deletes, on each branch (`--branch`), and"
        " `icectl expire-snapshots TABLE --older-than 0s --retain-last 1` drops older snapshots,"
        " which have some; then upgrade"
    )
    return Finding("V4-004", "error", f"data file `{entry}`", message, hint)  # V4-004
