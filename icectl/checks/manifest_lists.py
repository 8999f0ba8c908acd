"""Checks of manifest lists: their rows against the snapshot and the table."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from icectl.checks.finding import Finding, finding
from icectl.checks.identity import put_back_id
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot

_COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count",
    "existing_rows_count", "deleted_rows_count",
)  # fmt: skip


def check_manifest_list(
    metadata: TableMetadata,
    snapshot: Snapshot,
    properties: Mapping[str, str] | None,
    manifests: Sequence[ManifestFile],
) -> Iterator[Finding]:
    """Check a snapshot's rows of manifests by themselves.

    `properties` is the key-value metadata of the list, None where the snapshot embeds manifests.
    Spec: R-041, R-047, R-048, R-050 to R-054, R-056, R-102, R-120, R-171.
    """
    subject = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
    yield from _properties(snapshot, properties, subject)
    for location, times in Counter(item.manifest_path for item in manifests).items():
        if times > 1:
            yield finding("R-050", subject, f"it lists `{location}` {times} times")
    is_put_back = put_back_id(metadata, snapshot, properties) is not None
    for manifest in manifests:
        yield from _numbers(metadata, snapshot, manifest, is_put_back=is_put_back)
        yield from _row(metadata, manifest, is_listed=properties is not None)
    yield from _left_over(snapshot, manifests, subject)
    yield from _row_ids(metadata, snapshot, manifests, subject)


def _properties(
    snapshot: Snapshot, properties: Mapping[str, str] | None, subject: str
) -> Iterator[Finding]:
    if properties is None:
        return
    for name, expected in (
        ("snapshot-id", snapshot.snapshot_id),
        ("sequence-number", snapshot.sequence_number),
    ):
        stored = properties.get(name)
        if stored is not None and stored != str(expected):
            message = f"its header says `{name}` {stored}, the snapshot {expected}"
            yield finding("R-054", subject, message)


def _row(metadata: TableMetadata, manifest: ManifestFile, *, is_listed: bool) -> Iterator[Finding]:
    subject = manifest.manifest_path
    if manifest.manifest_length < 0:
        yield finding("R-050", subject, f"its length is {manifest.manifest_length}")
    spec = metadata.spec(manifest.partition_spec_id)
    if spec is None:
        message = f"its partition spec {manifest.partition_spec_id} is not in `partition-specs`"
        yield finding("R-052", subject, message)
    elif manifest.partitions is not None and len(manifest.partitions) != len(spec.fields):
        message = (
            f"it has summaries of {len(manifest.partitions)} partition fields, its spec "
            f"{manifest.partition_spec_id} has {len(spec.fields)}"
        )
        yield finding("R-053", subject, message)
    if metadata.format_version == 1 and manifest.content is ManifestContent.DELETES:
        yield finding("R-120", subject, "it holds deletes in a table of version 1")
    counts = [getattr(manifest, name) for name in _COUNTS]
    if any(count is not None and count < 0 for count in counts):
        yield finding("R-051", subject, "one of its counts is negative")
    if metadata.format_version > 1 and manifest.sequence_number and None in counts:
        message = "its row in the manifest list lacks counts, which version 2 requires"
        yield finding("R-171", subject, message, severity="warning")
    if is_listed and manifest.added_snapshot_id is None:
        message = "its row in the manifest list does not say which snapshot added it"
        yield finding("R-050", subject, message, severity="warning")


def _numbers(
    metadata: TableMetadata, snapshot: Snapshot, manifest: ManifestFile, *, is_put_back: bool
) -> Iterator[Finding]:
    """Sequence numbers of a row: not above the snapshot's, which its own manifests have (R-041)."""
    subject = manifest.manifest_path
    number = manifest.sequence_number
    if metadata.format_version == 1:
        if number or manifest.min_sequence_number:
            message = f"it has the sequence number {number} in a table of version 1"
            yield finding("R-048", subject, message, severity="warning")
        return
    if number > snapshot.sequence_number:
        message = (
            f"its sequence number {number} is above that of snapshot {snapshot.snapshot_id}, "
            f"{snapshot.sequence_number}"
        )
        yield finding("R-041", subject, message)
    elif manifest.added_snapshot_id == snapshot.snapshot_id and number != snapshot.sequence_number:
        message = (
            f"snapshot {snapshot.snapshot_id} added it, but its sequence number is {number}, "
            f"not {snapshot.sequence_number}"
        )
        yield finding("R-041", subject, message, severity="info" if is_put_back else None)
    if manifest.min_sequence_number > number:
        message = (
            f"its least sequence number {manifest.min_sequence_number} is above its own, {number}"
        )
        yield finding("R-047", subject, message)


def _left_over(
    snapshot: Snapshot, manifests: Sequence[ManifestFile], subject: str
) -> Iterator[Finding]:
    """Find manifests that only tell what an older snapshot removed (R-056)."""
    found = [
        item.manifest_path
        for item in manifests
        if item.added_files_count == item.existing_files_count == 0
        and item.added_snapshot_id != snapshot.snapshot_id
    ]
    if found:
        message = (
            f"{len(found)} of its {len(manifests)} manifests hold nothing but deleted entries of "
            f"older snapshots; the first is `{found[0]}`"
        )
        yield finding("R-056", subject, message)


def _row_ids(
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    subject: str,
) -> Iterator[Finding]:
    """Check that from version 3 on data manifests of a new snapshot have a first row id (R-102)."""
    if metadata.format_version < 3 or snapshot.first_row_id is None:
        return
    lacking = [
        item.manifest_path
        for item in manifests
        if item.content is ManifestContent.DATA and item.first_row_id is None
    ]
    if lacking:
        message = f"{len(lacking)} data manifests have no first row id; the first is `{lacking[0]}`"
        yield finding("R-102", subject, message)
    for manifest in manifests:
        if manifest.first_row_id is None:
            continue
        if manifest.content is ManifestContent.DELETES:
            message = "it holds deletes, but has a first row id"
            yield finding("R-102", manifest.manifest_path, message, severity="warning")
        elif metadata.next_row_id is not None and manifest.first_row_id > metadata.next_row_id:
            message = (
                f"its first row id {manifest.first_row_id} is above `next-row-id`, "
                f"{metadata.next_row_id}"
            )
            yield finding("R-102", manifest.manifest_path, message)
