"""Locations of older versions in tables of version 4, where all have a scheme (sfc-1 L2)."""

from dataclasses import replace

import pyarrow as pa

from icectl.entries.rows import RawEntries
from icectl.spec.locations import with_scheme
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata

_ABSOLUTE = "^[A-Za-z][A-Za-z0-9+.-]+:"
_LOCATIONS = ("location", "referenced_data_file")


def without_scheme(locations: pa.Array) -> pa.Array:
    """Whether each location has no scheme. Order: kept; null stays null."""
    import pyarrow.compute as pc

    return pc.invert(pc.match_substring_regex(locations, _ABSOLUTE))


def completed(metadata: TableMetadata, locations: pa.Array) -> pa.Array:
    """Absolute locations with a scheme. Order: kept; null stays null."""
    import pyarrow.compute as pc

    bare = without_scheme(locations)
    if not pc.any(bare, min_count=0).as_py():
        return locations
    scheme = pa.scalar(with_scheme(metadata.location, ""))
    return pc.if_else(bare, pc.binary_join_element_wise(scheme, locations, ""), locations)


def with_schemes(metadata: TableMetadata, entries: RawEntries) -> RawEntries:
    """Entries of an Avro manifest as those of the table's version; up to 3, as they are stored."""
    if metadata.format_version < 4:
        return entries
    table = entries.table
    for name in _LOCATIONS:
        at = table.schema.get_field_index(name)
        if at >= 0:
            whole = completed(metadata, table[name])
            table = table.set_column(at, table.schema.field(name), whole)
    return RawEntries(table)


def listed_with_scheme(metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
    """The row of a manifest list as one of the table's version."""
    if metadata.format_version < 4:
        return manifest
    return replace(manifest, manifest_path=with_scheme(metadata.location, manifest.manifest_path))
