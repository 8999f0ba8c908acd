"""Rules of manifest lists and manifests, of their rows and entries."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc

from icectl.checks.deletes import has_equality_ids
from icectl.checks.live_entries import (
    LARGEST_FILE,
    LiveRows,
    live_again,
    naming_metadata,
    of_no_size,
    unreadable_formats,
)
from icectl.checks.objects import (
    ManifestEntries,
    ManifestList,
    StoredManifest,
    in_entries,
    in_lists,
    in_live,
)
from icectl.checks.rule import Breach, Check, at_most_once, other_names, rule
from icectl.checks.schemas import other_fields
from icectl.entries.columns import Mask
from icectl.files.manifest.schema import ids_text
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.rule import (
    COMPACT,
    OURS,
    REPAIR_LIST,
    RESTORE,
    REWRITE_MANIFESTS,
    ROLL_BACK,
    Severity,
)

# -- manifest lists -------------------------------------------------------------------------------

_COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count",
    "existing_rows_count", "deleted_rows_count",
)  # fmt: skip


def _counts_in_row(row: ManifestFile) -> list[int | None]:
    return [getattr(row, name) for name in _COUNTS]


def _mismatched_header(listed: ManifestList) -> Iterator[Breach]:
    snapshot = listed.snapshot
    expected = {"snapshot-id": snapshot.snapshot_id, "sequence-number": snapshot.sequence_number}
    return other_names("header", listed.properties or {}, expected)


def _only_deleted(listed: ManifestList) -> Iterator[Breach]:
    """Manifests that only say what an older snapshot removed."""
    locations = [
        manifest.manifest_path
        for manifest in listed.manifests
        if manifest.added_files_count == manifest.existing_files_count == 0
        and manifest.added_snapshot_id != listed.snapshot.snapshot_id
    ]
    if locations:
        yield Breach(
            f"{len(locations)} of its {len(listed.manifests)} manifests hold nothing but deleted "
            f"entries of older snapshots; the first is `{locations[0]}`"
        )


# -- manifests ------------------------------------------------------------------------------------

_IN_HEADER: Mapping[int, Sequence[str]] = {
    1: ("schema", "partition-spec"),
    2: ("schema", "partition-spec", "partition-spec-id", "format-version", "content"),
}
"""What a header has to say, from a version on. `schema-id` is required too, but neither the
reference implementation nor PyIceberg writes it, and no reader looks for it."""

_CONTENTS: Mapping[ManifestContent, str] = {
    ManifestContent.DATA: "data",
    ManifestContent.DELETES: "deletes",
}


def _mismatched_length(stored: StoredManifest) -> Iterator[Breach]:
    for row in stored.described:
        if row.manifest_length != stored.size_bytes:
            message = (
                f"its length is {row.manifest_length} in the list, {stored.size_bytes} as stored"
            )
            yield Breach(message, severity="warning")


def _mismatched_counts(stored: StoredManifest) -> Iterator[Breach]:
    """The counts of a list are those of the entries.

    A wrong number of live files makes readers pass a manifest over, and a wrong number of rows
    assigns row ids twice (R-102); other counts mislead no reader.
    """
    records = stored.columns.numbers("record_count")
    masks = {status: stored.columns.of("status", status) for status in Status}
    counts = {of: (int(mask.sum()), int(records[mask].sum())) for of, mask in masks.items()}
    for row in stored.described:
        differing = []
        severity: Severity = "warning"
        for status in (Status.ADDED, Status.EXISTING, Status.DELETED):
            name = status.name.lower()
            listed = getattr(row, f"{name}_files_count"), getattr(row, f"{name}_rows_count")
            for kind, said, count in zip(("files", "rows"), listed, counts[status], strict=True):
                if said is None or said == count:
                    continue
                differing.append(f"{said} {name} {kind}, not {count}")
                of_files = kind == "files" or stored.metadata.format_version > 2
                if status is not Status.DELETED and of_files:
                    severity = "error"
        if differing:
            yield Breach(f"the manifest list counts {'; '.join(differing)}", severity=severity)


def _incomplete_header(stored: StoredManifest) -> Iterator[Breach]:
    header = stored.header
    names = _IN_HEADER[2 if header.format_version > 1 else 1]
    absent = [name for name in names if name not in header.metadata]
    if absent:
        # A reader of a manifest through its list and the table metadata does without.
        yield Breach(f"its header lacks `{'`, `'.join(absent)}`", severity="warning")


def _unknown_fields(stored: StoredManifest) -> Iterator[Breach]:
    if stored.header.unknown_field_ids:
        ids = ids_text(stored.header.unknown_field_ids)
        message = f"its entries have fields of no version up to 3 ({ids})"
        yield Breach(message, severity="info")


def _mismatched_kind(stored: StoredManifest) -> Iterator[Breach]:
    """Content and spec are the same in the header and in every manifest list."""
    header = stored.header
    rows = {(row.content, row.partition_spec_id): row for row in stored.described}
    for row in rows.values():
        if "content" in header.metadata and header.content is not row.content:
            said, listed = _CONTENTS[header.content], _CONTENTS[row.content]
            yield Breach(f"its header says `{said}`, the manifest list `{listed}`")
        if header.spec_id is not None and header.spec_id != row.partition_spec_id:
            yield Breach(
                f"its header says partition spec {header.spec_id}, the manifest list "
                f"{row.partition_spec_id}"
            )
        spec = stored.metadata.spec(row.partition_spec_id)
        if other_fields(header, spec):
            yield Breach(
                f"its header has other fields for partition spec {row.partition_spec_id} than the "
                "table"
            )


# -- entries --------------------------------------------------------------------------------------


def of_other_content(entries: ManifestEntries, content: ManifestContent) -> Mask | None:
    """Find data in a manifest of deletes, or the other way round, where that is its content."""
    if entries.content is not content:
        return None
    is_data = entries.of("content", Content.DATA)
    return ~is_data if content is ManifestContent.DATA else is_data


def _of_other_snapshot(entries: ManifestEntries, status: Status) -> Mask | None:
    """Only what a snapshot added or removed says its id: live files stay the same."""
    if not entries.has_snapshot:
        return None
    other = entries.numbers("snapshot_id") != entries.snapshot_ids
    return np.asarray(other & entries.present("snapshot_id") & entries.of("status", status))


def unordered_split_offsets(entries: ManifestEntries) -> Mask | None:
    """Find live files whose split offsets do not ascend, or lie outside of the file."""
    column = entries.table["split_offsets"].combine_chunks()
    if column.null_count == len(column):
        return None
    parents = pc.list_parent_indices(column).to_numpy()
    offsets = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(entries.table), np.bool_)
    sizes = entries.numbers("file_size_in_bytes")
    wrong[parents[(offsets < 0) | (offsets >= sizes[parents])]] = True
    falls = (offsets[1:] <= offsets[:-1]) & (parents[1:] == parents[:-1])
    wrong[parents[1:][falls]] = True
    return wrong & ~entries.of("status", Status.DELETED)


# fmt: off
MANIFEST_RULES = (
    rule("R-050", "rows of a manifest list are complete", "Manifest Lists", "error", REPAIR_LIST,
         at_most_once(ManifestList, "it lists `{value}` {times} times",
                      lambda one: [(None, (row.manifest_path for row in one.manifests))]),
         in_lists("its length is {one.manifest_length}", lambda one, _: one.manifest_length < 0),
         in_lists("its row in the manifest list does not say which snapshot added it",
                  lambda one, listed: one.added_snapshot_id is None
                  and listed.properties is not None, "warning"),
         Check(StoredManifest, _mismatched_length)),
    rule("R-051", "counts of a manifest are those of its entries, and missing ones mean unknown",
         "Manifest Lists", "error", REPAIR_LIST,
         in_lists("one of its counts is negative",
                  lambda one, _: any(count is not None and count < 0
                  for count in _counts_in_row(one))),
         Check(StoredManifest, _mismatched_counts)),
    rule("R-052", "the spec of every manifest is in the table metadata", "Manifest Lists", "error",
         "use a metadata file that still has the spec",
         in_lists("its partition spec {one.partition_spec_id} is not in `partition-specs`",
                  lambda one, listed: listed.metadata.spec(one.partition_spec_id) is None)),
    rule("R-054", "a manifest list names its snapshot in its header", "Manifest Lists", "info",
         REPAIR_LIST, Check(ManifestList, _mismatched_header)),
    rule("R-056", "manifests with nothing but deleted entries may be dropped", "Manifests", "info",
         REWRITE_MANIFESTS, Check(ManifestList, _only_deleted)),
    rule("R-060", "the header of a manifest names schema, spec, version and content", "Manifests",
         "error", REWRITE_MANIFESTS, Check(StoredManifest, _incomplete_header)),
    rule("R-061", "a manifest has one spec, and either data or deletes", "Manifests", "error",
         RESTORE,
         Check(StoredManifest, _mismatched_kind),
         in_entries("deletes in a manifest of data files",
                    lambda one: of_other_content(one, ManifestContent.DATA)),
         in_entries("data files in a manifest of deletes",
                    lambda one: of_other_content(one, ManifestContent.DELETES))),
    rule("R-062", "manifest entries have status, snapshot and file", "Manifests", "error",
         ROLL_BACK,
         in_entries("no snapshot id",
                    lambda one: one.absent("snapshot_id") if one.format_version == 1
                    else None, "warning")),
    rule("R-063", "entries of files are complete", "Data File Fields", "error", ROLL_BACK,
         Check(StoredManifest, _unknown_fields),
         in_entries("an unknown file format",
                    lambda one: one.of("file_format", FileFormat.UNKNOWN)),
         in_entries("rows in a Puffin file",
                    lambda one: one.of("file_format", FileFormat.PUFFIN)
                    & ~one.of("content", Content.POSITION_DELETES)),
         in_entries("a negative record count", lambda one: one.numbers("record_count") < 0),
         in_entries("a file size that no file has",
                    lambda one: (one.numbers("file_size_in_bytes") < 1)
                    | (one.numbers("file_size_in_bytes") > LARGEST_FILE)),
         Check(LiveRows, of_no_size), Check(LiveRows, unreadable_formats),
         Check(LiveRows, naming_metadata),
         in_entries("equality ids on a file that is not an equality delete",
                    lambda one: has_equality_ids(one)
                    & ~one.of("content", Content.EQUALITY_DELETES), "warning"),
         in_entries("a content offset on a file that is not a deletion vector",
                    lambda one: one.present("content_offset") & ~one.vectors(), "warning")),
    rule("R-064", "the status of an entry is added, existing or deleted", "Manifest Entry Fields",
         "error", REWRITE_MANIFESTS,
         in_entries("status ADDED of another snapshot than the manifest's",
                    lambda one: _of_other_snapshot(one, Status.ADDED), "warning"),
         in_entries("status DELETED of another snapshot than the manifest's",
                    lambda one: _of_other_snapshot(one, Status.DELETED), "warning")),
    rule("R-065", "a file marked deleted stays while an older snapshot reads it",
         "Manifest Entry Fields", "info", OURS,
         not_enforced="deleting goes by reachability (R-191); adding a path again is "
         "discouraged only"),
    rule("R-066", "a path is live at most once in a snapshot", "Scan Planning", "error", ROLL_BACK,
         in_live("is live again", lambda one: one.faults.repeated.in_snapshot(one.chosen)),
         Check(LiveRows, live_again)),
    rule("R-067", "split offsets ascend and sort orders are those of data files", "Manifests",
         "warning", COMPACT,
         in_entries("split offsets that do not ascend, or lie outside of the file,",
                    unordered_split_offsets),
         in_entries("a sort order of position deletes",
                    lambda one: one.present("sort_order_id")
                    & one.of("content", Content.POSITION_DELETES), "info"),
         in_entries("a sort order that the table does not have",
                    lambda one: one.present("sort_order_id")
                    & ~one.of("sort_order_id", 0, *[order.order_id
                    for order in one.metadata.sort_orders]), "info")),
    rule("R-069", "rewriting manifests keeps the set of live files", "Snapshots", "error", OURS),
    rule("R-098", "optional Avro fields are unions with null", "Appendix A", "error",
         REWRITE_MANIFESTS),
    rule("R-110", "live entries are the added and the existing ones", "Scan Planning", "error",
         OURS),
    rule("R-171", "version 2 manifest lists are complete after an upgrade", "Appendix E", "error",
         REWRITE_MANIFESTS,
         in_lists("its row in the manifest list lacks counts, which version 2 requires",
                  lambda one, _: bool(one.sequence_number) and None in _counts_in_row(one),
                  "warning", versions=range(2, 5))),
    rule("R-172", "version 2 manifests are complete after an upgrade", "Appendix E", "error",
         REWRITE_MANIFESTS),
    rule("R-204", "the status decides what an entry inherits", "Manifest Entry Fields", "info",
         OURS, not_enforced="a choice between sources; R-042 enforces it"),
    rule("R-205", "existing entries carry both sequence numbers", "Manifest Entry Fields", "info",
         OURS, not_enforced="a choice between sources; R-043 enforces it"),
)
# fmt: on
