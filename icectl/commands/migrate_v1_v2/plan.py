"""The plan of taking a table to version 2 or 3, and what forbids it: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.commands.migrate_v1_v2 import version_3
from icectl.commands.upgrade_to_v4.plan import UpgradePlan, conversion
from icectl.entries.rows import (
    Entries,
    live,
    location_keys,
    numbers,
    position_delete_files,
    repeats,
    where,
)
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.format.updates import AssignUuid, SetManifestList, Update, UpgradeFormatVersion
from icectl.table.reviewed import UpgradeStep
from icectl.units import print_count


@dataclass(frozen=True, slots=True)
class Migration:
    """The command, the version that it leads to, and what it does beside."""

    command: str
    to_version: int
    rewrite_manifests: bool = False
    convert_position_deletes: bool = False


@dataclass(frozen=True, slots=True)
class RefHead:
    """The newest snapshot of a ref, with its manifests and their entries.

    `embeds` if the manifests are in no list: the one that a migration writes counts their rows.
    """

    ref: str
    snapshot_id: int
    manifests: tuple[ManifestFile, ...]
    entries: Entries
    embeds: bool = False


def plan(
    metadata: TableMetadata,
    heads: Sequence[RefHead],
    unreadable: Sequence[Finding],
    migration: Migration,
) -> UpgradePlan:
    """Decide what a migration changes; `heads` are those of all refs that can be read, main first.

    Spec: R-010, R-170 to R-175.
    """
    main = next((head for head in heads if head.ref == "main"), None)
    manifests = () if main is None else main.manifests
    rewrites = migration.rewrite_manifests and bool(manifests)
    steps = list(_steps(metadata, migration))
    if rewrites:
        count = print_count(len(manifests), "manifest")
        detail = f"rewrite {count} of the current snapshot as version {migration.to_version}"
        steps.append(UpgradeStep("rewrite-manifests", detail))
    deletes = position_deletes(metadata, heads) if migration.convert_position_deletes else {}
    uncounted = _uncounted(metadata, heads) if migration.to_version == version_3.VERSION else ()
    if uncounted:
        detail = (
            "rewrite the manifests of {} first: their lists lack the counts of rows that row ids "
            "need".format("1 branch" if len(uncounted) == 1 else f"{len(uncounted)} branches")
        )
        steps.insert(0, UpgradeStep("count-rows", detail))
    return UpgradePlan(
        from_version=metadata.format_version,
        steps=(*steps, *conversion(deletes)),
        findings=(*_findings(metadata, heads, migration), *unreadable),
        legacy_manifests=0 if rewrites else len(manifests),
        rewrites_manifests=rewrites,
        branches=tuple(uncounted),
        converted=tuple(deletes),
    )


def _uncounted(metadata: TableMetadata, heads: Sequence[RefHead]) -> Sequence[str]:
    """Return the branches with lists that lack counts of rows."""
    snapshots = {
        head.snapshot_id
        for head in heads
        if not head.embeds and any(map(version_3.is_uncounted, head.manifests))
    }
    return [name for name, ref in _branches(metadata) if ref.snapshot_id in snapshots]


def _branches(metadata: TableMetadata) -> Sequence[tuple[str, SnapshotRef]]:
    """Return the branches, main first."""
    refs = sorted(metadata.refs.items(), key=lambda item: item[0] != "main")
    return [(name, ref) for name, ref in refs if ref.type == "branch"]


def plan_rest(
    metadata: TableMetadata,
    legacy_manifests: int,
    heads: Sequence[RefHead] = (),
    unreadable: Sequence[Finding] = (),
) -> UpgradePlan:
    """Plan what is left to change of a table that has its version.

    That is manifests of version 1 (R-176), and the position deletes of `heads`.
    """
    step = UpgradeStep(
        "rewrite-manifests",
        f"the manifests of the current snapshot are rewritten; version 1 have {legacy_manifests}",
    )
    deletes = position_deletes(metadata, heads)
    return UpgradePlan(
        from_version=metadata.format_version,
        steps=(*((step,) if legacy_manifests else ()), *conversion(deletes)),
        findings=tuple(unreadable),
        rewrites_manifests=legacy_manifests > 0,
        converted=tuple(deletes),
    )


def position_deletes(metadata: TableMetadata, heads: Sequence[RefHead]) -> Mapping[str, int]:
    """Return the number of live position delete files of each branch that has some, main first."""
    counts = {head.snapshot_id: len(position_delete_files(live(head.entries))) for head in heads}
    by_branch = {name: counts.get(ref.snapshot_id, 0) for name, ref in _branches(metadata)}
    return {name: count for name, count in by_branch.items() if count}


def _steps(metadata: TableMetadata, migration: Migration) -> Iterator[UpgradeStep]:
    """Yield the changes of the metadata."""
    if metadata.table_uuid is None:
        yield UpgradeStep("assign-uuid", "the table gets a uuid, which it never had")
    yield UpgradeStep(
        "upgrade-format-version", f"`format-version` becomes {migration.to_version}"
    )
    if metadata.format_version == 1:
        yield from _steps_from_1(metadata)
    if migration.to_version == version_3.VERSION:
        yield UpgradeStep(
            "assign-row-ids",
            "`next-row-id` is 0; rows get ids from the first commit of each branch on",
        )


def _steps_from_1(metadata: TableMetadata) -> Iterator[UpgradeStep]:
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
    embedding = sum(item.embeds_manifests for item in metadata.snapshots)
    if embedding:
        snapshots = print_count(embedding, "snapshot")
        detail = f"manifest lists are written for {snapshots} with embedded manifests"
        yield UpgradeStep("write-manifest-lists", detail)


def _findings(
    metadata: TableMetadata, heads: Sequence[RefHead], migration: Migration
) -> Iterator[Finding]:
    """Return findings that forbid the migration (errors), and notes on it."""
    if migration.to_version == version_3.VERSION:
        yield from version_3.findings_of_metadata(metadata)
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
        if migration.to_version == version_3.VERSION:
            yield from version_3.findings_of_head(
                subject, metadata.format_version, head.manifests, head.entries
            )
            staying = len(position_delete_files(files))
            if staying and not migration.convert_position_deletes:
                message = f"{print_count(staying, 'position delete file')} of version 2 stay valid"
                yield finding("R-175", subject, message)
        if metadata.format_version == 1:
            yield from _numbers(head, subject)
        deletes = [item for item in head.manifests if item.content is ManifestContent.DELETES]
        if deletes and metadata.format_version == 1:
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


def _numbers(head: RefHead, subject: str) -> Iterator[Finding]:
    """Yield sequence numbers that version 1 ignores, and version 2 would take for its own."""
    numbered = [item for item in head.manifests if item.sequence_number]
    if numbered or (numbers(head.entries, "sequence_number") > 0).any():
        message = "its manifests have sequence numbers, which version 2 would count on"
        yield finding("R-048", subject, message, severity="error")


def updates(
    metadata: TableMetadata, lists: Mapping[int, str], new_uuid: str, to_version: int
) -> Sequence[Update]:
    """Return the changes that migrate.

    `lists` has the new manifest list of each embedding snapshot.
    """
    if metadata.format_version >= to_version:
        return ()
    assigned = [AssignUuid(new_uuid)] if metadata.table_uuid is None else []
    listed = [SetManifestList(snapshot_id, place) for snapshot_id, place in lists.items()]
    return (*assigned, UpgradeFormatVersion(to_version), *listed)


def listed_manifests(
    snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> Sequence[ManifestFile]:
    """Rows of a list for manifests that a snapshot embeds: they belong to the snapshot (R-171)."""
    return [
        replace(item, added_snapshot_id=item.added_snapshot_id or snapshot.snapshot_id)
        for item in manifests
    ]
