"""The plan of an erasure: which branches are rewritten, what of the history holds rows: pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from icectl.cli.patterns import matches
from icectl.commands.expire_rows.plan import ExpiringFile, over_fraction
from icectl.commands.matching import Matches
from icectl.errors import Refused
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import SnapshotRef
from icectl.units import print_count

MAX_FRACTION = 0.05
"""The part of a branch's rows that may go at once."""

ROUNDS = 3
"""How often a run looks again for rows that arrive during it."""


_ONCE = "has bounds or partitions of files that are gone, which may have had such rows"


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for, without a key: a condition as text, or the columns of some keys."""

    where: str | None = None
    key_columns: tuple[str, ...] = ()
    key_count: int | None = None
    keys_digest: str | None = None


@dataclass(frozen=True, slots=True)
class HoldingBranch:
    """A branch whose head names files with matches.

    `files` are its data files with matching rows, live or deleted; there are none if only deletes
    or manifests have to be rewritten.
    """

    name: str
    live_row_count: int
    files: tuple[ExpiringFile, ...]

    @property
    def row_count(self) -> int:
        """The live rows that go."""
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True, slots=True)
class Left:
    """Something that holds rows, or may hold some, and why."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What an erasure would do to a table.

    `snapshot_ids` are the snapshots that name files with matches, heads of branches too, `tags` and
    `branches` the refs on them. Of the tags `dropped` go. History goes if it `expires`.
    """

    sought: Sought
    found: Matches
    branches: tuple[HoldingBranch, ...]
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    dropped: tuple[str, ...]
    expires: bool
    max_fraction: float

    @property
    def row_count(self) -> int:
        return sum(branch.row_count for branch in self.branches)

    @property
    def refusal(self) -> Refused | None:
        """The error of an erasure of too many rows of a branch."""
        for branch in self.branches:
            refusal = over_fraction(branch.row_count, branch.live_row_count, self.max_fraction)
            if refusal is not None:
                return refusal
        return None


def plan_erasure(
    metadata: TableMetadata,
    sought: Sought,
    found: Matches,
    branches: Sequence[HoldingBranch],
    patterns: Sequence[str],
    *,
    expires: bool,
    max_fraction: float,
) -> ErasePlan:
    """Return the plan for the files that were found. Order: tags by name."""
    holding = found.snapshots_of(found.files)
    tags = tuple(sorted(refs_on(metadata.refs, "tag", holding)))
    return ErasePlan(
        sought,
        found,
        tuple(branches),
        holding,
        tags,
        tuple(tag for tag in tags if is_dropped(tag, patterns)),
        expires,
        max_fraction,
    )


def refs_on(refs: Mapping[str, SnapshotRef], kind: str, ids: Collection[int]) -> list[str]:
    """Return the branches, or the tags, on some snapshots. Order: of the table."""
    return [name for name, ref in refs.items() if ref.type == kind and ref.snapshot_id in ids]


def is_dropped(tag: str, patterns: Sequence[str]) -> bool:
    """Return whether a tag is named by one of some names and patterns."""
    return any(tag == pattern or matches([pattern], [tag]) for pattern in patterns)


def what_holds(
    metadata: TableMetadata, found: Matches, *, expires: bool, patterns: Sequence[str]
) -> list[Left]:
    """Return the refs and snapshots that still name files with matches, and what leads on."""
    holding = found.snapshots_of(found.files)
    naming = found.snapshots_of([file for file in found.files if file.count is not None])

    def what(id_: int) -> str:
        return "names files with such rows" if id_ in naming else _ONCE

    at_ref = {name: f"its snapshot {what(ref.snapshot_id)}" for name, ref in metadata.refs.items()}
    left = [
        Left(f"branch {name}", f"{at_ref[name]}; another run of erase rewrites it")
        for name in refs_on(metadata.refs, "branch", holding)
    ]
    for name in refs_on(metadata.refs, "tag", holding):
        is_named = expires and is_dropped(name, patterns)
        hint = "another writer has set it" if is_named else f"`--drop-tags {name}` drops it"
        left.append(Left(f"tag {name}", f"{at_ref[name]}; {hint}"))
    on_refs = {ref.snapshot_id for ref in metadata.refs.values()}
    hint = "" if expires else "; `--expire-history` expires it"
    left += [
        Left(f"snapshot {id_}", f"it {what(id_)}{hint}") for id_ in holding if id_ not in on_refs
    ]
    left += [Left(place, f"it can't be read: {why}") for place, why in found.unread.items()]
    return left


def question(
    plan: ErasePlan, location: str, orphans: Sequence[str], *, deletes_versions: bool
) -> str | None:
    """Return the question before an erasure; None if it changes nothing."""
    parts = []
    if plan.branches:
        names = ", ".join(branch.name for branch in plan.branches)
        parts.append(f"erase {print_count(plan.row_count, 'row')} of {names}")
    if plan.dropped:
        parts.append(f"drop {print_count(len(plan.dropped), 'tag')}")
    if plan.expires and plan.snapshot_ids:
        parts.append(f"expire up to {print_count(len(plan.snapshot_ids), 'snapshot')}")
    if plan.expires and (parts or orphans):
        parts.append("delete old orphans with such rows")
    if deletes_versions:
        parts.append("delete previous versions of what it deletes")
    return f"{', '.join(parts)} of {location}? This can't be undone" if parts else None
