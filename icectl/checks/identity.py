"""Whether a manifest list or a manifest is the file that was written under its name.

Another file of the table under that name is whole in itself, and lists other rows. The name of
another snapshot proves that alone. Of lengths, counts, ranges and summaries one may be a mistake
of a writer, and two tell of another file.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc

from icectl.checks.columns import Columns
from icectl.checks.manifests import MANIFEST_RULES
from icectl.checks.numbering import NUMBER_RULES
from icectl.checks.objects import StoredManifest, put_back_id
from icectl.checks.partitions import PARTITION_RULES
from icectl.checks.rule import RuleSet
from icectl.entries.rows import RawEntries
from icectl.errors import OtherFile
from icectl.format.manifest import Content, ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot

SCREENED = frozenset({"snapshot_id", "record_count"})
"""What `doubtful_manifests` looks at, beside columns that are always read."""

_MOST_TELLING = ("R-061", "R-051", "R-053", "R-044", "R-047", "R-050")
"""Ids of the rules whose breach may tell of another manifest, the most telling first."""

EVIDENCE = RuleSet(
    one for one in (*MANIFEST_RULES, *NUMBER_RULES, *PARTITION_RULES) if one.id in _MOST_TELLING
)
"""The rules of these ids."""

_STATUSES = tuple(Status)


def check_own_list(
    metadata: TableMetadata,
    snapshot: Snapshot,
    properties: Mapping[str, str],
    manifests: Sequence[ManifestFile],
) -> None:
    """Do nothing where a manifest list may be that of a snapshot; `properties` are its header.

    Raises: OtherFile R-054.
    """
    named = properties.get("snapshot-id")
    put_back = put_back_id(metadata, snapshot, properties)
    own = put_back or str(snapshot.snapshot_id)
    differences = [] if named in (None, own) else [f"its header says `snapshot-id` {named}"]
    is_known = bool(differences) and any(str(id_) == named for id_ in metadata.snapshots_by_id)
    number = properties.get("sequence-number")
    if put_back is None and number not in (None, str(snapshot.sequence_number)):
        differences.append(
            f"its header says `sequence-number` {number}, not {snapshot.sequence_number}"
        )
    if named is None and _lacks_own(snapshot, manifests):
        differences.append("the snapshot added files, and none of its manifests belongs to it")
    differences += _other_totals(snapshot, manifests)
    if is_known or len(differences) > 1:
        message = f"it is not the list of snapshot {own}: {'; '.join(differences)}"
        raise OtherFile(message, rule="R-054")


def _lacks_own(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> bool:
    summary = snapshot.summary or {}
    added = [summary.get(name, "0") for name in ("added-data-files", "added-delete-files")]
    is_own = (one.added_snapshot_id in (None, snapshot.snapshot_id) for one in manifests)
    return added != ["0", "0"] and not any(is_own)


def _other_totals(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> Iterator[str]:
    """Tell which totals of the summary are not those that a list counts, if any."""
    summary = snapshot.summary or {}
    for name, content, kind in (
        ("total-data-files", ManifestContent.DATA, "files"),
        ("total-delete-files", ManifestContent.DELETES, "files"),
        ("total-records", ManifestContent.DATA, "rows"),
    ):
        counts = [
            getattr(one, f"{status}_{kind}_count")
            for one in manifests
            if one.content is content
            for status in ("added", "existing")
        ]
        if name in summary and None not in counts and str(sum(counts)) != summary[name]:
            yield f"it lists {sum(counts)} as `{name}`, the summary {summary[name]}"
            return


def doubtful_manifests(
    described: Sequence[ManifestFile],
    headers: Sequence[ManifestHeader],
    sizes: Sequence[int],
    rows: RawEntries,
    first: int,
) -> Sequence[int]:
    """Find manifests that something speaks against; `described` are their rows of a list.

    `rows` are those of all of them, with the columns of SCREENED; the first has `manifest` `first`.
    Shape: places in `described`.
    Cost: a pass over numbers.
    """
    table = rows.table
    count, width = len(described), len(_STATUSES)
    places = np.asarray(table["manifest"].to_numpy(), np.int64) - first
    statuses = np.asarray(table["status"].to_numpy(), np.int64)
    at = places * width + statuses
    records = np.asarray(table["record_count"].to_numpy(), np.float64)
    files = np.bincount(at, minlength=count * width).reshape(count, width)
    row_counts = np.bincount(at, records, count * width).reshape(count, width)
    ids = np.asarray(pc.fill_null(table["snapshot_id"], -1).to_numpy(), np.int64)
    added = np.array([one.added_snapshot_id or -1 for one in described], np.int64)
    is_stated = (statuses != Status.EXISTING) & (ids != -1) & (added[places] != -1)
    of_others = np.bincount(places[is_stated & (ids != added[places])], minlength=count)
    return [
        place
        for place, (row, header, size) in enumerate(zip(described, headers, sizes, strict=True))
        if row.manifest_length != size
        or of_others[place]
        or _says_another_kind(row, header)
        or _counts_others(row, files[place].tolist(), row_counts[place].tolist())
    ]


def _says_another_kind(row: ManifestFile, header: ManifestHeader) -> bool:
    if header.spec_id not in (None, row.partition_spec_id):
        return True
    return "content" in header.metadata and header.content is not row.content


def _counts_others(row: ManifestFile, files: Sequence[int], rows: Sequence[float]) -> bool:
    listed = (
        (row.existing_files_count, row.existing_rows_count),
        (row.added_files_count, row.added_rows_count),
        (row.deleted_files_count, row.deleted_rows_count),
    )  # in the order of _STATUSES
    return any(
        stated not in (None, counted)
        for counts, *pair in zip(listed, files, rows, strict=True)
        for stated, counted in zip(counts, pair, strict=True)
    )


def check_own_manifest(
    metadata: TableMetadata,
    row: ManifestFile,
    header: ManifestHeader,
    size_bytes: int,
    rows: RawEntries,
) -> None:
    """Do nothing where a manifest may be the one that a row of a manifest list describes.

    `rows` have the planning columns.
    Raises: OtherFile, by the rule that tells most.
    """
    if metadata.spec(row.partition_spec_id) is None:
        return  # what it should be is not known
    columns = Columns(rows)
    stored = StoredManifest(metadata, [row], header, size_bytes, columns)
    breaches = [(one.rule, one.message) for one in EVIDENCE.findings(stored)]
    if (columns.of("content", Content.DATA) != (row.content is ManifestContent.DATA)).any():
        breaches.append(("R-061", "its entries have another content than the list says"))
    of_other = _of_another_snapshot(columns, row)
    # A header and the entries tell of the content each for itself; several ranges tell the same.
    by_rule = {rule if rule != "R-061" else message: (rule, message) for rule, message in breaches}
    if of_other is not None or len(by_rule) > 1:
        ordered = sorted(by_rule.values(), key=lambda one: _MOST_TELLING.index(one[0]))
        reasons = [] if of_other is None else [of_other]
        reasons += [message for _, message in ordered]
        message = f"it is not the manifest that the list describes: {'; '.join(reasons)}"
        raise OtherFile(message, rule="R-064" if of_other is not None else ordered[0][0])


def _of_another_snapshot(columns: Columns, row: ManifestFile) -> str | None:
    """Tell that all which a manifest says to be added or removed was so by another snapshot."""
    if row.added_snapshot_id is None:
        return None
    changed = columns.of("status", Status.ADDED, Status.DELETED) & columns.present("snapshot_id")
    ids = columns.numbers("snapshot_id")[changed]
    if not len(ids) or (ids == row.added_snapshot_id).any():
        return None
    return f"its entries were added or removed by snapshot {ids[0]}, not {row.added_snapshot_id}"
