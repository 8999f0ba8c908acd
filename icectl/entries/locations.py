"""Columns of locations in tables of version 4, as whole ones (sfc-1 L1, L2)."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import replace_column
from icectl.entries.rows import RawEntries
from icectl.format.locations import SCHEME, absolute, absolute_location, scheme_of_entries
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata

_ABSOLUTE = f"^{SCHEME}"
_LOCATIONS = ("location", "referenced_data_file")


def without_scheme(locations: pa.Array) -> pa.Array:
    """Return whether each location has no scheme. Order: kept; null stays null."""
    return pc.invert(pc.match_substring_regex(locations, _ABSOLUTE))


def are_relative(locations: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return whether each location is neither a URI nor an absolute path. Order and nulls: kept."""
    return pc.invert(pc.match_substring_regex(locations, f"{_ABSOLUTE}|^/"))


def locations_with_scheme(scheme: str, locations: pa.Array) -> pa.Array:
    """Absolute locations with a scheme: this one where they have none. Order and nulls: kept."""
    bare = without_scheme(locations)
    if not pc.any(bare, min_count=0).as_py():
        return locations
    whole = pc.binary_join_element_wise(pa.scalar(scheme), locations, "")
    return pc.if_else(bare, whole, locations)


def all_resolved(table_location: str, locations: pa.Array) -> pa.Array:
    """Return locations of version 4 as whole ones (sfc-1 L1). Raises: Unsupported; order kept."""
    slashed = locations.filter(pc.starts_with(locations, "/"))
    if len(slashed):
        absolute_location(table_location, slashed[0].as_py())
    return _below_table(table_location, locations)


def _below_table(table_location: str, locations: pa.Array) -> pa.Array:
    """Relative locations as whole ones; those that begin with a slash are older, and stay."""
    relative = are_relative(locations)
    if not pc.any(relative, min_count=0).as_py():
        return locations
    base = pa.scalar(table_location.rstrip("/"))
    return pc.if_else(relative, pc.binary_join_element_wise(base, locations, "/"), locations)


def with_schemes(metadata: TableMetadata, entries: RawEntries) -> RawEntries:
    """Return entries of a manifest that a list names with whole locations."""
    if metadata.format_version < 4:
        return entries
    scheme = scheme_of_entries(metadata)
    return RawEntries(with_whole_locations(metadata.location, scheme, entries.table))


def with_whole_locations(table_location: str, scheme: str, table: pa.Table) -> pa.Table:
    """Return columns of entries of a version 4 table with whole locations.

    Those that begin with a slash get the scheme, if there is one.
    """
    for name in _LOCATIONS:
        if name in table.column_names:
            whole = _below_table(table_location, table[name])
            if scheme:
                whole = locations_with_scheme(scheme, whole)
            table = replace_column(table, name, whole)
    return table


def listed_with_scheme(metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
    """Return the row of a manifest list with a whole location."""
    if metadata.format_version < 4:
        return manifest
    return replace(manifest, manifest_path=absolute(metadata, manifest.manifest_path))
