"""Which snapshots and refs stay, each with its reason (R-020 to R-023)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from icectl.checks.snapshots import dropping_tags
from icectl.errors import Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.properties import (
    FOREVER_MS,
    MAX_REF_AGE_MS,
    MAX_SNAPSHOT_AGE_MS,
    MIN_SNAPSHOTS_TO_KEEP,
    read,
)
from icectl.format.snapshot import Snapshot, SnapshotRef, ancestors
from icectl.units import print_count, print_duration, print_instant, print_limit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MOST_NAMED = 10
"""Snapshots that a hint names one by one."""


@dataclass(frozen=True, slots=True)
class AskedRetention:
    """The retention that the caller asks for; None leaves it to the table's own properties.

    `older_than_ms` is an instant: younger snapshots stay. Calendar keeps only ever add snapshots.
    `expire_ids` names exactly what goes, if anything: no ageing of snapshots or refs then.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_monthly: int = 0
    expire_unreferenced: bool = False
    expire_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One snapshot, whether it stays, and why."""

    snapshot_id: int
    timestamp_ms: int
    kept: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RemovedRef:
    """A branch or tag that goes, and why."""

    name: str
    snapshot_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Retention:
    """Every snapshot with its fate, in the order of the metadata, and the refs that go."""

    decisions: tuple[Decision, ...]
    refs_removed: tuple[RemovedRef, ...]

    @property
    def expired(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if not decision.kept)

    @property
    def kept(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.kept)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The policy with the table's properties filled in."""

    metadata: TableMetadata
    now_ms: int
    cutoff_ms: int
    min_snapshots: int
    max_ref_age_ms: int
    expire_unreferenced: bool
    calendar: Mapping[str, int]


def decide(metadata: TableMetadata, policy: AskedRetention, now_ms: int) -> Retention:
    """Decide which snapshots stay and which go.

    Raises: Refused, when a snapshot named in `expire_ids` is the head of a ref (R-028);
    UsageError, when it is not in the table.
    """
    if policy.expire_ids is not None:
        for snapshot_id in policy.expire_ids:
            if metadata.snapshot(snapshot_id) is None:
                raise UsageError(
                    f"snapshot {snapshot_id} is not in the table",
                    hint="`icectl inspect TABLE snapshots` lists them",
                )
        return _by_id(metadata, policy.expire_ids)
    rules = _rules(metadata, policy, now_ms)
    return _by_rules(rules, tuple(_aged_refs(rules)))


def decide_again(
    metadata: TableMetadata, policy: AskedRetention, now_ms: int, confirmed: Retention
) -> Retention:
    """Return the decision on newer metadata: nothing goes but what was confirmed, for the refs too.

    Raises: Refused, as `decide`.
    """
    agreed = {decision.snapshot_id for decision in confirmed.expired}
    if policy.expire_ids is not None:
        expired = _by_id(metadata, policy.expire_ids)
    else:
        rules = _rules(metadata, policy, now_ms)
        named = {(ref.name, ref.snapshot_id) for ref in confirmed.refs_removed}
        aged = (ref for ref in _aged_refs(rules) if (ref.name, ref.snapshot_id) in named)
        expired = _by_rules(rules, tuple(aged))
    decisions = tuple(
        decision
        if decision.kept or decision.snapshot_id in agreed
        else replace(decision, kept=True, reason="not in the plan that was confirmed")
        for decision in expired.decisions
    )
    return replace(expired, decisions=decisions)


def expiry_of(metadata: TableMetadata, snapshot_ids: Sequence[int], table: str) -> str:
    """Return the commands after which snapshots are gone that are the head of no branch."""
    options = "".join(f" --snapshot-id {snapshot_id}" for snapshot_id in snapshot_ids)
    if len(snapshot_ids) > _MOST_NAMED:
        newest = max(metadata.snapshots_by_id[one].timestamp_ms for one in snapshot_ids)
        options = f" --older-than {print_instant(newest + 1)} --retain-last 1"
    drop = dropping_tags(metadata, snapshot_ids, table)
    them = "the snapshot that does" if len(snapshot_ids) == 1 else "the snapshots that do"
    return f"{drop}`icectl expire-snapshots {table}{options}` drops {them}"


def check_min_age(retention: Retention, now_ms: int, min_age_ms: int) -> None:
    """Raises: Refused, when a snapshot that goes is younger than the age."""
    young = [item for item in retention.expired if item.timestamp_ms > now_ms - min_age_ms]
    if min_age_ms and young:
        newest = max(item.timestamp_ms for item in young)
        raise Refused(
            f"{print_count(len(young), 'snapshot')} younger than {print_duration(min_age_ms)} "
            f"(`min-age`) would expire, the newest of {print_instant(newest)}",
            hint="choose a longer retention, or set another `expire-snapshots.min-age`",
            id="min-age",
        )


def current_since(
    metadata: TableMetadata, decisions: Sequence[Decision], since_ms: int
) -> Mapping[int, int]:
    """Return snapshots that readers may have taken for current since then: ids to their last time.

    A snapshot is current from its commit until the next one in the log, or a child, is committed.
    """
    last_ms = {item.snapshot_id: item.timestamp_ms for item in decisions}
    replaced = [(item.parent_snapshot_id, item.timestamp_ms) for item in metadata.snapshots]
    replaced += [
        (entry.snapshot_id, following.timestamp_ms)
        for entry, following in pairwise(metadata.snapshot_log)
    ]
    for snapshot_id, timestamp_ms in replaced:
        if snapshot_id in last_ms:
            last_ms[snapshot_id] = max(last_ms[snapshot_id], timestamp_ms)
    return {id_: timestamp_ms for id_, timestamp_ms in last_ms.items() if timestamp_ms >= since_ms}


def _by_rules(rules: _Rules, removed: tuple[RemovedRef, ...]) -> Retention:
    """Return the decision where the refs in `removed` no longer protect anything."""
    metadata = rules.metadata
    removed_names = {ref.name for ref in removed}
    refs = {name: ref for name, ref in metadata.refs.items() if name not in removed_names}
    reasons, disordered = _kept_by_refs(rules, refs), _behind_older(rules, refs)
    in_branches = {
        item.snapshot_id
        for ref in refs.values()
        if ref.type == "branch"
        for item in ancestors(metadata.snapshots_by_id, ref.snapshot_id)
    }
    decisions = []
    for item in metadata.snapshots:
        reason = reasons.get(item.snapshot_id)
        is_young = item.timestamp_ms >= rules.cutoff_ms and not rules.expire_unreferenced
        if reason is None and item.snapshot_id not in in_branches and is_young:
            reason = f"in no branch, but not older than {print_limit(rules.cutoff_ms)}"
        gone = disordered.get(item.snapshot_id) or (
            "eligible for expiration" if item.snapshot_id in in_branches else "in no branch or tag"
        )
        decisions.append(
            Decision(item.snapshot_id, item.timestamp_ms, reason is not None, reason or gone)
        )
    return Retention(tuple(decisions), removed)


def _positive(setting: int | None) -> int | None:
    """Return a setting of a ref that makes sense; others count as not given (R-027)."""
    return setting if setting is not None and setting > 0 else None


def _rules(metadata: TableMetadata, policy: AskedRetention, now_ms: int) -> _Rules:
    properties = metadata.properties
    cutoff = policy.older_than_ms
    if cutoff is None:
        cutoff = now_ms - read(properties, MAX_SNAPSHOT_AGE_MS)
    counts = (policy.keep_daily, policy.keep_weekly, policy.keep_monthly)
    calendar = zip(("daily", "weekly", "monthly"), counts, strict=True)
    return _Rules(
        metadata,
        now_ms,
        cutoff,
        policy.retain_last or read(properties, MIN_SNAPSHOTS_TO_KEEP),
        read(properties, MAX_REF_AGE_MS),
        policy.expire_unreferenced,
        {period: count for period, count in calendar if count},
    )


def _aged_refs(rules: _Rules) -> Iterator[RemovedRef]:
    """Refs but main that are past their age, or whose snapshot is gone (R-020, R-022)."""
    for name, ref in rules.metadata.refs.items():
        snapshot = rules.metadata.snapshot(ref.snapshot_id)
        if name == "main":
            continue
        if snapshot is None:
            yield RemovedRef(name, ref.snapshot_id, "its snapshot is not in the table")
            continue
        limit = _positive(ref.max_ref_age_ms) or rules.max_ref_age_ms
        if limit < FOREVER_MS and rules.now_ms - snapshot.timestamp_ms > limit:
            yield RemovedRef(name, ref.snapshot_id, f"older than {print_duration(limit)}")


def _kept_by_refs(rules: _Rules, refs: Mapping[str, SnapshotRef]) -> dict[int, str]:
    """Reasons to stay by snapshot id; the first reason that is found is told."""
    reasons: dict[int, str] = {}
    for name, ref in refs.items():
        reasons.setdefault(ref.snapshot_id, f"head of {ref.type} {name}")
    for name, ref in refs.items():
        if ref.type != "branch":
            continue
        history = list(ancestors(rules.metadata.snapshots_by_id, ref.snapshot_id))
        age_ms = _positive(ref.max_snapshot_age_ms)
        cutoff_ms = rules.cutoff_ms if age_ms is None else rules.now_ms - age_ms
        least = _positive(ref.min_snapshots_to_keep) or rules.min_snapshots
        for position, snapshot in enumerate(history):
            if position < least:
                reason = f"among the {least} newest snapshots of branch {name}"
            elif snapshot.timestamp_ms >= cutoff_ms:
                reason = f"not older than {print_limit(cutoff_ms)} on branch {name}"
            else:
                break  # the first that is too old and beyond the count ends the walk
            reasons.setdefault(snapshot.snapshot_id, reason)
        for period, count in rules.calendar.items():
            newest: dict[str, Snapshot] = {}
            for snapshot in sorted(history, key=lambda item: -item.timestamp_ms):
                newest.setdefault(_label(snapshot.timestamp_ms, period), snapshot)
            for label, snapshot in list(newest.items())[:count]:
                reasons.setdefault(snapshot.snapshot_id, f"newest of {label} on branch {name}")
    return reasons


def _behind_older(rules: _Rules, refs: Mapping[str, SnapshotRef]) -> dict[int, str]:
    """Return why snapshots expire that are not old themselves, by id.

    In a branch whose times are out of order they are behind one that is too old (R-020).
    """
    reasons: dict[int, str] = {}
    for name, ref in refs.items():
        if ref.type != "branch":
            continue
        age_ms = _positive(ref.max_snapshot_age_ms)
        cutoff_ms = rules.cutoff_ms if age_ms is None else rules.now_ms - age_ms
        least = _positive(ref.min_snapshots_to_keep) or rules.min_snapshots
        older: Snapshot | None = None
        history = ancestors(rules.metadata.snapshots_by_id, ref.snapshot_id)
        for snapshot in islice(history, least, None):
            if snapshot.timestamp_ms < cutoff_ms:
                older = older or snapshot
            elif older is not None:
                reasons[snapshot.snapshot_id] = (
                    f"behind snapshot {older.snapshot_id} on branch {name}, which is older than "
                    f"{print_limit(cutoff_ms)}: the times of the branch are out of order"
                )
    return reasons


def _label(timestamp_ms: int, period: str) -> str:
    """Return the name of the day, week or month; of an instant in no year, that of the instant."""
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return print_instant(timestamp_ms)
    if period == "daily":
        return moment.date().isoformat()
    if period == "monthly":
        return f"{moment:%Y-%m}"
    year, week, _ = moment.isocalendar()
    return f"{year}-W{week:02}"


def _by_id(metadata: TableMetadata, ids: Sequence[int]) -> Retention:
    heads = {ref.snapshot_id: (name, ref.type) for name, ref in metadata.refs.items()}
    for snapshot_id in ids:
        if snapshot_id in heads:
            name, kind = heads[snapshot_id]
            raise Refused(
                f"snapshot {snapshot_id} is the head of {kind} {name}",
                hint=f"drop or move {kind} {name} first",
                id="snapshot-referenced",
            )
    decisions, to_expire = [], frozenset(ids)
    for item in metadata.snapshots:
        stays = item.snapshot_id not in to_expire
        reason = "not named" if stays else "named"
        decisions.append(Decision(item.snapshot_id, item.timestamp_ms, stays, reason))
    return Retention(tuple(decisions), ())
