"""Which files below a table may go: pure, from a listing and what the table reaches."""

from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """Why a file that the table does not reach goes, or stays."""

    ORPHAN = 0
    RECENT = 1
    WITHOUT_TIME = 2
    HIDDEN = 3
    JOURNAL = 4


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """What makes an orphan of a file that the table does not reach.

    It was modified before `older_than_ms`, and no part of its location behind one of `bases` begins
    with `_` or `.`, unless that is one of `partition_names` and its value.
    """

    older_than_ms: int
    bases: tuple[str, ...]
    partition_names: tuple[str, ...] = ()
