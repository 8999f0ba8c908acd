"""Rules of deletes: position deletes, equality deletes and deletion vectors."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.live_entries import LiveRows, deletes_in_version_1, incomplete_vectors
from icectl.checks.objects import Columns, ManifestEntries, in_entries, in_lists, in_live
from icectl.checks.rule import Breach, Check, rule
from icectl.entries.columns import Mask, mask_of
from icectl.entries.rows import RawEntries
from icectl.format.manifest import Content, ManifestContent, Status
from icectl.format.rule import (
    OLDER_METADATA,
    OURS,
    RESTORE,
    ROLL_BACK,
    WRITE_DELETES_AGAIN,
    Severity,
)
from icectl.format.types import PrimitiveType, is_comparable, is_nested, type_text


def has_equality_ids(entries: Columns | RawEntries) -> Mask:
    """Find entries that name columns to compare."""
    ids = entries.table["equality_ids"]
    if ids.null_count == len(ids):
        return np.zeros(len(ids), np.bool_)
    lengths = pc.list_value_length(ids)
    return mask_of(pc.greater(pc.fill_null(lengths, 0), 0))


def _incomplete_vectors(entries: ManifestEntries) -> Mask:
    """Deletion vectors that do not say which file they are for, or where they lie."""
    names = ("referenced_data_file", "content_offset", "content_size_in_bytes")
    lacking = np.logical_or.reduce([entries.absent(name) for name in names])
    return np.asarray(entries.vectors() & lacking)


def _misplaced_vectors(entries: ManifestEntries) -> Mask:
    """Deletion vectors that lie before the start or behind the end of their file."""
    start, size = entries.numbers("content_offset"), entries.numbers("content_size_in_bytes")
    room = entries.numbers("file_size_in_bytes") - start
    outside = (start < 0) | (size < 0) | (size > room)
    return entries.vectors() & entries.present("content_offset") & outside


def _new_position_deletes(entries: ManifestEntries) -> Mask | None:
    if entries.format_version < 3:
        return None
    is_delete = entries.of("content", Content.POSITION_DELETES) & ~entries.vectors()
    return is_delete & entries.of("status", Status.ADDED)


def _incomparable_columns(entries: ManifestEntries) -> Iterator[Breach]:
    """Columns to compare are in a schema, dropped ones in an old one, and are no floats."""
    if not entries.holds_deletes:
        return
    is_equality = entries.of("content", Content.EQUALITY_DELETES)
    lists = entries.table["equality_ids"].combine_chunks()
    ids = pc.unique(pc.list_flatten(lists.filter(pa.array(is_equality)))).to_pylist()
    for id_ in sorted(number for number in ids if number is not None):
        fields = [schema.field(id_) for schema in entries.metadata.schemas]
        types = [field.type for field in fields if field is not None]
        severity: Severity | None = None
        if not types:
            why = "which no schema has"
        elif any(is_nested(type_) for type_ in types):
            why = "which is nested"
        elif not all(is_comparable(type_) for type_ in types):
            why = f"which is {type_text(types[-1])}"
        elif any(isinstance(t, PrimitiveType) and t.name in ("float", "double") for t in types):
            why, severity = "which is floating-point", "warning"
        else:
            continue
        named = np.asarray(pc.list_flatten(lists).to_numpy(zero_copy_only=False)) == id_
        chosen = np.zeros(len(entries.table), np.bool_)
        chosen[pc.list_parent_indices(lists).to_numpy()[named]] = True
        what = f"column {id_} to compare, {why},"
        yield from entries.breaches(what, chosen & is_equality, severity)


# fmt: off
DELETE_RULES = (
    rule("R-111", "position deletes apply to files of their partition that are not newer",
         "Scan Planning", "error", "compacting drops deletes that match no file"),
    rule("R-112", "equality deletes apply to older files of their partition, or to all",
         "Scan Planning", "error", OURS),
    rule("R-113", "a deletion vector applies to one file, instead of position deletes",
         "Scan Planning", "error", OURS),
    rule("R-114", "a data file has at most one deletion vector", "Deletion Vectors", "error",
         RESTORE,
         in_live("is a further deletion vector for its data file",
                 lambda one: one.faults.repeated_vectors.in_snapshot(one.chosen))),
    rule("R-115", "a new deletion vector contains the deletes it replaces", "Delete Formats",
         "error", OURS),
    rule("R-116", "a deletion vector is removed with its data file", "Delete Formats", "warning",
         WRITE_DELETES_AGAIN,
         in_live("has a deletion vector, but is not live",
                 lambda one: one.faults.vectors.lost(one.chosen)
                 if one.is_whole else None)),
    rule("R-117", "filters are projected to partitions without losing files", "Scan Planning",
         "error", OURS),
    rule("R-118", "entries of deletion vectors are complete and match the Puffin file",
         "Data File Fields", "error", RESTORE,
         in_entries("a deletion vector without its place or data file",
                    lambda one: _incomplete_vectors(one) if one.holds_deletes else None),
         in_entries("a deletion vector that lies outside of its file",
                    lambda one: _misplaced_vectors(one) if one.holds_deletes else None),
         Check(LiveRows, incomplete_vectors),
         in_live("is a deletion vector that shares bytes with another",
                 lambda one: one.faults.overlapping_vectors.in_snapshot(one.chosen))),
    rule("R-119", "a deletion vector has the layout and the checksum of its type",
         "Puffin blob types", "error", ROLL_BACK),
    rule("R-120", "version 1 has no deletes", "Delete Formats", "error",
         OLDER_METADATA,
         in_lists("it holds deletes in a table of version 1",
                  lambda one, _: one.content is ManifestContent.DELETES, versions=(1,)),
         in_entries("deletes before version 2",
                    lambda one: ~one.of("content", Content.DATA) if one.holds_deletes
                    and one.metadata.format_version == 1 else None),
         Check(LiveRows, deletes_in_version_1)),
    rule("R-121", "position deletes have path and position, in their order",
         "Position Delete Files", "error", ROLL_BACK),
    rule("R-122", "version 3 gets no new position delete files", "Delete Formats", "warning",
         WRITE_DELETES_AGAIN,
         in_entries("position delete files added in version 3",
                    lambda one: _new_position_deletes(one) if one.holds_deletes else None)),
    rule("R-123", "equality deletes have the columns of their equality ids",
         "Equality Delete Files", "error", ROLL_BACK,
         in_entries("equality deletes without columns to compare",
                    lambda one: one.of("content", Content.EQUALITY_DELETES) & ~has_equality_ids(one)
                    if one.holds_deletes else None),
         Check(ManifestEntries, _incomparable_columns)),
    rule("R-124", "an equality delete matches rows in all of its columns", "Equality Delete Files",
         "error", OURS),
    rule("R-175", "position delete files stay valid in version 3", "Appendix E", "info",
         "`icectl compact TABLE --deletes-only` turns them into deletion vectors"),
    rule("R-211", "a deletion vector is in the partition of its data file", "Scan Planning",
         "error", RESTORE,
         in_live("has a deletion vector of another partition",
                 lambda one: one.faults.vectors.elsewhere(one.chosen))),
)
# fmt: on
