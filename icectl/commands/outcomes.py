"""How a command ended on a table, and the exit code of a run over several."""

from collections.abc import Mapping, Sequence
from typing import Literal

from icectl.errors import CommitConflict, CommitUnknown, Incomplete, ProblemsFound, Refused

Status = Literal[
    "done", "planned", "nothing-to-do", "skipped", "incomplete", "refused", "conflict", "failed",
    "unknown",
]  # fmt: skip

STATUSES: Sequence[Status] = (
    "nothing-to-do", "skipped", "planned", "done", "incomplete", "refused", "conflict", "failed",
    "unknown",
)  # fmt: skip
"""What a table can end as, the worst last."""

STATUS_NAMES: Mapping[str, str] = {"nothing-to-do": "nothing to do"}
"""Statuses that are not called in text what they are called in JSON."""


def status_of_error(exit_code: int) -> Status:
    """Return what an error makes of a step."""
    return _STATUS_OF_ERROR.get(exit_code, "failed")


_STATUS_OF_ERROR: Mapping[int, Status] = {
    Incomplete.exit_code: "incomplete",
    Refused.exit_code: "refused",
    CommitConflict.exit_code: "conflict",
    CommitUnknown.exit_code: "unknown",
}


def exit_code_of(codes: Sequence[int], *, check: bool) -> int:
    """Return the exit code of a run over several tables: 12 before 3 before 0, 4 for `--check`."""
    if CommitUnknown.exit_code in codes:
        return CommitUnknown.exit_code
    if check and ProblemsFound.exit_code in codes:
        return ProblemsFound.exit_code
    return Incomplete.exit_code if any(codes) else 0
