"""Which steps a table needs, each with its reason and what it gains: pure.

The figures are those of the health view; a policy's thresholds take the place of its limits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from icectl.units import print_count, print_duration, print_size

STEPS = ("compact", "rewrite-manifests", "expire-snapshots", "remove-orphans")
"""The commands that maintain a table, in the order in which they are run on it."""

OPEN_COST_BYTES = 4 << 20
"""Bytes that a reader could read in the time it takes to open a file, as Spark plans with."""

_DELETING = frozenset({"expire-snapshots", "remove-orphans"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a table from its metadata, manifests and metadata folder.

    `reclaimable_bytes` is what summaries of snapshots past retention say was removed; `looked_ms`
    when maintenance last looked for orphans, None for never. `keeps_files` says why no file may be
    deleted, where that is so.
    """

    data_file_count: int
    data_file_bytes: int
    delete_file_count: int
    delete_file_bytes: int
    surplus_file_count: int
    deleted_ratio: float
    most_deletes_on_one_file: int
    dangling_delete_count: int
    manifest_count: int
    manifest_bytes: int
    surplus_manifest_count: int
    snapshot_count: int
    expirable_snapshot_count: int
    reclaimable_bytes: int
    metadata_file_count: int
    metadata_file_bytes: int
    untracked_metadata_file_count: int
    looked_ms: int | None = None
    keeps_files: str | None = None

    @property
    def live_bytes(self) -> int:
        """Bytes of the live files."""
        return self.data_file_bytes + self.delete_file_bytes


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The values from which on a step is called for."""

    small_files: int
    delete_ratio: float
    deletes_per_file: int
    dangling_deletes: int
    manifests: int
    snapshots: int
    reclaimable: float
    metadata_files: int
    every_ms: int


@dataclass(frozen=True, slots=True)
class Need:
    """A step that a table needs, why, and how much reading and storing it saves, in bytes."""

    step: str
    reason: str
    benefit_bytes: int


@dataclass(frozen=True, slots=True)
class WithheldStep:
    """A step that a table would need, and what stands against it."""

    step: str
    reason: str


def needs(
    facts: Facts, thresholds: Thresholds, steps: Sequence[str], now_ms: int
) -> tuple[tuple[Need, ...], tuple[WithheldStep, ...]]:
    """Judge a table: the steps that it needs among those that may be run, and those withheld.

    Order: that of STEPS.
    """
    found = [
        need
        for step in STEPS
        if step in steps and (need := _JUDGES[step](facts, thresholds, now_ms)) is not None
    ]
    if facts.keeps_files is None:
        return tuple(found), ()
    held = tuple(
        WithheldStep(one.step, facts.keeps_files) for one in found if one.step in _DELETING
    )
    return tuple(one for one in found if one.step not in _DELETING), held


def _compact(facts: Facts, limits: Thresholds, _: int) -> Need | None:
    reasons = [
        (facts.surplus_file_count >= limits.small_files,
         f"merging saves {print_count(facts.surplus_file_count, 'file')}"),
        (facts.deleted_ratio >= limits.delete_ratio,
         f"{facts.deleted_ratio:.0%} of the rows are deleted"),
        (facts.most_deletes_on_one_file >= limits.deletes_per_file,
         f"{print_count(facts.most_deletes_on_one_file, 'delete file')} on one data file"),
        (facts.dangling_delete_count >= limits.dangling_deletes,
         f"{print_count(facts.dangling_delete_count, 'dangling delete file')}"),
    ]  # fmt: skip
    files = max(facts.surplus_file_count, 0) + facts.delete_file_count
    return _need("compact", reasons, files * OPEN_COST_BYTES)


def _rewrite_manifests(facts: Facts, limits: Thresholds, _: int) -> Need | None:
    surplus = facts.surplus_manifest_count
    reasons = [(surplus >= limits.manifests, f"{print_count(surplus, 'manifest')} too many")]
    return _need("rewrite-manifests", reasons, surplus * OPEN_COST_BYTES)


def _expire_snapshots(facts: Facts, limits: Thresholds, _: int) -> Need | None:
    count, size = facts.expirable_snapshot_count, facts.reclaimable_bytes
    reasons = [
        (count >= limits.snapshots, f"{print_count(count, 'snapshot')} past retention"),
        (count > 0 and size >= limits.reclaimable * facts.live_bytes and size > 0,
         f"about {print_size(size)} to be freed"),
    ]  # fmt: skip
    return _need("expire-snapshots", reasons, size + count * OPEN_COST_BYTES // 64)


def _remove_orphans(facts: Facts, limits: Thresholds, now_ms: int) -> Need | None:
    if facts.looked_ms is not None:
        age = now_ms - facts.looked_ms
        reasons = [(age >= limits.every_ms, f"last searched {print_duration(max(age, 1))} ago")]
    else:
        reasons = [(True, "never searched")]
    untracked = facts.untracked_metadata_file_count
    if reasons[0][0]:
        text = f"{print_count(untracked, 'metadata file')} off the log"
        reasons.append((untracked >= limits.metadata_files, text))
    size = facts.metadata_file_bytes * untracked // max(facts.metadata_file_count, 1)
    return _need("remove-orphans", reasons, size)


def _need(step: str, reasons: Sequence[tuple[bool, str]], benefit_bytes: int) -> Need | None:
    """Return the need of a step, if there is a reason for it."""
    texts = [text for holds, text in reasons if holds]
    return Need(step, ", ".join(texts), max(benefit_bytes, 0)) if texts else None


_JUDGES: Mapping[str, Callable[[Facts, Thresholds, int], Need | None]] = {
    "compact": _compact,
    "rewrite-manifests": _rewrite_manifests,
    "expire-snapshots": _expire_snapshots,
    "remove-orphans": _remove_orphans,
}
