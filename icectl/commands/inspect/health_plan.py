"""The health view: what maintenance a snapshot needs, with the threshold behind each verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from icectl.cli.document import id_text
from icectl.commands.inspect.views import Row
from icectl.entries import deletes, rows
from icectl.entries.rows import Entries
from icectl.entries.summary import SIZE_BANDS, Totals, size_histogram, summarise
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.mergeable import expected_ways
from icectl.units import print_count, print_reduction, print_size

HEALTH_SOURCES: frozenset[str] = frozenset({
    "content", "status", "location", "file_format", "spec_id", "partition_key",
    "record_count", "file_size_in_bytes", "sequence_number", "referenced_data_file",
    "content_offset", "content_size_in_bytes", "split_offsets",
})  # fmt: skip
CHECKS: Mapping[str, str] = {
    "small_files": "small files", "delete_debt": "deletes", "manifest_debt": "manifests",
    "snapshot_debt": "snapshots", "metadata_file_debt": "metadata files",
    "reclaimable": "reclaimable",
}  # fmt: skip
"""The checks of a table's health, each with its title."""
SMALL_RATIO = 0.75
"""Files below this part of the target size are what `compact` picks, as in Java's rewrite."""


class HealthVerdict(StrEnum):
    """The verdict on a measure: how much it matters."""

    OK = "ok"
    UNKNOWN = "unknown"
    ATTENTION = "attention"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Targets:
    """The sizes that the table asks for; `file_size_given` tells a property from a default."""

    file_size_bytes: int
    file_size_given: bool
    manifest_size_bytes: int


@dataclass(frozen=True, slots=True)
class Expirable:
    """The snapshots and files that expire-snapshots would drop under the table's own policy.

    `reclaimable_bytes` is exact where `exact`; else it is what the summaries of the dropped
    snapshots say they removed.
    """

    snapshot_count: int
    reclaimable_bytes: int
    file_count: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """The metadata files in the folder of the current one."""

    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MeasureLimits:
    """The limits of a measure: from which value on it needs attention, and is critical."""

    attention: float
    critical: float

    def judge(self, value: float) -> HealthVerdict:
        """Compare a measure."""
        if value >= self.critical:
            return HealthVerdict.CRITICAL
        return HealthVerdict.ATTENTION if value >= self.attention else HealthVerdict.OK


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """The limits of every measure, as they are or as the settings have them."""

    files_to_save: MeasureLimits = MeasureLimits(5, 1_000)
    deleted_rows: MeasureLimits = MeasureLimits(0.1, 0.3)
    deletes_per_file: MeasureLimits = MeasureLimits(5, 100)
    dangling_deletes: MeasureLimits = MeasureLimits(1, 1_000)
    manifests_to_save: MeasureLimits = MeasureLimits(20, 1_000)
    snapshots_past_retention: MeasureLimits = MeasureLimits(10, 1_000)
    untracked_metadata_files: MeasureLimits = MeasureLimits(20, 1_000)
    reclaimable: MeasureLimits = MeasureLimits(0.25, 1.0)


@dataclass(frozen=True, slots=True)
class HealthSource:
    """The source that health is judged by; `entries` are those of all `manifests`.

    `commands` are those that this version of icectl has: advice may name others, and says so.
    Where part of the table could not be read it is not `is_whole`, and nothing is known to be fine.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    manifests: Sequence[ManifestFile]
    entries: Entries
    targets: Targets
    expirable: Expirable
    metadata_files: MetadataFiles
    commands: frozenset[str]
    limits: HealthLimits = HealthLimits()
    is_whole: bool = True


def health(source: HealthSource) -> Row:
    """Judge a snapshot's files and a table's metadata. Units: bytes; ratios from 0 to 1."""
    live = rows.live(source.entries)
    data = rows.data_files(live)
    totals = summarise(live)
    checks = {
        "small_files": _small_files(source.targets.file_size_bytes, data, source.limits),
        "delete_debt": _delete_debt(source, totals),
        "manifest_debt": _manifest_debt(source),
        "snapshot_debt": _snapshot_debt(source),
        "metadata_file_debt": _metadata_file_debt(source),
        "reclaimable": _reclaimable(source.expirable, totals, source.limits),
    }
    worst = _worst(*(check.verdict for check in checks.values()))
    if not source.is_whole:
        # What is bad stays bad; an unreadable part is worse than attention.
        worst = worst if worst is HealthVerdict.CRITICAL else HealthVerdict.UNKNOWN
        checks = {
            name: check
            if check.verdict is not HealthVerdict.OK
            else replace(
                check, verdict=HealthVerdict.UNKNOWN, found=f"of what is readable: {check.found}"
            )
            for name, check in checks.items()
        }
    histogram = size_histogram(data)
    ends: list[int | None] = [0, *SIZE_BANDS, None]
    bands = zip(ends[:-1], ends[1:], histogram.file_counts, histogram.byte_counts, strict=True)
    is_target_set = source.targets.file_size_given
    return {
        "snapshot_id": id_text(source.snapshot.snapshot_id) if source.snapshot else None,
        "verdict": worst.value,
        "target_file_size_bytes": source.targets.file_size_bytes,
        "target_file_size_origin": "table property" if is_target_set else "default",
        "data_file_count": totals.data_file_count,
        "data_file_bytes": totals.data_file_bytes,
        "file_sizes": [
            {"from_bytes": low, "below_bytes": high, "file_count": count, "bytes": size}
            for low, high, count, size in bands
        ],
        **{name: check.json(source.commands) for name, check in checks.items()},
    }


@dataclass(frozen=True, slots=True)
class _Check:
    """One measure: what was found, from where on it matters, and what to do then."""

    verdict: HealthVerdict
    found: str
    threshold: str
    command: str
    figures: Mapping[str, object]

    def json(self, commands: frozenset[str]) -> Row:
        """Return the check for JSON; a command only where there is something for it to do."""
        needed = self.verdict in (HealthVerdict.ATTENTION, HealthVerdict.CRITICAL)
        return {
            "verdict": self.verdict.value,
            "found": self.found,
            "threshold": self.threshold,
            "command": self.command if needed else None,
            "command_in_this_version": self.command in commands if needed else None,
            **self.figures,
        }


def _worst(*verdicts: HealthVerdict) -> HealthVerdict:
    return max(verdicts, key=[*HealthVerdict].index)


def _from(limits: MeasureLimits, unit: str, *, ratio: bool = False) -> str:
    form = ".0%" if ratio else ",.0f"
    attention, critical = f"{limits.attention:{form}}", f"{limits.critical:{form}}"
    return f"attention from {attention} {unit}, critical from {critical}"


def _small_files(target: int, data: Entries, limits: HealthLimits) -> _Check:
    """Return files far below the target, and to how many compaction would reduce each partition's.

    Of those bytes some are copied, and others decoded and written again.
    """
    small_below = int(target * SMALL_RATIO)
    small = rows.smaller_than(data, small_below)
    partitions = rows.by_row(Entries(rows.files_by_partition(small)), "file_count", "size_bytes")
    needs = [(count, max(1, -(-size // target))) for count, size in partitions]
    surplus = sum(count - needed for count, needed in needs)
    reducible = sum(count for count, needed in needs if count > needed)
    merged, rewritten = expected_ways(small)
    ways = f" ({print_size(merged)} copied without decoding, {print_size(rewritten)} rewritten)"
    return _Check(
        limits.files_to_save.judge(surplus),
        f"{len(small):,} of {print_count(len(data), 'data file')} below {print_size(small_below)}, "
        f"{SMALL_RATIO:.0%} of the target size"
        + (f"; {print_reduction(reducible, surplus)}{ways}" if surplus else ""),
        _from(limits.files_to_save, "surplus files"),
        "compact",
        {
            "small_file_count": len(small),
            "small_file_bytes": rows.total(small, "file_size_in_bytes"),
            "small_below_bytes": small_below,
            "reducible_file_count": reducible,
            "surplus_file_count": surplus,
            "merge_bytes": merged,
            "rewrite_bytes": rewritten,
        },
    )


def _delete_debt(source: HealthSource, totals: Totals) -> _Check:
    """Return deletes that readers must apply, and deletes that apply to nothing."""
    limits, specs = source.limits, source.metadata.partition_specs
    matches = deletes.match(
        source.entries, [spec.spec_id for spec in specs if spec.is_unpartitioned]
    )
    dangling = len(deletes.dangling(matches))
    counts = [part.counts.tolist() for part in matches.ranges]
    per_file = [sum(of_file) for of_file in zip(*counts, strict=True)]
    most = max(per_file, default=0)
    touched = sum(count > 0 for count in per_file)
    positions = totals.position_delete_record_count + totals.deletion_vector_record_count
    ratio = positions / totals.record_count if totals.record_count else 0.0
    compared = int(deletes.compared_keys(matches).sum())
    found = (
        f"{print_count(totals.delete_file_count, 'delete file')} on {touched:,} of "
        f"{print_count(len(matches.data), 'data file')}, at most {most:,} on one; {ratio:.1%} of "
        f"the rows deleted by position; {dangling:,} dangling"
    )
    if compared:
        found += (
            f"; readers compare {print_count(compared, 'key')} of equality deletes, which "
            "`compact --deletes-only` converts"
        )
    return _Check(
        _worst(
            limits.deleted_rows.judge(ratio),
            limits.deletes_per_file.judge(most),
            limits.dangling_deletes.judge(dangling),
        ),
        found if totals.delete_file_count else "no delete files",
        f"{_from(limits.deleted_rows, 'of the rows', ratio=True)}; "
        f"{_from(limits.deletes_per_file, 'on one data file')}; "
        f"{_from(limits.dangling_deletes, 'dangling')}",
        "compact",
        {
            "position_delete_file_count": totals.position_delete_file_count,
            "equality_delete_file_count": totals.equality_delete_file_count,
            "deletion_vector_count": totals.deletion_vector_count,
            "delete_file_bytes": totals.delete_file_bytes,
            "dangling_delete_count": dangling,
            "touched_data_file_count": touched,
            "most_deletes_on_one_file": most,
            "compared_key_count": compared,
            "position_delete_count": positions,
            "deleted_ratio": round(ratio, 4),
        },
    )


def _manifest_debt(source: HealthSource) -> _Check:
    """Return manifests beyond those that the same entries need at the target size."""
    limits, target = source.limits, source.targets.manifest_size_bytes
    sizes: dict[tuple[int, int], int] = {}
    # What a root of version 4 lists itself is in no manifest that could be saved.
    manifests = [manifest for manifest in source.manifests if not manifest.in_root]
    for manifest in manifests:
        group = (manifest.partition_spec_id, int(manifest.content))
        sizes[group] = sizes.get(group, 0) + manifest.manifest_length
    count, deleted_count = len(manifests), sum(manifest.dead_count for manifest in manifests)
    surplus = count - sum(max(1, -(-size // target)) for size in sizes.values())
    by_vectors = f"; delete vectors over them remove {deleted_count:,} of their files"
    by_vectors = by_vectors if deleted_count else ""
    return _Check(
        limits.manifests_to_save.judge(surplus),
        f"{print_count(count, 'manifest')}, {print_size(sum(sizes.values()))}; at the target size "
        f"of {print_size(target)}, {count - surplus:,} would do{by_vectors}",
        _from(limits.manifests_to_save, "surplus manifests"),
        "rewrite-manifests",
        {
            "manifest_count": count,
            "manifest_bytes": sum(sizes.values()),
            "target_manifest_size_bytes": target,
            "surplus_manifest_count": surplus,
            "dead_file_count": deleted_count,
        },
    )


def _snapshot_debt(source: HealthSource) -> _Check:
    limits = source.limits
    count, expirable = len(source.metadata.snapshots), source.expirable.snapshot_count
    return _Check(
        limits.snapshots_past_retention.judge(expirable),
        f"{expirable:,} of {print_count(count, 'snapshot')} eligible for expiration by the table's "
        "properties",
        _from(limits.snapshots_past_retention, "snapshots eligible for expiration"),
        "expire-snapshots",
        {"snapshot_count": count, "expirable_snapshot_count": expirable},
    )


def _metadata_file_debt(source: HealthSource) -> _Check:
    """Return metadata files in the folder that are neither current nor in the log."""
    limits = source.limits
    files, tracked = source.metadata_files, len(source.metadata.metadata_log) + 1
    untracked = max(0, files.count - tracked)
    return _Check(
        limits.untracked_metadata_files.judge(untracked),
        f"{print_count(files.count, 'metadata file')}, {print_size(files.size_bytes)}; "
        f"{untracked:,} no longer in the metadata log",
        _from(limits.untracked_metadata_files, "files not in the log"),
        "remove-orphans",
        {
            "metadata_file_count": files.count,
            "metadata_file_bytes": files.size_bytes,
            "metadata_log_length": len(source.metadata.metadata_log),
            "untracked_metadata_file_count": untracked,
        },
    )


def _reclaimable(expirable: Expirable, totals: Totals, limits: HealthLimits) -> _Check:
    """Return the bytes that expiring snapshots by the table's own policy frees."""
    live_bytes = totals.data_file_bytes + totals.delete_file_bytes
    size = expirable.reclaimable_bytes
    ratio = size / live_bytes if live_bytes else float(size > 0)
    about = "" if expirable.exact else "about "
    return _Check(
        limits.reclaimable.judge(ratio),
        f"{about}{print_size(size)} freed by expiring those snapshots, against "
        f"{print_size(live_bytes)} of live files",
        _from(limits.reclaimable, "of the live bytes", ratio=True),
        "expire-snapshots",
        {
            "reclaimable_bytes": size,
            "reclaimable_file_count": expirable.file_count,
            "is_estimate": not expirable.exact,
        },
    )
