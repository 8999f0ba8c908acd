"""Locations in metadata: absolute, or in version 4 also relative to the table's (sfc-1 2.6)."""

import re
from collections.abc import Callable
from dataclasses import replace

from icectl.errors import Unsupported
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.properties import RELATIVE_LOCATIONS, read
from icectl.format.snapshot import Snapshot

SCHEME = "[A-Za-z][A-Za-z0-9+.-]+:"
"""A URI begins with this regular expression. Spec: sfc-1 L1, two or more characters."""

_SCHEME = re.compile(SCHEME)


def is_relative(location: str) -> bool:
    """Whether the location says only where it lies from somewhere: no scheme, no slash at first."""
    return not location.startswith("/") and _SCHEME.match(location) is None


def with_scheme(table_location: str, location: str) -> str:
    """Give a location of older versions the scheme that version 4 asks for (sfc-1 L2)."""
    if _SCHEME.match(location):
        return location
    scheme = _SCHEME.match(table_location)
    return f"{scheme.group() if scheme else 'file:'}{location}"


def scheme_of(metadata: TableMetadata) -> str:
    """Return what locations without a scheme get (sfc-1 L2); empty up to version 3."""
    return with_scheme(metadata.location, "") if metadata.format_version >= 4 else ""


def location_in(metadata: TableMetadata, location: str) -> str:
    """Return a location as the metadata has it: in version 4 with its scheme."""
    scheme = scheme_of(metadata)
    return with_scheme(scheme, location) if scheme else location


def scheme_of_entries(metadata: TableMetadata) -> str:
    """Return what locations in manifests get that have no scheme (sfc-1 L2).

    Empty where engines compare these to the letter with those in deletes: both stay as they are.
    """
    return scheme_of(metadata) if layout_of_table(metadata) is Layout.SFC_1 else ""


def absolute(metadata: TableMetadata, location: str) -> str:
    """Return a location of Iceberg's version 4, or of a manifest list there, as a whole one.

    One without a scheme lies below the table's, or is an old one that begins with a slash.
    """
    if location.startswith("/"):
        return f"{scheme_of(metadata)}{location}"
    return absolute_location(metadata.location, location)


def relative_base(metadata: TableMetadata) -> str:
    """Return what new locations are written relative to (sfc-1 L4); empty where they are whole."""
    may_be_relative = layout_of_table(metadata) is Layout.SFC_1
    wanted = may_be_relative and read(metadata.properties, RELATIVE_LOCATIONS)
    return metadata.location if wanted else ""


def absolute_location(table_location: str, location: str) -> str:
    """Return a location of version 4 as an absolute one (sfc-1 L1).

    Raises: Unsupported, where it begins with a slash: by the letter it lies below the table, but
    its writer may have meant a path of the machine, and files were deleted for the other's.
    """
    if _SCHEME.match(location):
        return location
    if location.startswith("/"):  # sfc-1 L1
        raise Unsupported(
            f"`{location}` is neither absolute nor relative: it begins with a slash",
            hint="use a scheme, as in file:///wh, or a path under the table's location",
            rule="V4-051",
        )
    return f"{table_location.rstrip('/')}/{location}"


def named_in_vector(metadata: TableMetadata, location: str) -> str:
    """Spell the file that a deletion vector's own file is of as the manifest does.

    Of version 4 a whole location or one below the table's (sfc-1 L5); vectors of before may lack
    the scheme (sfc-1 L2).
    """
    if metadata.format_version < 4:
        return location
    of = with_scheme if location.startswith("/") else absolute_location
    return of(metadata.location, location)


def relative_location(table_location: str, location: str) -> str:
    """Return a location as a relative one, where it lies below the table's (sfc-1 L4)."""
    base = f"{table_location.rstrip('/')}/"
    rest = location.removeprefix(base)
    # What is left must not read as something else.
    return location if rest.startswith("/") or _SCHEME.match(rest) or not rest else rest


def with_locations(metadata: TableMetadata, of: Callable[[str], str]) -> TableMetadata:
    """Return the metadata with every location but the table's own replaced (sfc-1 L5)."""
    return replace(
        metadata,
        snapshots=tuple(_of_snapshot(item, of) for item in metadata.snapshots),
        metadata_log=tuple(
            replace(item, metadata_file=of(item.metadata_file)) for item in metadata.metadata_log
        ),
        statistics=tuple(
            replace(item, statistics_path=of(item.statistics_path)) for item in metadata.statistics
        ),
        partition_statistics=tuple(
            replace(item, statistics_path=of(item.statistics_path))
            for item in metadata.partition_statistics
        ),
    )


def named_locations(metadata: TableMetadata) -> list[str]:
    """List the table's own location, and every other that the metadata names."""
    named = [metadata.location]

    def note(location: str) -> str:
        named.append(location)
        return location

    with_locations(metadata, note)
    return named


def _of_snapshot(snapshot: Snapshot, of: Callable[[str], str]) -> Snapshot:
    listed, embedded, root = snapshot.manifest_list, snapshot.manifests, snapshot.root_manifest
    return replace(
        snapshot,
        manifest_list=None if listed is None else of(listed),
        manifests=None if embedded is None else tuple(map(of, embedded)),
        root_manifest=None if root is None else of(root),
    )
