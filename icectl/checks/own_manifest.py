"""Whether a manifest in doubt is the one that its manifest list describes, by the rules.

One breach may be a mistake of a writer, and two tell of another file. The name of another snapshot
proves that alone.
"""

from icectl.checks.columns import Columns
from icectl.checks.objects import StoredManifest
from icectl.checks.rules import RULES
from icectl.entries.rows import RawEntries
from icectl.errors import OtherFile
from icectl.format.manifest import Content, ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata

_EVIDENCE = ("R-061", "R-051", "R-053", "R-044", "R-047", "R-050")
"""Rules whose breach may tell of another manifest, the most telling first."""


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
    breaches = [(one.rule, one.message) for one in RULES.findings(stored, only=_EVIDENCE)]
    if (columns.of("content", Content.DATA) != (row.content is ManifestContent.DATA)).any():
        breaches.append(("R-061", "its entries have another content than the list says"))
    of_other = _of_another_snapshot(columns, row)
    # A header and the entries tell of the content each for itself; several ranges tell the same.
    by_rule = {rule if rule != "R-061" else message: (rule, message) for rule, message in breaches}
    if of_other is not None or len(by_rule) > 1:
        ordered = sorted(by_rule.values(), key=lambda one: _EVIDENCE.index(one[0]))
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
