"""Rules of the metadata of layout sfc-1; searches that older versions share are theirs."""

import re
from collections.abc import Iterator

from icectl.checks.metadata import (
    DISORDERED_SNAPSHOT_LOG,
    METADATA_LOG,
    MINUS_1,
    RELATIVE_LOCATION,
    REPEATED_PARTITION_STATISTICS,
    absent_members,
    gaps_in_snapshot_log,
    wrong_statistics,
)
from icectl.checks.numbering import (
    ABSENT_ADDED_ROWS,
    SNAPSHOT_NUMBERS,
    column_ids_above_counter,
    partition_ids_above_counter,
    row_ids_above_counter,
    sequence_numbers_above_counter,
)
from icectl.checks.objects import CommitBase, MetadataFile, in_partition_fields, in_snapshots
from icectl.checks.rule import Breach, Check, at_most_once, of_object, rule
from icectl.checks.schemas import (
    REPEATED_PARTITION_FIELDS,
    REPEATED_SPEC_IDS,
    RESERVED_IDS,
    SCHEMA_IDS,
    UNKNOWN_TRANSFORM,
    faults_of_sort_orders,
)
from icectl.checks.snapshots import LOST_REFS, RETENTION, UNKNOWN_OPERATIONS, main_elsewhere
from icectl.format.expressions import HIGHEST_STATS_ID, Expression
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.properties import PREVIOUS_VERSIONS_MAX
from icectl.format.rule import COUNTER, ENGINE, NEXT_COMMIT, OLDER_METADATA, ROLL_BACK, WRITER
from icectl.format.snapshot import ancestors
from icectl.format.transforms import result_type
from icectl.format.types import PrimitiveType, can_promote, type_text
from icectl.units import read_count

_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _roots_before_version_4(base: CommitBase) -> Iterator[Breach]:
    metadata = base.metadata
    rooted = [snapshot for snapshot in metadata.snapshots if snapshot.root_manifest is not None]
    if rooted and metadata.format_version < 4:
        yield Breach(
            f"`format-version` is {metadata.format_version}, but {len(rooted)} snapshots have "
            "a root manifest"
        )


def _long_metadata_log(file: MetadataFile) -> Iterator[Breach]:
    metadata = file.metadata
    stated = read_count(metadata.properties.get(PREVIOUS_VERSIONS_MAX.name))
    limit = PREVIOUS_VERSIONS_MAX.default if stated is None else max(stated, 1)
    if len(metadata.metadata_log) > limit:
        message = f"it has {len(metadata.metadata_log)} entries, {limit} should be kept"
        yield Breach(message, "metadata log")


def _ids_of_columns(file: MetadataFile) -> Iterator[Breach]:
    columns = {id_ for schema in file.metadata.schemas for id_ in schema.all_fields}
    for id_ in dict.fromkeys(expression.expr_id for expression in file.metadata.expressions):
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


def _expression_of(field: PartitionField, metadata: TableMetadata) -> Expression | None:
    return next(
        (expression for expression in metadata.expressions if expression.expr_id == field.expr_id),
        None,
    )


def _without_room_for_statistics(file: MetadataFile) -> Iterator[Breach]:
    for spec in file.metadata.partition_specs:
        for field in spec.fields:
            expression = _expression_of(field, file.metadata)
            stats_id = field.source_ids[0] if expression is None else expression.stats_id
            if stats_id is not None and not 1 <= stats_id <= HIGHEST_STATS_ID:
                message = f"there are no statistics of `{field.name}`, whose id is {stats_id}"
                yield Breach(message, f"partition spec {spec.spec_id}")


def _is_opaque(field: PartitionField, spec: PartitionSpec, metadata: TableMetadata) -> bool:
    """Return whether a field of the default spec has a transform that cannot be computed."""
    expression = _expression_of(field, metadata)
    is_default = spec.spec_id == metadata.default_spec_id
    return is_default and expression is not None and expression.is_opaque


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


# fmt: off
SFC1_METADATA_RULES = (
    rule("V4-001", "the format version is 4", "Table metadata", "error", OLDER_METADATA,
         Check(CommitBase, _roots_before_version_4)),
    rule("V4-002", "the table has a uuid", "Table metadata", "error", OLDER_METADATA,
         of_object(MetadataFile, "`table-uuid` is `{one.metadata.table_uuid}`",
                   lambda one: not _UUID.fullmatch(one.metadata.table_uuid or ""))),
    rule("V4-003", "the metadata has every member that version 4 requires", "Table metadata",
         "error", OLDER_METADATA, Check(MetadataFile, absent_members)),
    rule("V4-004", "the location of the table is absolute", "Table metadata", "error",
         OLDER_METADATA, RELATIVE_LOCATION),
    rule("V4-005", "`schema` and `partition-spec` are absent", "Table metadata", "warning",
         NEXT_COMMIT,
         of_object(MetadataFile, "`schema` is present, which version 4 has dropped",
                   lambda one: "schema" in one.members),
         of_object(MetadataFile, "`partition-spec` is present, which version 4 has dropped",
                   lambda one: "partition-spec" in one.members)),
    rule("V4-006", "schema ids are unique, as are field ids in each schema", "Table metadata",
         "error", OLDER_METADATA, RESERVED_IDS, *SCHEMA_IDS),
    rule("V4-007", "spec ids are unique, and the default spec exists", "Table metadata", "error",
         OLDER_METADATA, REPEATED_SPEC_IDS),
    rule("V4-008", "ids of expressions are unique, and no column has one", "Table metadata",
         "error", OLDER_METADATA,
         at_most_once(MetadataFile, "id {value} is used {times} times",
                      lambda file: [("expressions",
                                     (one.expr_id for one in file.metadata.expressions))]),
         Check(MetadataFile, _ids_of_columns)),
    rule("V4-009", "`last-column-id` is at or above every column and expression", "Table metadata",
         "error", COUNTER,
         Check(MetadataFile, column_ids_above_counter)),
    rule("V4-010", "every field of a spec names an expression", "Table metadata", "error",
         OLDER_METADATA,
         in_partition_fields("`{one.name}` links to the column {one.expr_id}, not to an expression",
                             lambda one, _, metadata: _expression_of(one, metadata) is None,
                             "warning")),
    rule("V4-011", "members of a spec's field agree with its expression",
         "Table metadata", "error", OLDER_METADATA),
    rule("V4-012", "an expression has its sources, and the type that follows from them",
         "Table metadata", "error", OLDER_METADATA, Check(MetadataFile, _expressions)),
    rule("V4-013", "expressions of specs have their own partition field ids", "Table metadata",
         "error", OLDER_METADATA,
         *REPEATED_PARTITION_FIELDS,
         Check(MetadataFile, partition_ids_above_counter)),
    rule("V4-014", "statistics of partition fields have room for their ids", "Table metadata",
         "error", ENGINE, Check(MetadataFile, _without_room_for_statistics)),
    rule("V4-015", "the default spec has no transform that cannot be computed", "Table metadata",
         "warning", ENGINE, in_partition_fields(UNKNOWN_TRANSFORM, _is_opaque)),
    rule("V4-016", "sort order ids are unique, and the default order exists", "Table metadata",
         "error", OLDER_METADATA, Check(MetadataFile, faults_of_sort_orders)),
    rule("V4-017", "`last-sequence-number` is at or above that of every snapshot", "Table metadata",
         "error", COUNTER,
         Check(CommitBase, sequence_numbers_above_counter)),
    rule("V4-018", "`next-row-id` is above the row ids of every snapshot", "Table metadata",
         "error", COUNTER,
         Check(CommitBase, row_ids_above_counter)),
    rule("V4-019", "refs name snapshots that exist, with settings of their kind", "Table metadata",
         "error", OLDER_METADATA, Check(CommitBase, main_elsewhere), LOST_REFS, *RETENTION),
    rule("V4-020", "the snapshot log ends with the current snapshot, in order", "Table metadata",
         "error", NEXT_COMMIT, DISORDERED_SNAPSHOT_LOG, Check(MetadataFile, gaps_in_snapshot_log)),
    rule("V4-021", "no current snapshot is written as absence, not as -1", "Table metadata",
         "warning", NEXT_COMMIT, MINUS_1),
    rule("V4-022", "the metadata log is bounded and in order", "Table metadata", "warning",
         NEXT_COMMIT, *METADATA_LOG, Check(MetadataFile, _long_metadata_log)),
    rule("V4-023", "statistics files belong to snapshots that exist", "Table metadata", "warning",
         "`icectl repair TABLE` removes the entry",
         Check(MetadataFile, wrong_statistics), REPEATED_PARTITION_STATISTICS),
    rule("V4-030", "a snapshot has one of root manifest, manifest list and manifests", "Snapshots",
         "error", OLDER_METADATA, Check(CommitBase, _contents)),
    rule("V4-031", "snapshots with a root have every member that version 4 requires", "Snapshots",
         "error", OLDER_METADATA, ABSENT_ADDED_ROWS, Check(MetadataFile, _absent_members)),
    rule("V4-032", "sequence numbers of snapshots are unique and rise from the parent", "Snapshots",
         "error",
         f"`icectl expire-snapshots TABLE` drops old snapshots; if it is the newest, {ROLL_BACK}",
         *SNAPSHOT_NUMBERS),
    rule("V4-033", "snapshots after one with a root have a root too", "Snapshots", "error",
         OLDER_METADATA, Check(MetadataFile, _lists_after_roots)),
    rule("V4-034", "the operation is one of the four", "Snapshots", "error", WRITER,
         UNKNOWN_OPERATIONS,
         in_snapshots("its summary names no operation",
                      lambda one, _: bool(one.root_manifest) and one.summary is not None
                      and one.summary.get("operation") is None)),
    rule("V4-035", "`manifest-list` does not name a root", "Snapshots", "warning", WRITER),
)
# fmt: on
