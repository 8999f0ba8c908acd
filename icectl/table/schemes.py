"""Locations of older versions in tables whose layout has all with a scheme (sfc-1 L2)."""

from dataclasses import replace

import pyarrow as pa

from icectl.entries.rows import RawEntries
from icectl.spec.locations import scheme_of, with_scheme
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata

_ABSOLUTE = "^[A-Za-z][A-Za-z0-9+.-]+:"
_LOCATIONS = ("location", "referenced_data_file")


def without_scheme(locations: pa.Array) -> pa.Array:
    """Whether each location has no scheme. Order: kept; null stays null."""
    import pyarrow.compute as pc

    return pc.invert(pc.match_substring_regex(locations, _ABSOLUTE))


def completed(scheme: str, locations: pa.Array) -> pa.Array:
    """Absolute locations with a scheme: this one where they have none.

    Order: kept; null stays null.
    """
    import pyarrow.compute as pc

    bare = without_scheme(locations)
    if not pc.any(bare, min_count=0).as_py():
        return locations
    whole = pc.binary_join_element_wise(pa.scalar(scheme), locations, "")
    return pc.if_else(bare, whole, locations)


def with_schemes(metadata: TableMetadata, entries: RawEntries) -> RawEntries:
    """Entries of an Avro manifest with the locations that the table's layout has."""
    scheme = scheme_of(metadata)
    if not scheme:
        return entries
    table = entries.table
    for name in _LOCATIONS:
        at = table.schema.get_field_index(name)
        if at >= 0:
            whole = completed(scheme, table[name])
            table = table.set_column(at, table.schema.field(name), whole)
    return RawEntries(table)


def listed_with_scheme(metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
    """The row of a manifest list with the location that the table's layout has."""
    scheme = scheme_of(metadata)
    if not scheme:
        return manifest
    return replace(manifest, manifest_path=with_scheme(scheme, manifest.manifest_path))
