"""The repairs of a broken table, and what cannot be set right: each with the reason; pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, get_args

from icectl.checks.rule import Finding
from icectl.errors import UsageError
from icectl.table.recovery import NOTHING, Loss, add_up

RepairLevel = Literal["metadata", "files", "footers"]
"""How deep a repair looks, as `validate` does."""

Kind = Literal[
    "metadata-file",
    "version-hint",
    "to-snapshot",
    "statistics",
    "manifest-list",
    "list-row",
    "manifest",
    "metrics",
    "dangling-deletes",
    "lost-data",
    "lost-deletes",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds of repairs, in the order in which they are told."""

OF_STATISTICS = frozenset({"R-140", "R-141", "R-142", "V4-023"})
"""Rules of statistics files, which no row depends on."""

OF_LIST_ROWS = frozenset({"R-047", "R-050", "R-051", "R-053", "R-171"})
"""Rules of what a manifest list says of a manifest, which the manifest itself can tell."""

OF_LISTS = frozenset({"R-031", "R-054"})
"""Rules of what a new manifest list and its snapshot say again."""

OF_METRICS = frozenset({"R-063", "R-067", "R-091", "R-092", "R-130", "R-134"})
"""Rules of what a manifest says of a data file, which its footer can tell."""

OF_DANGLING_VECTORS = frozenset({"R-116"})
"""Rules of deletion vectors that apply to nothing."""

_NO_PROOF = "nothing else in the table proves the right content"

_REASONS = (
    ("R-002", "the files of another table stay: `icectl validate` says what deletes them"),
    ("R-034", "the file is gone, and nothing else says what was in it"),
    ("R-063", "the footer of the file does not prove what the manifest should say"),
    ("R-066", "it is unknown which of the entries is right"),
    ("R-099", "the file can't be read: restore it, or move it away and use `--drop-missing`"),
    ("R-", _NO_PROOF),
    ("V4-00", _NO_PROOF),
    ("V4-01", _NO_PROOF),
    ("V4-02", _NO_PROOF),
    ("V4-", "roots and leaves of version 4 are not rebuilt"),
)
"""Why a finding stays, by the first of these that its rule begins with."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing that can be set right, and why that is sure.

    `id` is its kind, with a name where there may be several. The caller has to ask for one with a
    `loss`. `answers` are the findings that it makes an end of.
    """

    kind: Kind
    name: str | None
    subject: str
    what: str
    proof: str
    loss: Loss = NOTHING
    answers: frozenset[Finding] = field(default=frozenset())

    @property
    def id(self) -> str:
        """The name that `--skip` takes."""
        return self.kind if self.name is None else f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class RemainingFinding:
    """A finding that stays, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The plan of a repair: what is set right, what was asked to be left, and what stays broken."""

    level: RepairLevel
    branch: str
    fixes: tuple[Fix, ...]
    skipped: tuple[Fix, ...]
    left: tuple[RemainingFinding, ...]

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return bool(self.fixes)

    @property
    def errors_left(self) -> tuple[Finding, ...]:
        """The errors that stay. Order: kept."""
        return tuple(item.finding for item in self.left if item.finding.severity == "error")

    @property
    def loss(self) -> Loss:
        """What all repairs together lose."""
        return add_up([fix.loss for fix in self.fixes])

    def of(self, *kinds: Kind) -> tuple[Fix, ...]:
        """Return the repairs of some kinds. Order: kept."""
        return tuple(fix for fix in self.fixes if fix.kind in kinds)


def plan(
    level: RepairLevel,
    branch: str,
    fixes: Sequence[Fix],
    findings: Sequence[Finding],
    skip: Collection[str],
    reasons: Sequence[RemainingFinding] = (),
) -> RepairPlan:
    """Choose among what can be set right; `reasons` say why some of the findings cannot be.

    Findings that are only worth knowing are not told of.
    Raises: UsageError, where `skip` names nothing that there is.
    """
    check_skip(skip, fixes)
    chosen = [fix for fix in fixes if fix.kind not in skip and fix.id not in skip]
    answered = frozenset[Finding]().union(*(item.answers for item in chosen))
    by_kind = sorted(chosen, key=lambda item: KINDS.index(item.kind))
    skipped = tuple(fix for fix in fixes if fix not in chosen)
    known = {remaining.finding: remaining.reason for remaining in reasons}
    left = []
    for finding in findings:
        if finding in answered or finding.severity == "info":
            continue
        of_rule = (reason for start, reason in _REASONS if finding.rule.startswith(start))
        reason = known.get(finding) or next(of_rule)
        is_skipped = any(finding in fix.answers for fix in skipped)
        left.append(RemainingFinding(finding, "skipped as requested" if is_skipped else reason))
    return RepairPlan(level, branch, tuple(by_kind), skipped, tuple(left))


def check_skip(skip: Collection[str], fixes: Sequence[Fix]) -> None:
    """Check that all to skip are kinds of repairs or some of these. Raises: UsageError."""
    known = {*KINDS, *(fix.id for fix in fixes)}
    for name in sorted(set(skip) - known):
        if name.partition(":")[0] in KINDS:
            continue  # done already
        near = get_close_matches(name, sorted(known))
        hint = f"did you mean `{near[0]}`?" if near else f"kinds are `{'`, `'.join(KINDS)}`"
        raise UsageError(f"`--skip`: there is no repair `{name}`", hint=hint)
