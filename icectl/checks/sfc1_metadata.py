"""Rules of the metadata of layout sfc-1; searches that older versions share are theirs."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from icectl.checks.metadata import (
    absent_members,
    current_snapshot_as_minus_1,
    disordered_snapshot_log,
    faults_of_metadata_log,
    gaps_in_snapshot_log,
    relative_table_location,
    repeated_partition_statistics,
    statistics_of_lost_snapshots,
)
from icectl.checks.numbering import (
    absent_added_rows,
    column_ids_above_counter,
    falling_sequence_numbers,
    partition_ids_above_counter,
    row_ids_above_counter,
    sequence_numbers_above_counter,
)
from icectl.checks.objects import CommitBase, MetadataFile
from icectl.checks.rule import Breach, Check, Rule
from icectl.checks.schemas import (
    faults_of_schema_ids,
    faults_of_sort_orders,
    repeated_partition_fields,
    repeated_spec_ids,
    reserved_field_ids,
)
from icectl.checks.snapshots import (
    faults_of_retention,
    lost_refs,
    main_elsewhere,
    unknown_operations,
)
from icectl.format.expressions import HIGHEST_STATS_ID
from icectl.format.properties import PREVIOUS_VERSIONS_MAX
from icectl.format.rule import ENGINE, NEXT_COMMIT, OLDER_METADATA, ROLL_BACK, WRITER
from icectl.format.snapshot import ancestors
from icectl.format.transforms import result_type
from icectl.format.types import PrimitiveType, can_promote, type_text
from icectl.units import read_count

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _roots_before_version_4(base: CommitBase) -> Iterator[Breach]:
    metadata = base.metadata
    rooted = [one for one in metadata.snapshots if one.root_manifest is not None]
    if rooted and metadata.format_version < 4:
        message = (
            f"`format-version` is {metadata.format_version}, but {len(rooted)} snapshots have "
            "a root manifest"
        )
        yield Breach(message)


def _no_uuid(file: MetadataFile) -> Iterator[Breach]:
    if not _UUID.fullmatch(file.metadata.table_uuid or ""):
        yield Breach(f"`table-uuid` is `{file.metadata.table_uuid}`")


def _dropped_members(file: MetadataFile) -> Iterator[Breach]:
    for name in ("schema", "partition-spec"):
        if name in file.members:
            yield Breach(f"`{name}` is present, which version 4 has dropped")


def _long_metadata_log(file: MetadataFile) -> Iterator[Breach]:
    metadata = file.metadata
    stated = read_count(metadata.properties.get(PREVIOUS_VERSIONS_MAX.name))
    limit = PREVIOUS_VERSIONS_MAX.default if stated is None else max(stated, 1)
    if len(metadata.metadata_log) > limit:
        message = f"it has {len(metadata.metadata_log)} entries, {limit} should be kept"
        yield Breach(message, "metadata log")


def _disordered_snapshot_log(file: MetadataFile) -> Iterator[Breach]:
    return (replace(one, severity="warning") for one in disordered_snapshot_log(file))


def _expression_ids(file: MetadataFile) -> Iterator[Breach]:
    columns = {id_ for schema in file.metadata.schemas for id_ in schema.all_fields}
    for id_, times in Counter(one.expr_id for one in file.metadata.expressions).items():
        if times > 1:
            yield Breach(f"id {id_} is used {times} times", "expressions")
        if id_ in columns:
            yield Breach(f"id {id_} is that of a column too", "expressions")


def _expressions(file: MetadataFile) -> Iterator[Breach]:
    """Sources of an expression are columns, and its type is what follows from them."""
    metadata = file.metadata
    for expression in metadata.expressions:
        subject = f"expression {expression.expr_id}"
        columns = [
            [
                column.type
                for schema in reversed(metadata.schemas)
                if (column := schema.field(source_id)) is not None
            ]
            for source_id in expression.source_ids
        ]
        for source_id, types in zip(expression.source_ids, columns, strict=True):
            if not types:
                yield Breach(f"its source column {source_id} is in no schema", subject, "warning")
        if expression.type is None or expression.is_opaque or not all(columns):
            continue
        # The type follows a promotion of its source, but need not follow it at once (sfc-1 X3).
        derived = [result_type(expression.transform, type_) for type_ in columns[0]]
        fits = any(
            type_ is None or can_promote(expression.type, type_, metadata.format_version)
            for type_ in derived
        )
        if not fits:
            wanted = type_text(derived[0] or PrimitiveType("unknown"))
            message = f"it is `{type_text(expression.type)}`, from its transform follows `{wanted}`"
            yield Breach(message, subject)


def _links_to_columns(file: MetadataFile) -> Iterator[Breach]:
    ids = {one.expr_id for one in file.metadata.expressions}
    for spec in file.metadata.partition_specs:
        for field in spec.fields:
            if (field.expr_id or 0) not in ids:
                message = (
                    f"`{field.name}` links to the column {field.expr_id}, not to an expression"
                )
                yield Breach(message, f"partition spec {spec.spec_id}", "warning")


def _without_room_for_statistics(file: MetadataFile) -> Iterator[Breach]:
    expressions = {one.expr_id: one for one in file.metadata.expressions}
    for spec in file.metadata.partition_specs:
        for field in spec.fields:
            expression = expressions.get(field.expr_id or 0)
            stats_id = field.source_ids[0] if expression is None else expression.stats_id
            if stats_id is not None and not 1 <= stats_id <= HIGHEST_STATS_ID:
                message = f"there are no statistics of `{field.name}`, whose id is {stats_id}"
                yield Breach(message, f"partition spec {spec.spec_id}")


def _opaque_transforms(file: MetadataFile) -> Iterator[Breach]:
    opaque = {one.expr_id for one in file.metadata.expressions if one.is_opaque}
    for field in file.metadata.default_spec.fields:
        if field.expr_id in opaque:
            message = f"the transform `{field.transform.text}` of `{field.name}` is not known"
            yield Breach(message, f"partition spec {file.metadata.default_spec_id}")


def _contents(base: CommitBase) -> Iterator[Breach]:
    """A snapshot says in one way what it lists."""
    for snapshot in base.metadata.snapshots:
        named = {
            "root-manifest": snapshot.root_manifest,
            "manifest-list": snapshot.manifest_list,
            "manifests": snapshot.manifests,
        }
        present = [f"`{name}`" for name, value in named.items() if value is not None]
        if len(present) != 1:
            message = f"it has {' and '.join(present) or 'nothing to read'}"
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


def _absent_members(file: MetadataFile) -> Iterator[Breach]:
    for snapshot in file.metadata.snapshots:
        required = {
            "summary": snapshot.summary,
            "schema-id": snapshot.schema_id,
            "first-row-id": snapshot.first_row_id,
            "added-rows": snapshot.added_rows,
            "sequence-number": snapshot.sequence_number or None,
        }
        absent = [f"`{name}`" for name, value in required.items() if value is None]
        if absent and snapshot.root_manifest is not None:
            yield Breach(f"it lacks {', '.join(absent)}", f"snapshot {snapshot.snapshot_id}")


def _lists_after_roots(file: MetadataFile) -> Iterator[Breach]:
    for snapshot in file.metadata.snapshots:
        before = ancestors(file.metadata.snapshots_by_id, snapshot.snapshot_id)
        if snapshot.root_manifest is None:
            rooted = next((one for one in before if one.root_manifest is not None), None)
            if rooted is not None:
                message = f"it has no root, but snapshot {rooted.snapshot_id} before it has"
                yield Breach(message, f"snapshot {snapshot.snapshot_id}")


def _absent_operations(file: MetadataFile) -> Iterator[Breach]:
    for snapshot in file.metadata.snapshots:
        summary = snapshot.summary
        if snapshot.root_manifest and summary is not None and summary.get("operation") is None:
            yield Breach("its summary names no operation", f"snapshot {snapshot.snapshot_id}")


# fmt: off
SFC1_METADATA_RULES = (
    Rule("V4-001", "the format version is 4", "Table metadata", "error", OLDER_METADATA, (
        Check(CommitBase, _roots_before_version_4),
    )),
    Rule("V4-002", "the table has a uuid", "Table metadata", "error", OLDER_METADATA, (
        Check(MetadataFile, _no_uuid),
    )),
    Rule("V4-003", "the metadata has every member that version 4 requires", "Table metadata",
         "error", OLDER_METADATA, (
        Check(MetadataFile, absent_members),
    )),
    Rule("V4-004", "the location of the table is absolute", "Table metadata", "error",
         OLDER_METADATA, (
        Check(MetadataFile, relative_table_location),
    )),
    Rule("V4-005", "`schema` and `partition-spec` are absent", "Table metadata", "warning",
         NEXT_COMMIT, (
        Check(MetadataFile, _dropped_members),
    )),
    Rule("V4-006", "schema ids are unique, as are field ids in each schema", "Table metadata",
         "error", OLDER_METADATA, (
        Check(MetadataFile, reserved_field_ids),
        Check(MetadataFile, faults_of_schema_ids),
    )),
    Rule("V4-007", "spec ids are unique, and the default spec exists", "Table metadata", "error",
         OLDER_METADATA, (
        Check(MetadataFile, repeated_spec_ids),
    )),
    Rule("V4-008", "ids of expressions are unique, and no column has one", "Table metadata",
         "error", OLDER_METADATA, (
        Check(MetadataFile, _expression_ids),
    )),
    Rule("V4-009", "`last-column-id` is at or above every column and expression", "Table metadata",
         "error", "do not write to the table before the counter is corrected", (
        Check(MetadataFile, column_ids_above_counter),
    )),
    Rule("V4-010", "every field of a spec names an expression", "Table metadata", "error",
         OLDER_METADATA, (
        Check(MetadataFile, _links_to_columns),
    )),
    Rule("V4-011", "what a field of a spec says itself is what its expression says",
         "Table metadata", "error", OLDER_METADATA),
    Rule("V4-012", "an expression has its sources, and the type that follows from them",
         "Table metadata", "error", OLDER_METADATA, (
        Check(MetadataFile, _expressions),
    )),
    Rule("V4-013", "expressions of specs have partition field ids of their own", "Table metadata",
         "error", OLDER_METADATA, (
        Check(MetadataFile, repeated_partition_fields),
        Check(MetadataFile, partition_ids_above_counter),
    )),
    Rule("V4-014", "statistics of partition fields have room for their ids", "Table metadata",
         "error", ENGINE, (
        Check(MetadataFile, _without_room_for_statistics),
    )),
    Rule("V4-015", "the default spec has no transform that cannot be computed", "Table metadata",
         "warning", ENGINE, (
        Check(MetadataFile, _opaque_transforms),
    )),
    Rule("V4-016", "sort order ids are unique, and the default order exists", "Table metadata",
         "error", OLDER_METADATA, (
        Check(MetadataFile, faults_of_sort_orders),
    )),
    Rule("V4-017", "`last-sequence-number` is at or above that of every snapshot", "Table metadata",
         "error", "do not write to the table before the counter is corrected", (
        Check(CommitBase, sequence_numbers_above_counter),
    )),
    Rule("V4-018", "`next-row-id` is above the row ids of every snapshot", "Table metadata",
         "error", "do not write to the table before the counter is corrected", (
        Check(CommitBase, row_ids_above_counter),
    )),
    Rule("V4-019", "refs name snapshots that exist, with settings of their kind", "Table metadata",
         "error", OLDER_METADATA, (
        Check(CommitBase, main_elsewhere),
        Check(MetadataFile, lost_refs),
        Check(MetadataFile, faults_of_retention),
    )),
    Rule("V4-020", "the snapshot log ends with the current snapshot, in order", "Table metadata",
         "error", NEXT_COMMIT, (
        Check(MetadataFile, _disordered_snapshot_log),
        Check(MetadataFile, gaps_in_snapshot_log),
    )),
    Rule("V4-021", "no current snapshot is written as absence, not as -1", "Table metadata",
         "warning", NEXT_COMMIT, (
        Check(MetadataFile, current_snapshot_as_minus_1),
    )),
    Rule("V4-022", "the metadata log is bounded and in order", "Table metadata", "warning",
         NEXT_COMMIT, (
        Check(MetadataFile, faults_of_metadata_log),
        Check(MetadataFile, _long_metadata_log),
    )),
    Rule("V4-023", "statistics files belong to snapshots that exist", "Table metadata", "warning",
         "remove the entry with the engine, or expire the snapshot", (
        Check(MetadataFile, statistics_of_lost_snapshots),
        Check(MetadataFile, repeated_partition_statistics),
    )),
    Rule("V4-030", "a snapshot has one of root manifest, manifest list and manifests", "Snapshots",
         "error", OLDER_METADATA, (
        Check(CommitBase, _contents),
    )),
    Rule("V4-031", "snapshots with a root have every member that version 4 requires", "Snapshots",
         "error", OLDER_METADATA, (
        Check(MetadataFile, absent_added_rows),
        Check(MetadataFile, _absent_members),
    )),
    Rule("V4-032", "sequence numbers of snapshots are unique and rise from the parent", "Snapshots",
         "error", ROLL_BACK, (
        Check(MetadataFile, falling_sequence_numbers),
    )),
    Rule("V4-033", "snapshots after one with a root have a root too", "Snapshots", "error",
         ROLL_BACK, (
        Check(MetadataFile, _lists_after_roots),
    )),
    Rule("V4-034", "the operation is one of the four", "Snapshots", "error", WRITER, (
        Check(MetadataFile, unknown_operations),
        Check(MetadataFile, _absent_operations),
    )),
    Rule("V4-035", "`manifest-list` does not name a root", "Snapshots", "warning", WRITER),
)
# fmt: on
