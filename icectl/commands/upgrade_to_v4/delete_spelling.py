"""Deletes that name their data file in another form than its manifest entry does.

icectl, and readers of layout sfc-1, take `file:///wh/f`, `file:/wh/f` and `/wh/f` for one file.
Iceberg's own readers compare locations to the letter: there such a delete applies to nothing, and
its rows are back.
"""

from collections.abc import Callable, Sequence

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
    scheme = with_scheme(metadata.location, "")
    data, named, files = [], [], []
    for part in scan_manifests(
        context, metadata, distinct_manifests(lists.values()), _COLUMNS | _BOUNDS
    ):
        alive = Entries(with_whole_locations(metadata.location, scheme, live(part.rows).table))
        deletes = with_referenced_data_files(delete_files(alive))
        data.append(data_files(alive).table["location"])
        named.append(deletes.table[_NAMED])
        files.append(position_delete_files(deletes).table.select(sorted(_COLUMNS)))
    if not files:
        return None
    locations = _distinct(data)
    local = locations.filter(pc.match_substring_regex(locations, _LOCAL))
    if not len(local):  # other locations have one spelling
        return None
    listed = Entries(pa.concat_tables(files))
    places = {location: at for at, location in enumerate(listed.table["location"].to_pylist())}
    inside = read_names(take(listed, sorted(places.values())))
    names = set(_distinct(named).to_pylist()).union(*inside.values())
    return _misspelt(local, sorted(names))


def _distinct(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pc.drop_null(pc.unique(pa.chunked_array(chunks, pa.string())))


def _misspelt(locations: pa.Array, names: Sequence[str]) -> Finding | None:
    named = pa.array(names, pa.string())
    keys, known = location_keys(named), location_keys(locations)
    meant = pc.is_in(known, value_set=keys)
    entries = pa.table({"key": known.filter(meant), "entry": locations.filter(meant)})
    pairs = entries.join(pa.table({"key": keys, "name": named}), "key", join_type="inner")
    unlike = pairs.filter(pc.not_equal(pairs["entry"], pairs["name"])).sort_by("name")
    if not len(unlike):
        return None
    name, entry = unlike["name"][0].as_py(), unlike["entry"][0].as_py()
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
