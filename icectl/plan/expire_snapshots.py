"""What an expiry changes and deletes: pure, from a retention decision and the files reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from icectl.entries.files import Files, distinct, together, without
from icectl.plan.model import Pin
from icectl.plan.retention import Retention
from icectl.spec.metadata import TableMetadata
from icectl.spec.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Update,
)


@dataclass(frozen=True, slots=True)
class Reached:
    """The files that the snapshots which go, and those which stay, reach.

    `spec_ids` are the partition specs of manifests that stay.
    """

    going: Files
    staying: Files
    spec_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    """One expiry: every snapshot with its fate, and every file that is deleted after the commit.

    `protected` are the keys of all files that snapshots which stay reach.
    """

    pin: Pin
    retention: Retention
    deletable: Files
    protected: pa.ChunkedArray
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()

    @property
    def changes_table(self) -> bool:
        """Whether there is anything to commit."""
        retention = self.retention
        return bool(retention.expired or retention.refs_removed or self.schema_ids or self.spec_ids)


def plan(
    metadata: TableMetadata,
    pin: Pin,
    retention: Retention,
    reached: Reached,
    *,
    clean_expired_metadata: bool,
) -> ExpirePlan:
    """The expiry of the snapshots that `retention` lets go.

    Deletable is what they reach and no snapshot that stays reaches (R-191), one Puffin file with a
    live vector included in what stays (R-194).
    """
    protected = reached.staying.table["key"]
    schemas: tuple[int, ...] = ()
    specs: tuple[int, ...] = ()
    if clean_expired_metadata:
        schemas, specs = _unused(metadata, retention, reached.spec_ids)
    return ExpirePlan(
        pin=pin,
        retention=retention,
        deletable=distinct(without(reached.going, protected)),
        protected=protected,
        schema_ids=schemas,
        spec_ids=specs,
    )


def _unused(
    metadata: TableMetadata, retention: Retention, used_specs: frozenset[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Schemas and specs that nothing which stays refers to (R-079, R-185)."""
    kept = {decision.snapshot_id for decision in retention.kept}
    named = {item.schema_id for item in metadata.snapshots if item.snapshot_id in kept}
    if None in named:  # a snapshot without schema id may use any of them
        schemas: tuple[int, ...] = ()
    else:
        used = named | {metadata.current_schema_id}
        schemas = tuple(s.schema_id for s in metadata.schemas if s.schema_id not in used)
    in_use = used_specs | {metadata.default_spec_id}
    specs = tuple(s.spec_id for s in metadata.partition_specs if s.spec_id not in in_use)
    return schemas, specs


def updates(plan: ExpirePlan, metadata: TableMetadata, retention: Retention) -> Sequence[Update]:
    """The changes of the plan that still hold for `metadata`, which may be newer than the plan.

    Only what the plan named goes, and only where `retention`, decided anew, lets it go too: a plan
    made anew after the question was answered may only delete less.
    """
    planned = {decision.snapshot_id for decision in plan.retention.expired}
    going = {decision.snapshot_id for decision in retention.expired} & planned
    refs = {ref.name for ref in plan.retention.refs_removed}
    found: list[Update] = [
        RemoveSnapshotRef(ref.name) for ref in retention.refs_removed if ref.name in refs
    ]
    if going:
        ids = (item.snapshot_id for item in metadata.snapshots)
        found.append(RemoveSnapshots(tuple(id_ for id_ in ids if id_ in going)))
    if metadata.last_sequence_number != plan.pin.last_sequence_number or not _same(plan, metadata):
        return found  # newer snapshots may use what seemed unused
    if plan.schema_ids:
        found.append(RemoveSchemas(plan.schema_ids))
    if plan.spec_ids:
        found.append(RemovePartitionSpecs(plan.spec_ids))
    return found


def _same(plan: ExpirePlan, metadata: TableMetadata) -> bool:
    """Whether the snapshots are those that the plan saw."""
    seen = {decision.snapshot_id for decision in plan.retention.decisions}
    return seen == set(metadata.snapshots_by_id)


def still_deletable(files: Iterable[Files], protected: Iterable[pa.ChunkedArray]) -> Files:
    """The files whose key is among none of the protected ones, each once (R-191).

    Order: that in which they are deleted.
    """
    left = together(files)
    for keys in protected:
        left = without(left, keys)
    return distinct(left)
