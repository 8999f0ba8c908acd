"""The plan of turning a version 1 table into a version 2 table, and what forbids it: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.commands.upgrade_to_v4.plan import UpgradePlan
from icectl.entries.rows import Entries, live, location_keys, repeats, where
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.format.updates import AssignUuid, SetManifestList, Update, UpgradeFormatVersion
from icectl.table.reviewed import UpgradeStep
from icectl.units import print_count

TO_VERSION = 2


@dataclass(frozen=True, slots=True)
class RefHead:
    """The newest snapshot of a ref, with its manifests and their entries."""

    ref: str
    snapshot_id: int
    manifests: tuple[ManifestFile, ...]
    entries: Entries


def plan(
    metadata: TableMetadata,
    heads: Sequence[RefHead],
    unreadable: Sequence[Finding],
    *,
    rewrite_manifests: bool,
) -> UpgradePlan:
    """Decide what a migration changes; `heads` are those of all refs that can be read, main first.

    Spec: R-010, R-170 to R-173.
    """
    embedding = tuple(item.snapshot_id for item in metadata.snapshots if item.embeds_manifests)
    main = next((head for head in heads if head.ref == "main"), None)
    manifests = () if main is None else main.manifests
    rewrites = rewrite_manifests and bool(manifests)
    return UpgradePlan(
        from_version=metadata.format_version,
        steps=tuple(_steps(metadata, embedding, len(manifests), rewrites=rewrites)),
        findings=(*unreadable, *_findings(metadata, heads)),
        legacy_manifests=0 if rewrites else len(manifests),
        rewrites_manifests=rewrites,
    )


def plan_rest(metadata: TableMetadata, legacy_manifests: int) -> UpgradePlan:
    """Plan what is left to change of a table from version 2 on: manifests of version 1 (R-176)."""
    step = UpgradeStep(
        "rewrite-manifests",
        f"the manifests of the current snapshot are rewritten; version 1 have {legacy_manifests}",
    )
    return UpgradePlan(
        from_version=metadata.format_version,
        steps=(step,) if legacy_manifests else (),
        rewrites_manifests=legacy_manifests > 0,
    )


def _steps(
    metadata: TableMetadata, embedding: Sequence[int], manifest_count: int, *, rewrites: bool
) -> Iterator[UpgradeStep]:
    if metadata.table_uuid is None:
        yield UpgradeStep("assign-uuid", "the table gets a uuid, which it never had")
    yield UpgradeStep("upgrade-format-version", "`format-version` becomes 2")
    yield UpgradeStep(
        "write-schemas",
        "`schema` and `partition-spec` become lists "
        f"({print_count(len(metadata.schemas), 'schema')}, "
        f"{print_count(len(metadata.partition_specs), 'partition spec')}, "
        f"{print_count(len(metadata.sort_orders), 'sort order')})",
    )
    fields = sum(len(spec.fields) for spec in metadata.partition_specs)
    if fields:
        detail = f"the ids of {print_count(fields, 'partition field')} are written out, up to "
        yield UpgradeStep("write-partition-field-ids", f"{detail}{metadata.last_partition_id}")
    detail = (
        "`last-sequence-number` is 0, and so are the sequence numbers of "
        f"{print_count(len(metadata.snapshots), 'snapshot')}"
    )
    yield UpgradeStep("write-sequence-numbers", detail)
    if embedding:
        snapshots = print_count(len(embedding), "snapshot")
        detail = f"manifest lists are written for {snapshots} with embedded manifests"
        yield UpgradeStep("write-manifest-lists", detail)
    if rewrites:
        manifests = print_count(manifest_count, "manifest")
        detail = f"rewrite {manifests} of the current snapshot as version 2"
        yield UpgradeStep("rewrite-manifests", detail)


def _findings(metadata: TableMetadata, heads: Sequence[RefHead]) -> Iterator[Finding]:
    """Return findings that forbid the migration (errors), and notes on it."""
    for field in metadata.default_spec.fields:
        if field.transform.name == "unknown":
            message = f"the transform `{field.transform.text}` of `{field.name}` is not known"
            subject = f"partition spec {metadata.default_spec_id}"
            yield finding("R-007", subject, message, severity="error")
    for head in heads:
        subject = f"snapshot {head.snapshot_id}"
        files = live(head.entries)
        again = where(files, repeats(location_keys(files.table["location"])))
        if len(again):
            location = again.table["location"][0].as_py()
            message = (
                f"{print_count(len(again), 'file')} live more than once; the first is `{location}`"
            )
            yield finding("R-066", subject, message)
        deletes = [item for item in head.manifests if item.content is ManifestContent.DELETES]
        if deletes:
            count = print_count(len(deletes), "manifest")
            message = f"it has {count} of deletes, which version 1 does not know"
            yield finding("R-120", subject, message)
    meanings: dict[int, set[tuple[tuple[int, ...], str]]] = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if field.transform.name != "void":
                meaning = field.source_ids, field.transform.text
                meanings.setdefault(field.field_id, set()).add(meaning)
    shared = sorted(id_ for id_, names in meanings.items() if len(names) > 1)
    if shared:
        message = f"field ids {shared} have different meanings in different specs; that stays so"
        yield finding("R-077", "partition specs", message, severity="info")


def updates(metadata: TableMetadata, lists: Mapping[int, str], new_uuid: str) -> Sequence[Update]:
    """Return the changes that migrate.

    `lists` has the new manifest list of each embedding snapshot.
    """
    if metadata.format_version >= TO_VERSION:
        return ()
    assigned = [AssignUuid(new_uuid)] if metadata.table_uuid is None else []
    listed = [SetManifestList(snapshot_id, place) for snapshot_id, place in lists.items()]
    return (*assigned, UpgradeFormatVersion(TO_VERSION), *listed)


def listed_manifests(
    snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> Sequence[ManifestFile]:
    """Rows of a list for manifests that a snapshot embeds: they belong to the snapshot (R-171)."""
    return [
        replace(item, added_snapshot_id=item.added_snapshot_id or snapshot.snapshot_id)
        for item in manifests
    ]
