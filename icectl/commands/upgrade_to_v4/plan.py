"""The plan of turning a table into a version 4 table, and what forbids it: pure (sfc-1 11)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from icectl.checks.rule import Finding
from icectl.format.expressions import HIGHEST_STATS_ID, Expression, link_specs
from icectl.format.layout import LAYOUTS_OF_VERSION_4, Layout, layout_of_table
from icectl.format.locations import is_relative, named_locations
from icectl.format.manifest import ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.rule import Fault, Severity
from icectl.table.reviewed import UpgradeStep
from icectl.units import print_count

TO_VERSION = 4
_HIGHEST_ID = 2_147_483_447

Mode = Literal["lazy", "default", "eager"]
"""The metadata alone; with a root of the current snapshot; with all manifests rewritten."""

RULES = {
    "U-02": "only the engine with the keys can read an encrypted table",
    "U-03": "restore the partition spec, or rewrite the manifests with the engine",
    "U-04": "rewrite the files of that spec with the engine before",
    "U-05": "`--allow-read-only` upgrades all the same: nothing can be written then",
    "U-06": "compact the affected files first, to apply the equality deletes",
    "U-07": "nothing to do: its values are carried on",
    "U-08": "nothing to do: they are read as they are",
    "U-09": "nothing to do: they stay in manifests of the old version",
    "U-10": "`icectl validate TABLE` lists them; compact or repair the table first",
    "U-12": "no ids are left for expressions",
    "U-13": "`icectl validate TABLE` says what is wrong with it",
    "U-14": "`icectl compact TABLE --rewrite-all` rewrites such files, before or after",
    "U-15": "`icectl compact TABLE --deletes-only` makes deletion vectors of them, before",
    "U-16": "nothing to do: no file is partitioned by it",
    "U-17": "`icectl relocate TABLE --to FOLDER`, with the table's whole path, names files in full",
    "U-18": "`icectl repair TABLE` corrects counts and ranges first",
}
"""The next step where a condition of sfc-1 11.3 does not hold."""


@dataclass(frozen=True, slots=True)
class UpgradeOptions:
    """The options of an upgrade: how much to convert, and which branch gets a root if not all do.

    With `convert_position_deletes` position delete files become deletion vectors (sfc-1 11.5).
    """

    mode: Mode
    branch: str = "main"
    allow_read_only: bool = False
    convert_position_deletes: bool = False
    layout: Layout = Layout.SFC_1


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The newest snapshot of a branch: its manifests with their headers, and facts of its files.

    A root lists so many `legacy_leaves`, manifests of older versions whose entries leaves can hold.
    Of `fixed_leaves` they can't (sfc-1 C-30, X6).
    `spec_ids` are those of live files, `relative` are locations without a scheme. Position delete
    files are counted, and `equality_deletes` are the places of manifests that list such.
    `miscounted` are live files whose columns have other counts of values than rows, `unsound` says
    of others why they can't be. `misdescribed` is a manifest that its list describes wrongly.
    `unreadable` says why nothing is known of the files. No root can list manifests of `foreign`,
    those in Parquet; `unmovable` is one of them with live position delete files, which no leaf can
    have.
    """

    branch: str
    snapshot_id: int
    manifests: tuple[ManifestFile, ...] = ()
    headers: tuple[ManifestHeader, ...] = ()
    has_root: bool = False
    spec_ids: frozenset[int] = frozenset()
    relative: Fault | None = None
    position_delete_files: int = 0
    equality_deletes: tuple[int, ...] = ()
    legacy_leaves: int = 0
    fixed_leaves: int = 0
    miscounted: Fault | None = None
    unsound: tuple[str, ...] = ()
    misdescribed: Finding | None = None
    foreign: tuple[str, ...] = ()
    unmovable: str | None = None
    unreadable: str | None = None

    @property
    def listed(self) -> Sequence[ManifestFile]:
        """Manifests that a root lists, or that are rewritten as leaves (sfc-1 C-36)."""
        return [item for item in self.manifests if item.live_files != 0]

    @property
    def legacy_count(self) -> int:
        """Manifests of older versions that a root may list as they are."""
        return sum(item.manifest_path not in self.foreign for item in self.listed)


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """One upgrade; nothing is done where it has no steps, or an error among its findings.

    `legacy_manifests` counts manifests of older versions that stay in the current snapshot, unless
    the upgrade to version 2 `rewrites_manifests`. Before the upgrade to version 3 the manifests of
    `branches` are rewritten, as their lists lack counts of rows. In version 4 `branches` get a
    snapshot with a root, in this order. Then the position delete files of `converted` branches
    become deletion vectors. With `changes_layout` the table is of version 4 already, in another
    layout.
    """

    from_version: int
    steps: tuple[UpgradeStep, ...] = ()
    findings: tuple[Finding, ...] = ()
    legacy_manifests: int = 0
    rewrites_manifests: bool = False
    mode: Mode = "default"
    layout: Layout = Layout.MANIFEST_LISTS
    branches: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    changes_layout: bool = False

    @property
    def has_work(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.steps)

    @property
    def forbidding(self) -> tuple[Finding, ...]:
        """The findings that forbid the upgrade."""
        return tuple(item for item in self.findings if item.severity == "error")


def plan(
    metadata: TableMetadata, heads: Sequence[BranchHead], options: UpgradeOptions
) -> UpgradePlan:
    """Decide what an upgrade changes; `heads` are those of all branches.

    Spec: sfc-1 11.1 to 11.5; a table of version 4 only gets the roots that it lacks.
    """
    mode, branch, convert = options.mode, options.branch, options.convert_position_deletes
    steps = list(_metadata_steps(metadata, options.layout))
    lacking = [head.branch for head in heads if not head.has_root]
    branches: list[str] = []
    if mode == "default":
        branches = [name for name in lacking if name == branch]
    elif mode == "eager":
        branches = [head.branch for head in heads if not head.has_root or head.legacy_leaves]
    manifests = sum(
        head.legacy_leaves if head.has_root else len(head.listed) - head.fixed_leaves
        for head in heads
        if head.branch in branches
    )
    if branches and mode == "default":
        foreign = sum(len(head.foreign) for head in heads if head.branch in branches)
        detail = f"branch {branch} gets a root that lists its {print_count(manifests, 'manifest')}"
        anew = f", {foreign:,} of them rewritten as leaves" if foreign else ""
        steps.append(UpgradeStep("write-root", detail + anew))
    elif branches:
        detail = f"rewrite {print_count(manifests, 'manifest')} as leaves, in {_branches(branches)}"
        steps.append(UpgradeStep("rewrite-manifests", detail))
    counts = {head.branch: head.position_delete_files for head in heads}
    converted = [name for name, count in counts.items() if convert and count]
    steps += conversion({name: counts[name] for name in converted})
    current = next((head for head in heads if head.branch == branch), None)
    findings = list(_findings(metadata, heads, options)) if steps else []
    if convert:
        findings = [item for item in findings if item.rule != "U-09"]
    staying = 0
    if current is not None and mode == "eager":
        staying = 0 if convert else current.fixed_leaves
    elif current is not None:
        staying = current.legacy_count
    return UpgradePlan(
        metadata.format_version,
        tuple(steps),
        tuple(findings),
        staying,
        mode=mode,
        layout=options.layout,
        branches=tuple(branches),
        converted=tuple(converted),
        changes_layout=_changes_layout(metadata, options.layout),
    )


def plan_with_lists(
    metadata: TableMetadata,
    heads: Sequence[BranchHead],
    options: UpgradeOptions,
    leaf_count: int = 0,
) -> UpgradePlan:
    """Decide what an upgrade to version 4 as Iceberg 1.12 writes it changes: metadata, manifests.

    Manifests in Avro stay valid there; eager upgrades rewrite them in Parquet. Roots become
    manifest lists: of a table in layout sfc-1 they list so many leaves.
    """
    steps = list(_metadata_steps(metadata, options.layout))
    rooted = sum(snapshot.root_manifest is not None for snapshot in metadata.snapshots)
    if rooted:
        detail = f"{print_count(rooted, 'snapshot')} with manifest lists instead of roots"
        leaves = "1 leaf" if leaf_count == 1 else f"{leaf_count:,} leaves"
        steps.append(UpgradeStep("write-manifest-lists", f"{detail}, of {leaves}"))
    lacking = [
        head
        for head in heads
        if options.mode == "eager"
        and any(header.format_version < TO_VERSION for header in head.headers)
    ]
    if lacking:
        count = sum(len(head.manifests) for head in lacking)
        detail = f"rewrite {print_count(count, 'manifest')} in Parquet, in {_branches(lacking)}"
        steps.append(UpgradeStep("rewrite-manifests", detail))
    findings = [*_encryption_findings(metadata, heads), *_relative_findings(metadata, heads)]
    changes_layout = _changes_layout(metadata, options.layout)
    if metadata.format_version < TO_VERSION:
        findings += _embedding(metadata)
    elif changes_layout:
        findings += _embedding(metadata)
        linked = {item.expr_id for spec in metadata.partition_specs for item in spec.fields}
        lost = [item for item in metadata.expressions if item.expr_id not in linked]
        if lost:  # the layout has no place for them
            expressions = print_count(len(lost), "expression")
            message = f"{expressions} without a partition spec would be lost"
            subject = f"expression `{lost[0].name}`"
            findings.append(_finding("U-16", subject, message, "warning"))
    current = next((head for head in heads if head.branch == options.branch), None)
    return UpgradePlan(
        metadata.format_version,
        tuple(steps),
        tuple(findings) if steps else (),
        0 if current is None or lacking or current.has_root else len(current.manifests),
        mode=options.mode,
        layout=options.layout,
        branches=tuple(head.branch for head in lacking),
        changes_layout=changes_layout,
    )


def _embedding(metadata: TableMetadata) -> Iterator[Finding]:
    """Check that every snapshot has a manifest list (R-055)."""
    embedding = [
        snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.manifests is not None
    ]
    if embedding:
        snapshots = print_count(len(embedding), "snapshot")
        message = f"manifests are embedded in {snapshots}, as only version 1 may"
        hint = "`icectl migrate-v1-v2 TABLE` gives them manifest lists"
        if metadata.format_version >= TO_VERSION:
            hint = (
                "`icectl upgrade-to-v4 TABLE` gives the head of a branch a root, and `icectl"
                " expire-snapshots TABLE` drops older ones"
            )
        yield Finding("R-055", "error", f"snapshot {embedding[0]}", message, hint)


def _changes_layout(metadata: TableMetadata, layout: Layout) -> bool:
    return metadata.format_version >= TO_VERSION and layout_of_table(metadata) is not layout


def _metadata_steps(metadata: TableMetadata, layout: Layout) -> Iterator[UpgradeStep]:
    """Yield the changes of the metadata; none if the table has this layout already."""
    if _changes_layout(metadata, layout):
        name = next(name for name, item in LAYOUTS_OF_VERSION_4.items() if item is layout)
        yield UpgradeStep("change-layout", f"the table becomes one of layout {name}")
        if layout is Layout.SFC_1:
            yield from _expression_steps(metadata)
    if metadata.format_version >= TO_VERSION:
        return
    if metadata.table_uuid is None:
        yield UpgradeStep("assign-uuid", "the table gets a uuid, which it never had")
    yield UpgradeStep("upgrade-format-version", f"`format-version` becomes {TO_VERSION}")
    if layout is Layout.SFC_1:
        yield from _expression_steps(metadata)
    if metadata.format_version < 3:
        yield UpgradeStep("assign-row-ids", "rows get ids from the first commit of each branch on")


def conversion(counts: Mapping[str, int]) -> Sequence[UpgradeStep]:
    """Return the step that makes vectors of position delete files, counted by branch, if any."""
    if not counts:
        return ()
    files = print_count(sum(counts.values()), "position delete file")
    detail = f"replace {files} with deletion vectors, a commit per branch"
    return (UpgradeStep("convert-position-deletes", detail),)


def _branches(branches: Sequence[object]) -> str:
    return "1 branch" if len(branches) == 1 else f"{len(branches):,} branches"


def _expression_steps(metadata: TableMetadata) -> Iterator[UpgradeStep]:
    expressions = _expressions(metadata)
    if expressions:
        count = print_count(len(expressions), "expression")
        detail = f"make {count} of partition fields, with ids up to {expressions[-1].expr_id}"
        yield UpgradeStep("write-expressions", detail)
    if not expressions and metadata.current_schema.fields:
        detail = "a partition spec that no file has keeps engines away that would drop expressions"
        yield UpgradeStep("write-guard-spec", detail)


def _expressions(metadata: TableMetadata) -> Sequence[Expression]:
    specs, schemas = metadata.partition_specs, metadata.schemas
    _, expressions = link_specs(specs, schemas, metadata.last_column_id)
    return expressions


# -- what forbids it ------------------------------------------------------------------------------


def _findings(
    metadata: TableMetadata, heads: Sequence[BranchHead], options: UpgradeOptions
) -> Iterator[Finding]:
    yield from _encryption_findings(metadata, heads)
    yield from _relative_findings(metadata, heads)
    if metadata.format_version < TO_VERSION or _changes_layout(metadata, Layout.SFC_1):
        expressions = _expressions(metadata)
        yield from _ids(metadata, heads, expressions)
        opaque = {(item.partition_field_id, item.name) for item in expressions if item.is_opaque}
        severity: Severity = "warning" if options.allow_read_only else "error"
        for field in metadata.default_spec.fields:
            if (field.field_id, field.name) in opaque:  # sfc-1 U-05
                transform = field.transform.text
                message = f"the transform `{transform}` of `{field.name}` can't be computed"
                subject = f"partition spec {metadata.default_spec_id}"
                yield _finding("U-05", subject, message, severity)
        for spec in metadata.partition_specs:
            for field in spec.fields:
                columns = (schema.field(field.source_ids[0]) for schema in metadata.schemas)
                if all(column is None for column in columns):  # sfc-1 U-07
                    message = f"the column that `{field.name}` was made of is gone"
                    yield _finding("U-07", f"partition spec {spec.spec_id}", message, "warning")
    embedding = [
        snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.manifests is not None
    ]
    if embedding:  # sfc-1 U-08
        message = f"manifests stay embedded in {print_count(len(embedding), 'snapshot')}"
        yield _finding("U-08", f"snapshot {embedding[0]}", message, "warning")
    for head in heads:
        if not head.has_root:
            yield from _head(metadata, head)


def _finding(rule: str, subject: str, message: str, severity: Severity = "error") -> Finding:
    return Finding(rule, severity, subject, message, RULES[rule])


def _encryption_findings(metadata: TableMetadata, heads: Sequence[BranchHead]) -> Iterator[Finding]:
    """Yield findings of encryption, which forbids the upgrade (sfc-1 U-02)."""
    for snapshot in metadata.snapshots:
        if snapshot.key_id is not None:
            yield _finding("U-02", f"snapshot {snapshot.snapshot_id}", "it has a `key-id`")
            return
    if metadata.properties.get("encryption.key-id"):
        yield _finding("U-02", "table properties", "`encryption.key-id` is set")
    for head in heads:
        for manifest in head.manifests:
            if manifest.key_metadata is not None:
                yield _finding("U-02", manifest.manifest_path, "it has key metadata")
                return


def _relative_findings(metadata: TableMetadata, heads: Sequence[BranchHead]) -> Iterator[Finding]:
    """Yield findings of relative locations, which version 4 takes in another way (sfc-1 U-17)."""
    if metadata.format_version >= TO_VERSION:
        return
    named = list(filter(is_relative, named_locations(metadata)))
    relative = {"table metadata": Fault(len(named), named[0]) if named else None}
    relative |= {f"branch {head.branch}": head.relative for head in heads if not head.has_root}
    for subject, found in relative.items():
        if found is not None:
            message = (
                f"{print_count(found.count, 'relative location')} in it, which version 4 looks for "
                f"below the table; one is `{found.location}`"
            )
            yield _finding("U-17", subject, message)


def _ids(
    metadata: TableMetadata, heads: Sequence[BranchHead], expressions: Sequence[Expression]
) -> Iterator[Finding]:
    """Check that every expression has an id, and room for its statistics (sfc-1 U-04, U-12)."""
    if expressions and expressions[-1].expr_id > _HIGHEST_ID:  # sfc-1 U-12
        message = f"its expressions would need ids up to {expressions[-1].expr_id}"
        yield _finding("U-12", "`last-column-id`", message)
    by_id = {expression.expr_id: expression for expression in expressions}
    specs, _ = link_specs(metadata.partition_specs, metadata.schemas, metadata.last_column_id)
    used = {metadata.default_spec_id}.union(*(head.spec_ids for head in heads))
    for spec in specs:
        for item in spec.fields if spec.spec_id in used else ():
            number = None if item.expr_id is None else by_id[item.expr_id].stats_id
            if number is not None and not 1 <= number <= HIGHEST_STATS_ID:  # sfc-1 U-04
                message = f"statistics of `{item.name}` would need the id {number}"
                yield _finding("U-04", f"partition spec {spec.spec_id}", message)


def _head(metadata: TableMetadata, head: BranchHead) -> Iterator[Finding]:
    subject = f"branch {head.branch}"
    if head.unreadable is not None:  # sfc-1 U-13
        yield _finding("U-13", subject, head.unreadable)
        return
    for manifest in head.manifests:
        if metadata.spec(manifest.partition_spec_id) is None:  # sfc-1 U-03
            message = f"it is of spec {manifest.partition_spec_id}, which does not exist"
            yield _finding("U-03", manifest.manifest_path, message)
            return
    if head.misdescribed is not None:  # sfc-1 U-18
        yield _finding("U-18", head.misdescribed.subject, head.misdescribed.message)
    yield from _equality_deletes(metadata, head)
    count = head.position_delete_files
    if count:  # sfc-1 U-09
        stay = "stays" if count == 1 else "stay"
        message = (
            f"{print_count(count, 'position delete file')} {stay} in manifests of their version"
        )
        yield _finding("U-09", subject, message, "info")
    if head.unmovable is not None:  # sfc-1 U-15
        message = "it is in Parquet, and lists position delete files, which no leaf can have"
        yield _finding("U-15", head.unmovable, message)
    if head.miscounted is not None:  # sfc-1 U-14
        message = (
            f"{print_count(head.miscounted.count, 'file')} of other counts of values than of rows, "
            f"which version 4 calls an error (V4-145); one is `{head.miscounted.location}`"
        )
        yield _finding("U-14", subject, message, "warning")
    for message in head.unsound:  # sfc-1 U-10
        yield _finding("U-10", subject, message)


def _equality_deletes(metadata: TableMetadata, head: BranchHead) -> Iterator[Finding]:
    """The partitions of equality deletes can be told from their manifests (sfc-1 U-06)."""
    for at in head.equality_deletes:
        manifest, header = head.manifests[at], head.headers[at]
        spec = metadata.spec(manifest.partition_spec_id)
        if spec is None or spec.is_unpartitioned:
            continue
        stored = {number for number, _ in header.partition_record}
        types = result_types(spec, metadata.schemas)
        for item, type_ in zip(spec.fields, types, strict=True):
            is_lost = item.field_id not in stored and None not in stored
            if type_ is None or is_lost:  # sfc-1 U-06
                what = "has no known type" if type_ is None else "is not stored"
                message = f"it has equality deletes whose partition value `{item.name}` {what}"
                yield _finding("U-06", manifest.manifest_path, message)
                break
