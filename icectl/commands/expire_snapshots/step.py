"""What `icectl expire-snapshots` would do to a table, in figures."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icectl.cli.settings import EXPIRE_CLEAN_METADATA
from icectl.commands.bill import Work
from icectl.commands.expire_snapshots.options import ExpireRequest
from icectl.commands.expire_snapshots.parsed_options import options_of, policy_of
from icectl.commands.sight import Sight
from icectl.commands.steps import (
    OPEN_COST_BYTES,
    HealthCheck,
    Judgement,
    Limit,
    Measure,
    Step,
    first_error,
)
from icectl.commit.deletion import unfinished_journals
from icectl.errors import CorruptTable, IcectlError, Refused, StorageError, Unsupported
from icectl.format.metadata import TableMetadata
from icectl.table.guard import check_deletable
from icectl.table.retention import Retention, check_min_age, decide
from icectl.units import print_count, print_size, read_count

COMMAND = "expire-snapshots"
_EXACT_SNAPSHOTS = 5_000
"""Snapshots whose manifests are read for exact reclaimable bytes; beyond, summaries must do."""


@dataclass(frozen=True, slots=True)
class ExpireFigures:
    """The snapshots of a table, and what an expiry drops and frees.

    `freed_bytes` are exact where `is_exact`; else what the summaries of the dropped snapshots say
    they removed.
    """

    snapshots: int = 0
    expired: int = 0
    refs: int = 0
    freed_bytes: int = 0
    freed_files: int | None = 0
    is_exact: bool = True
    live_bytes: int = 0

    @property
    def freed_ratio(self) -> float:
        """The bytes to free as a part of those of the live files."""
        if not self.live_bytes:
            return float(self.freed_bytes > 0)
        return self.freed_bytes / self.live_bytes


def plan(sight: Sight, request: ExpireRequest) -> Judgement:
    """Plan an expiry; if it is to be exact, folders are searched for other tables, no catalog."""
    metadata, context, loaded = sight.metadata, sight.reader.context, sight.reader.loaded
    totals = sight.totals
    figures = ExpireFigures(
        len(metadata.snapshots), live_bytes=totals.data_file_bytes + totals.delete_file_bytes
    )
    options = options_of(sight.settings, sight.now_ms, request)
    retention = decide(metadata, options.policy(metadata), sight.now_ms)
    figures = replace(figures, expired=len(retention.expired), refs=len(retention.refs_removed))
    cleans = sight.settings.read(EXPIRE_CLEAN_METADATA)
    left = unfinished_journals(context.store, sight.listed, COMMAND, context.progress)
    if not (retention.expired or retention.refs_removed or left or cleans):
        return Judgement(figures)
    if sight.damage is not None:
        return _judgement(sight, _estimate(figures, metadata, retention), retention, sight.damage)
    if not sight.is_exact or len(metadata.snapshots) > _EXACT_SNAPSHOTS:
        error = first_error(
            lambda: check_deletable(context.catalog, loaded, sight.now_ms),
            lambda: check_min_age(retention, sight.now_ms, options.min_age_ms),
        )
        return _judgement(sight, _estimate(figures, metadata, retention), retention, error)
    from icectl.commands.expire_snapshots import run  # only where there is work

    try:
        prepared = run.plan_expiry(context, loaded, options)
        run.check_other_tables(context, prepared, asks_catalog=False)
    except (StorageError, CorruptTable, Refused, Unsupported) as error:
        return _judgement(sight, _estimate(figures, metadata, retention), retention, error)
    if not prepared.has_work:
        return Judgement(figures)
    if prepared.deletes_files:
        freed = prepared.deletable
        figures = replace(
            figures,
            freed_bytes=freed.total_bytes,
            freed_files=len(freed),
            is_exact=not prepared.unread,
        )
    return _judgement(sight, figures, retention)


def _judgement(
    sight: Sight,
    figures: ExpireFigures,
    retention: Retention,
    error: IcectlError | None = None,
) -> Judgement:
    count = figures.expired + figures.refs
    texts = [f"{print_count(figures.expired, 'snapshot')} eligible for expiration"]
    texts += [f"{print_count(figures.refs, 'ref')} past its age"] if figures.refs else []
    text = ", ".join(texts) if count else "unused metadata or files of an interrupted run to drop"
    measures = [Measure("snapshots-past-retention", count, text)]
    if figures.expired and figures.freed_bytes:
        about = "" if figures.is_exact else "about "
        text = f"{about}{print_size(figures.freed_bytes)} to free"
        measures.append(Measure("reclaimable", figures.freed_ratio, text))
    benefit = figures.freed_bytes + figures.expired * OPEN_COST_BYTES // 64
    drops = frozenset(decision.snapshot_id for decision in retention.expired)
    work = sight.run_work + sight.history_work
    if figures.freed_files:
        work += Work(get_requests=_replacing(sight.metadata))
    work += Work(
        freed_files=figures.freed_files or 0,
        freed_bytes=figures.freed_bytes,
    )
    return Judgement(figures, tuple(measures), benefit, error, drops=drops, work=work)


def _replacing(metadata: TableMetadata) -> int:
    """Count files with copied rows: each is looked up before what it replaced goes."""
    summaries = [snapshot.summary or {} for snapshot in metadata.snapshots]
    added = (
        read_count(summary.get("added-data-files")) or 0
        for summary in summaries
        if summary.get("operation") == "replace"
    )
    return sum(added)


def _estimate(
    figures: ExpireFigures, metadata: TableMetadata, retention: Retention
) -> ExpireFigures:
    """Return what expiring frees, by the summaries of the snapshots."""
    expired_ids = {decision.snapshot_id for decision in retention.expired}
    # A snapshot removes files of those before it: they are freed once its parent has gone.
    removed = sum(
        (read_count((snapshot.summary or {}).get("removed-files-size")) or 0)
        for snapshot in metadata.snapshots
        if snapshot.parent_snapshot_id in expired_ids
    )
    return replace(figures, freed_bytes=removed, freed_files=None, is_exact=False)


def _snapshots(figures: ExpireFigures) -> str:
    return (
        f"{figures.expired:,} of {print_count(figures.snapshots, 'snapshot')} eligible for "
        "expiration"
    )


def _reclaimable(figures: ExpireFigures) -> str:
    about = "" if figures.is_exact else "about "
    return (
        f"{about}{print_size(figures.freed_bytes)} freed by expiring those snapshots, against "
        f"{print_size(figures.live_bytes)} of live files"
    )


def _snapshot_members(figures: ExpireFigures) -> Mapping[str, object]:
    return {"snapshot_count": figures.snapshots, "expirable_snapshot_count": figures.expired}


def _freed_members(figures: ExpireFigures) -> Mapping[str, object]:
    return {
        "reclaimable_bytes": figures.freed_bytes,
        "reclaimable_file_count": figures.freed_files,
        "is_estimate": not figures.is_exact,
    }


_COUNT = Limit(
    "snapshots-past-retention",
    "snapshots eligible for expiration",
    "expire if N snapshots or more are eligible for expiration",
)
_BYTES = Limit(
    "reclaimable",
    "of the live bytes",
    "expire if that frees this ratio of the live bytes or more",
    is_ratio=True,
)

STEP: Step = Step(
    COMMAND,
    ExpireRequest,
    policy_of,
    plan,
    ExpireFigures(),
    (_COUNT, _BYTES),
    (
        HealthCheck("snapshot_debt", "snapshots", (_COUNT.name,), _snapshots, _snapshot_members),
        HealthCheck("reclaimable", "reclaimable", (_BYTES.name,), _reclaimable, _freed_members),
    ),
    deletes=True,
    not_in_policies={"snapshot-id": None, "leftover-uuid": None},
)
