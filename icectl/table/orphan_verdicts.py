"""Which files below a table may go: pure, from a listing and what the table reaches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from icectl.entries.listed import ListedFile, ListedFiles, listed_bytes, listed_files, where
from icectl.table.plan_parts import Pin
from icectl.table.reviewed import DELETE_FILE, Reviewed, ReviewedAct, listed_file
from icectl.units import print_instant


class OrphanVerdict(IntEnum):
    """The verdict on a file that the table does not reach: why it goes, or stays."""

    ORPHAN = 0
    RECENT = 1
    WITHOUT_TIME = 2
    HIDDEN = 3
    JOURNAL = 4
    RUNNING = 5


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """The rule that makes an orphan of a file that the table does not reach.

    It was modified before `older_than_ms`, and no part of its location behind one of `bases` begins
    with `_` or `.`, unless that is one of `partition_names` and its value. Nor does its location
    hold the uuid of one of the `running` runs, which may still commit what they have written.
    """

    older_than_ms: int
    bases: tuple[str, ...]
    partition_names: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The plan of a run: the files that it would delete, of how much, and why the others stay.

    `outside` lies elsewhere than the table, in a folder that the caller named, and is deleted only
    if `deletes_outside`. `left_alone` counts files that nothing reaches by the reason why they
    stay; `referenced_count` is that of the files that the table refers to, there or not.
    """

    pin: Pin
    rule: OrphanRule
    listed_count: int
    listed_bytes: int
    referenced_count: int
    orphans: ListedFiles
    outside: ListedFiles
    left_alone: Mapping[OrphanVerdict, int]
    deletes_outside: bool
    max_fraction: float

    @property
    def deletable_bytes(self) -> int:
        """The bytes that a run would delete."""
        outside = listed_bytes(self.outside) if self.deletes_outside else 0
        return listed_bytes(self.orphans) + outside

    @property
    def deletable_count(self) -> int:
        """The number of files that a run would delete."""
        return len(self.orphans) + (len(self.outside) if self.deletes_outside else 0)

    @property
    def is_too_much(self) -> bool:
        """Whether more would go than the caller allows; that so much is orphaned hints at error."""
        return self.deletable_bytes > self.max_fraction * self.listed_bytes


def restrict_to_reviewed(plan: OrphanPlan, only: Reviewed) -> OrphanPlan:
    """The plan of those files alone that a plan names which was reviewed, and as it names them."""

    def named(found: ListedFiles) -> ListedFiles:
        return where(found, [_act(file) in only.acts for file in listed_files(found)])

    return replace(plan, orphans=named(plan.orphans), outside=named(plan.outside))


def _act(file: ListedFile) -> ReviewedAct:
    modified = None if file.modified_ms is None else print_instant(file.modified_ms)
    return ReviewedAct(DELETE_FILE, file.location, listed_file(file.size_bytes, modified))
