"""The plan of a change of branches and tags: pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from icectl.errors import CommitConflict, Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import SnapshotRef, ancestors
from icectl.format.updates import RemoveSnapshotRef, SetSnapshotRef, Update
from icectl.table.reader import SnapshotChoice, chosen_snapshot
from icectl.units import print_instant, read_count


@dataclass(frozen=True, slots=True)
class RefChange:
    """A branch or tag before and after; None where it is not there.

    `leaving` are the snapshots that the branch loses, newest first.
    """

    name: str
    before: SnapshotRef | None
    after: SnapshotRef | None
    leaving: tuple[int, ...] = ()


def refs_of(metadata: TableMetadata) -> dict[str, SnapshotRef]:
    """Return all branches and tags by name, main first."""
    refs = dict(metadata.refs)
    main = refs.pop("main", None)
    if main is None and metadata.current_snapshot_id is not None:
        main = SnapshotRef(metadata.current_snapshot_id, "branch")
    return {"main": main, **refs} if main is not None else refs


def snapshot_at(metadata: TableMetadata, where: str, instant_ms: int | None) -> int:
    """Return the id of a snapshot that is named by a ref, an id, or an instant of main's history.

    `instant_ms` is what `where` means as an instant; None if it is none. Raises: UsageError.
    Spec: R-029.
    """
    if where in refs_of(metadata):
        choice = SnapshotChoice(ref=where)
    elif (snapshot_id := read_count(where)) is not None:
        choice = SnapshotChoice(snapshot_id=snapshot_id)
    elif instant_ms is not None:
        choice = SnapshotChoice(as_of_ms=instant_ms)
    else:
        raise UsageError(
            f"`{where}` is not a branch, tag, snapshot id or timestamp",
            hint="`icectl refs TABLE` and `icectl inspect TABLE snapshots` list them",
        )
    snapshot = chosen_snapshot(metadata, choice)
    if snapshot is None:
        raise UsageError("the table has no snapshot yet")
    return snapshot.snapshot_id


def plan_ref(
    metadata: TableMetadata,
    kind: str,
    name: str,
    snapshot_id: int | None,
    retention: Mapping[str, int | None],
    *,
    replaces: bool,
) -> RefChange | None:
    """Plan to make a branch or tag, or to move one; None if it is so already.

    `snapshot_id` None: the head of main, or where the ref is. `retention` has settings by member,
    None for those that stay. Raises: Refused; UsageError.
    """
    before = refs_of(metadata).get(name)
    if before is not None and before.type != kind:
        hint = None if name == "main" else f"`icectl refs TABLE drop {name}` drops it"
        raise Refused(f"`{name}` is a {before.type}", hint=hint)
    if snapshot_id is None:
        snapshot_id = snapshot_at(metadata, "main", None) if before is None else before.snapshot_id
    base = before or SnapshotRef(snapshot_id, kind)
    settings: dict[str, Any] = {name: value for name, value in retention.items() if value}
    after = replace(base, snapshot_id=snapshot_id, **settings)
    if after == before:
        return None
    if before is not None and not replaces:
        raise Refused(
            f"{kind} `{name}` exists already, at snapshot {before.snapshot_id}",
            hint="`--replace` moves it",
        )
    return _change(metadata, name, before, after)


def plan_drop(metadata: TableMetadata, name: str) -> RefChange | None:
    """Plan to drop a branch or tag; None if there is none. Raises: Refused, for main."""
    before = refs_of(metadata).get(name)
    if name == "main":
        raise Refused("branch main cannot be dropped")
    return None if before is None else _change(metadata, name, before, None)


def plan_rollback(
    metadata: TableMetadata, branch: str, where: str, instant_ms: int | None
) -> RefChange | None:
    """Plan to take a branch back to one of its own older snapshots; None if it is there.

    An instant means the newest snapshot of the branch that is not younger. Raises: Refused;
    UsageError.
    """
    before = _branch(metadata, branch)
    line = list(ancestors(metadata.snapshots_by_id, before.snapshot_id))
    if where in refs_of(metadata) or read_count(where) is not None or instant_ms is None:
        target = snapshot_at(metadata, where, instant_ms)
    else:
        older_snapshot = next((item for item in line if item.timestamp_ms <= instant_ms), None)
        if older_snapshot is None:
            raise UsageError(
                f"`{branch}` has no snapshot of {print_instant(instant_ms)} or before",
                hint="`icectl inspect TABLE snapshots` lists the remaining ones",
            )
        target = older_snapshot.snapshot_id
    if target not in {item.snapshot_id for item in line}:
        raise Refused(
            f"snapshot {target} is not an ancestor of `{branch}`",
            hint=f"`icectl refs TABLE branch {branch} --at {target} --replace` moves it anywhere",
        )
    return _moved(metadata, branch, before, target)


def plan_fast_forward(metadata: TableMetadata, branch: str, target: int) -> RefChange | None:
    """Plan to take a branch to a snapshot that descends from its head; None if it is there.

    Raises: Refused; UsageError.
    """
    before = _branch(metadata, branch)
    line = {ancestor.snapshot_id for ancestor in ancestors(metadata.snapshots_by_id, target)}
    if before.snapshot_id not in line:
        raise Refused(
            f"snapshot {target} does not descend from the head of `{branch}`, {before.snapshot_id}",
            hint="rebase the other branch with the engine that wrote it: this fast-forward would "
            "make snapshots unreachable",
        )
    return _moved(metadata, branch, before, target)


def updates(metadata: TableMetadata, changes: Sequence[RefChange]) -> Sequence[Update]:
    """Return the updates of the metadata. Raises: CommitConflict, if a ref has moved."""
    now = refs_of(metadata)
    for change in changes:
        if now.get(change.name) != change.before:
            raise CommitConflict(
                f"another writer has changed `{change.name}`",
                hint="check it with `icectl refs TABLE`, then run the command again",
            )
        if change.after is not None and metadata.snapshot(change.after.snapshot_id) is None:
            raise CommitConflict(f"snapshot {change.after.snapshot_id} has expired since then")
    return [
        RemoveSnapshotRef(change.name)
        if change.after is None
        else SetSnapshotRef(change.name, change.after)
        for change in changes
    ]


def _branch(metadata: TableMetadata, name: str) -> SnapshotRef:
    ref = refs_of(metadata).get(name)
    if ref is None:
        raise UsageError(f"the table has no branch `{name}`", hint="`icectl refs TABLE` lists them")
    if ref.type != "branch":
        raise UsageError(f"`{name}` is a {ref.type}; only branches have a history")
    return ref


def _moved(
    metadata: TableMetadata, name: str, before: SnapshotRef, target: int
) -> RefChange | None:
    if before.snapshot_id == target:
        return None
    return _change(metadata, name, before, replace(before, snapshot_id=target))


def _change(
    metadata: TableMetadata, name: str, before: SnapshotRef | None, after: SnapshotRef | None
) -> RefChange:
    leaving: Iterable[int] = ()
    if before is not None and before.type == "branch":
        remaining = () if after is None else ancestors(metadata.snapshots_by_id, after.snapshot_id)
        kept_ids = {snapshot.snapshot_id for snapshot in remaining}
        line = ancestors(metadata.snapshots_by_id, before.snapshot_id)
        leaving = takewhile(lambda id_: id_ not in kept_ids, (item.snapshot_id for item in line))
    return RefChange(name, before, after, tuple(leaving))
