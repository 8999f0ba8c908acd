"""The plan of an erasure: what becomes of each file with matching rows, and what still holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from icectl.format.manifest import Content
from icectl.format.snapshot import SnapshotRef

Fate = Literal["rewrite", "drop", "convert", "expire"]
"""A live file is rewritten without rows, dropped with all of them, or, with equality deletes,
rewritten or converted. A file that no branch has goes when its snapshots expire."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file with rows that match, deleted ones too.

    `snapshot_ids` are all snapshots that reach it. Sizes are in bytes.
    """

    location: str
    content: Content
    size_bytes: int
    record_count: int
    matching_record_count: int
    snapshot_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What an erasure would do to a table.

    `fates` has each file by its location. `snapshot_ids` are the snapshots that hold matching rows
    once the branches are rewritten: today's heads of these branches too. `branches` are rewritten;
    `tags` keep snapshots that hold rows.
    """

    files: tuple[HeldFile, ...]
    fates: Mapping[str, Fate]
    snapshot_ids: tuple[int, ...]
    branches: tuple[str, ...]
    tags: tuple[str, ...]


def plan_erasure(
    files: Sequence[HeldFile], snapshot_ids: Sequence[int], refs: Mapping[str, SnapshotRef]
) -> ErasePlan:
    """Decide what becomes of files with matching rows.

    Order: files and snapshots as given, branches and tags by name.
    """
    holding = frozenset[int]().union(*(file.snapshot_ids for file in files))
    held_refs = [(name, ref) for name, ref in sorted(refs.items()) if ref.snapshot_id in holding]
    heads = frozenset(ref.snapshot_id for _, ref in held_refs if ref.type == "branch")
    return ErasePlan(
        tuple(files),
        {file.location: _fate(file, heads) for file in files},
        tuple(id_ for id_ in snapshot_ids if id_ in holding),
        tuple(name for name, ref in held_refs if ref.type == "branch"),
        tuple(name for name, ref in held_refs if ref.type == "tag"),
    )


def _fate(file: HeldFile, heads: frozenset[int]) -> Fate:
    if not file.snapshot_ids & heads:
        return "expire"
    if file.content == Content.EQUALITY_DELETES:
        return "convert"  # a key may delete rows beyond those that match: never dropped by count
    if file.content == Content.DATA and file.matching_record_count == file.record_count:
        return "drop"
    return "rewrite"
