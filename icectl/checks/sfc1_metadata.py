"""Checks of the metadata of layout sfc-1, and what it calls rules of older versions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from icectl.checks.finding import Finding, Severity, finding
from icectl.format.expressions import HIGHEST_STATS_ID, Expression
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.properties import PREVIOUS_VERSIONS_MAX
from icectl.format.snapshot import Snapshot, ancestors
from icectl.format.transforms import result_type
from icectl.format.types import PrimitiveType, can_promote, type_text

_METADATA = "metadata"
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def check_tree_metadata(metadata: TableMetadata, members: Mapping[str, Any]) -> Iterator[Finding]:
    """Check what only metadata of version 4 may have, and that older metadata has no roots.

    Spec: V4-001 to V4-005, V4-008, V4-010, V4-012, V4-014, V4-015, V4-022, V4-030, V4-031, V4-033.
    """
    if metadata.format_version < 4:
        rooted = [one for one in metadata.snapshots if one.root_manifest is not None]
        if rooted:  # V4-001
            message = (
                f"`format-version` is {metadata.format_version}, but {len(rooted)} snapshots have "
                "a root manifest"
            )
            yield finding("V4-001", _METADATA, message)
        return
    if layout_of_table(metadata) is not Layout.SFC_1:
        return
    yield from _members(metadata, members)
    for expression in metadata.expressions:
        yield from _expression(metadata, expression)
    yield from _expression_ids(metadata)
    yield from _links(metadata)
    for snapshot in metadata.snapshots:
        yield from _snapshot(metadata, snapshot)


def _members(metadata: TableMetadata, members: Mapping[str, Any]) -> Iterator[Finding]:
    if not _UUID.fullmatch(metadata.table_uuid or ""):  # V4-002
        yield finding("V4-002", _METADATA, f"`table-uuid` is `{metadata.table_uuid}`")
    for name in ("schema", "partition-spec"):
        if name in members:  # V4-005
            yield finding("V4-005", _METADATA, f"`{name}` is there, which version 4 has no more")
    stated = metadata.properties.get(PREVIOUS_VERSIONS_MAX.name, "")
    kept = max(int(stated), 1) if stated.isdigit() else PREVIOUS_VERSIONS_MAX.default
    if len(metadata.metadata_log) > kept:  # V4-022
        message = f"it has {len(metadata.metadata_log)} entries, {kept} should be kept"
        yield finding("V4-022", "metadata log", message)


def _expression(metadata: TableMetadata, expression: Expression) -> Iterator[Finding]:
    """Check that its sources are columns, and its type is what follows from them (V4-012)."""
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
        if not types:  # V4-012
            message = f"its source column {source_id} is in no schema"
            yield finding("V4-012", subject, message, severity="warning")
    if expression.type is None or expression.is_opaque or not all(columns):
        return
    # The type follows a promotion of its source, but need not follow it at once (sfc-1 X3).
    derived = [result_type(expression.transform, type_) for type_ in columns[0]]
    fits = any(
        type_ is None or can_promote(expression.type, type_, metadata.format_version)
        for type_ in derived
    )
    if not fits:  # V4-012
        told = type_text(derived[0] or PrimitiveType("unknown"))
        message = f"it is `{type_text(expression.type)}`, from its transform follows `{told}`"
        yield finding("V4-012", subject, message)


def _expression_ids(metadata: TableMetadata) -> Iterator[Finding]:
    ids = Counter(one.expr_id for one in metadata.expressions)
    columns = {id_ for schema in metadata.schemas for id_ in schema.all_fields}
    for id_, times in ids.items():
        if times > 1:  # V4-008
            yield finding("V4-008", "expressions", f"id {id_} is used {times} times")
        if id_ in columns:  # V4-008
            yield finding("V4-008", "expressions", f"id {id_} is that of a column too")


def _links(metadata: TableMetadata) -> Iterator[Finding]:
    """Check what fields of specs link to (V4-010, V4-014, V4-015)."""
    expressions = {one.expr_id: one for one in metadata.expressions}
    for spec in metadata.partition_specs:
        subject = f"partition spec {spec.spec_id}"
        for item in spec.fields:
            expression = expressions.get(item.expr_id or 0)
            if expression is None:  # V4-010
                message = f"`{item.name}` links to the column {item.expr_id}, not to an expression"
                yield finding("V4-010", subject, message, severity="warning")
            stats_id = item.source_ids[0] if expression is None else expression.stats_id
            if stats_id is not None and not 1 <= stats_id <= HIGHEST_STATS_ID:  # V4-014
                message = f"there are no statistics of `{item.name}`, whose id is {stats_id}"
                yield finding("V4-014", subject, message)
            is_opaque = expression is not None and expression.is_opaque
            if is_opaque and spec.spec_id == metadata.default_spec_id:  # V4-015
                message = f"the transform `{item.transform.text}` of `{item.name}` is not known"
                yield finding("V4-015", subject, message)


def _snapshot(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Finding]:
    subject = f"snapshot {snapshot.snapshot_id}"
    yield from check_named_once(snapshot)
    if snapshot.root_manifest is None:
        before = list(ancestors(metadata.snapshots_by_id, snapshot.snapshot_id))[1:]
        rooted = next((one for one in before if one.root_manifest is not None), None)
        if rooted is not None:  # V4-033
            message = f"it has no root, but snapshot {rooted.snapshot_id} before it has"
            yield finding("V4-033", subject, message)
        return
    required = {
        "summary": snapshot.summary,
        "schema-id": snapshot.schema_id,
        "first-row-id": snapshot.first_row_id,
        "added-rows": snapshot.added_rows,
        "sequence-number": snapshot.sequence_number or None,
    }
    absent = [f"`{name}`" for name, value in required.items() if value is None]
    if absent:  # V4-031
        yield finding("V4-031", subject, f"it lacks {', '.join(absent)}")
    operation = (snapshot.summary or {}).get("operation")
    if snapshot.summary is not None and operation is None:  # V4-034
        yield finding("V4-034", subject, "its summary names no operation")


def check_named_once(snapshot: Snapshot) -> Iterator[Finding]:
    """Check that a snapshot of version 4 says in one way what it lists (V4-030)."""
    named = {
        "root-manifest": snapshot.root_manifest,
        "manifest-list": snapshot.manifest_list,
        "manifests": snapshot.manifests,
    }
    present = [f"`{name}`" for name, value in named.items() if value is not None]
    if len(present) != 1:  # V4-030
        subject = f"snapshot {snapshot.snapshot_id}"
        yield finding("V4-030", subject, f"it has {' and '.join(present) or 'nothing to read'}")


Part = Literal["metadata", "files", "contents"]
"""What findings are about: members of the metadata, stored files, or what is in these."""

_OF_METADATA: Mapping[tuple[str, str], tuple[str, Severity | None]] = {
    ("R-015", ""): ("V4-019", None),
    ("R-016", ""): ("V4-021", None),
    ("R-019", ""): ("V4-006", None),
    ("R-022", ""): ("V4-019", None),
    ("R-024", ""): ("V4-022", None),
    ("R-025", ""): ("V4-020", "warning"),
    ("R-026", ""): ("V4-020", None),
    ("R-027", ""): ("V4-019", None),
    ("R-031", ""): ("V4-034", None),
    ("R-040", ""): ("V4-032", None),
    ("R-077", "partition spec"): ("V4-013", None),
    ("R-077", "partition specs"): ("V4-007", None),
    ("R-084", ""): ("V4-016", None),
    ("R-104", "metadata"): ("V4-018", None),
    ("R-104", "snapshot"): ("V4-031", None),
    ("R-141", ""): ("V4-023", None),
    ("R-142", ""): ("V4-023", None),
    ("R-164", ""): ("V4-004", None),
    ("R-184", ""): ("V4-006", None),
}
"""What version 4 calls a rule that it has taken over, by the kind of subject where it matters."""

_OF_FILES: Mapping[Part, Mapping[str, str]] = {
    "files": {"R-034": "V4-182", "R-063": "V4-182"},
    "contents": {"R-118": "V4-123", "R-119": "V4-123"},
}
"""The same of stored files, and of the delete vectors of data files."""


def named(metadata: TableMetadata, part: Part, found: Iterable[Finding]) -> Iterator[Finding]:
    """Find findings about a part of a table under the ids that its layout gives their rules.

    Order: kept.
    """
    if layout_of_table(metadata) is not Layout.SFC_1:
        yield from found
        return
    for one in found:
        rule, severity = _name(one, part)
        if rule == one.rule:
            yield one
        else:
            yield finding(rule, one.subject, one.message, severity=severity)


def _name(one: Finding, part: Part) -> tuple[str, Severity | None]:
    if part != "metadata":
        return _OF_FILES[part].get(one.rule, one.rule), one.severity
    kind = one.subject.rstrip("0123456789-").rstrip()
    name = _OF_METADATA.get((one.rule, kind)) or _OF_METADATA.get((one.rule, ""))
    return name or (one.rule, None)
