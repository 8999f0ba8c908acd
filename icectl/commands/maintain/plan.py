"""Which steps tables need, with reason and gain, which table is next, and what became of it: pure.

What each step would do is said by the step (icectl/commands/steps.py), as health shows it.
The tables whose steps pay back first come first, and where that is not known those with most to
gain. A step that lost against another writer is tried again once all
else has had its turn; after an unknown outcome no further step touches the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from icectl.commands.bill import Bill, never_pays, part_of_bill, print_money
from icectl.commands.outcomes import STATUSES, Status
from icectl.commands.steps import STEPS, Judgement, step_of
from icectl.errors import (
    CommitUnknown,
    CorruptTable,
    Incomplete,
    StorageError,
    TableNotFound,
    Unsupported,
)
from icectl.units import print_size


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table, as reports tell it before and after."""

    data_file_count: int
    data_file_bytes: int
    delete_file_count: int
    delete_file_bytes: int
    manifest_count: int
    manifest_bytes: int
    snapshot_count: int
    expirable_snapshot_count: int
    metadata_file_count: int

    @property
    def live_bytes(self) -> int:
        """Bytes of the live files."""
        return self.data_file_bytes + self.delete_file_bytes


@dataclass(frozen=True, slots=True)
class Need:
    """A step that a table needs, why, and how much reading and storing it saves, in bytes.

    `bill` is what it costs and brings, where that is known. Where a budget of the run limits it, it
    may rewrite `most_bytes`.
    """

    step: str
    reason: str
    benefit_bytes: int
    bill: Bill | None = None
    most_bytes: int | None = None

    @property
    def payback(self) -> tuple[float, float]:
        """Days, and scans, until it has paid for itself: infinite if that is not known."""
        known = (None, None) if self.bill is None else (
            self.bill.payback_days, self.bill.payback_scans
        )  # fmt: skip
        days, scans = (inf if value is None else value for value in known)
        return days, scans

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of data files that are compacted, and those read to convert their deletes."""
        if self.step != "compact" or self.bill is None:
            return 0
        return self.bill.work.copied_bytes + self.bill.work.decoded_bytes


@dataclass(frozen=True, slots=True)
class WithheldStep:
    """A step that a table would need, and what stands against it."""

    step: str
    reason: str


def needs(
    judged: Mapping[str, Judgement],
    limits: Mapping[str, Mapping[str, float]],
    steps: Sequence[str],
    bills: Mapping[str, Bill],
    payback_max_days: float | None = None,
) -> tuple[tuple[Need, ...], tuple[WithheldStep, ...]]:
    """Return the steps that a table needs of those that may be run, and those withheld.

    `judged` says what each would do, `limits` from where on it is worth a run. A step that damage
    keeps from its work is needed: its run reports the damage. Work that builds on a snapshot which
    another step drops is due whatever its limits. A step that pays back later than in
    `payback_max_days` is withheld, if `bills` know that and it is not owed. Order: of `judged`.
    """
    needed: list[Need] = []
    withheld: list[WithheldStep] = []
    due_of = {
        step: judgement.due(limits[step]) if step in steps else ()
        for step, judgement in judged.items()
    }
    dropped = frozenset[int]().union(*(judged[step].drops for step, due in due_of.items() if due))
    for step, judgement in judged.items():
        due = due_of[step]
        if step in steps and not dropped.isdisjoint(judgement.stands_on):
            due = judgement.measures
        reason, error = ", ".join(item.text for item in due), judgement.error
        if error is not None and judgement.is_unknown and step in steps:
            needed.append(Need(step, error.message, judgement.benefit_bytes))
        elif due and error is not None:
            withheld.append(WithheldStep(step, error.message))
        elif due:
            bill = bills.get(step)
            is_free = bill is None or payback_max_days is None or step_of(step).is_owed
            late = None if is_free else _why_late(bills[step], payback_max_days or 0)
            if late is not None:
                withheld.append(WithheldStep(step, late))
            else:
                needed.append(Need(step, reason, judgement.benefit_bytes, bill))
    return tuple(needed), tuple(withheld)


def _why_late(bill: Bill, most: float) -> str | None:
    """Return why a step does not pay back in so many days; None where it does, or may."""
    days = bill.payback_days
    if days is not None and days > most:
        return f"payback takes {days:,.1f} days, and `payback-max` is {most:,.1f}"
    return "no payback, as no query reads the table" if never_pays(bill) else None


@dataclass(slots=True)
class RunBudget:
    """What all steps of a run may still rewrite and cost; None for no limit.

    Steps are let in by their bills: those that pay back first, then those that bring most for what
    they read and write.
    """

    rewritten_bytes: float | None = None
    price: float | None = None

    @property
    def is_limited(self) -> bool:
        return self.rewritten_bytes is not None or self.price is not None

    def share_out(self, tables: Sequence["TableRun"]) -> None:
        """Let in the steps that wait and that there is enough for; none beside one that runs."""
        free = [table for table in tables if not table.is_running]
        waiting = [(table, need) for table in free for need in table.waiting.values()]
        for table, need in sorted(waiting, key=lambda step: _rank(step[1])):
            share = self._share_of(need)
            if share is not None:
                table.let_in(share)

    def _share_of(self, need: Need) -> Need | None:
        """Return a step, or as much of a compaction as there is enough for, and pay for it."""
        short = [
            max(left, 0.0) / wanted for left, wanted, *_ in self._limits(need) if wanted > left
        ]
        part = 1.0 if step_of(need.step).is_owed else min([1.0, *short])
        if part < 1 and (need.step != "compact" or int(need.rewritten_bytes * part) < 1):
            return None
        self._pay(need, part)
        if part == 1 or need.bill is None:
            return need
        bill, most_bytes = part_of_bill(need.bill, part), int(need.rewritten_bytes * part)
        return replace(need, bill=bill, most_bytes=most_bytes)

    def limited(self, share: Need) -> Need:
        """Return a compaction that begins with its limit: its own bytes, and all that is free.

        It may find more than was seen of the table. What is free is lent to one at a time.
        """
        if share.step != "compact" or share.most_bytes is not None:
            return share
        if not share.rewritten_bytes:  # what more would cost is not known
            free = max(int(self.rewritten_bytes or 0), 0)
            if self.rewritten_bytes is not None:
                self.rewritten_bytes -= free
            return replace(share, most_bytes=free)
        limits = [max(left, 0.0) / wanted for left, wanted, *_ in self._limits(share) if wanted > 0]
        if not limits:
            return share
        self._pay(share, min(limits))
        return replace(share, most_bytes=int(share.rewritten_bytes * (1 + min(limits))))

    def give_back(self, share: Need, used_bytes: int) -> None:
        """Take back what a compaction with a limit did not use."""
        if share.most_bytes is not None:
            unused = max(share.most_bytes - used_bytes, 0)
            if share.rewritten_bytes:
                self._pay(share, -unused / share.rewritten_bytes)
            elif self.rewritten_bytes is not None:
                self.rewritten_bytes += unused

    def take_back(self, share: Need) -> None:
        """Take back what a step was let in for that is not run."""
        self._pay(share, -1) if share.most_bytes is None else self.give_back(share, 0)

    def _pay(self, need: Need, part: float) -> None:
        if self.rewritten_bytes is not None:
            self.rewritten_bytes -= need.rewritten_bytes * part
        if self.price is not None and need.bill is not None:
            self.price -= (need.bill.cost or 0.0) * part

    def _limits(self, need: Need) -> Iterator[tuple[float, float, str]]:
        """Yield what is left of each limit, what a step wants of it, and both in words."""
        left, wanted = self.rewritten_bytes, need.rewritten_bytes
        if left is not None:
            free = print_size(max(int(left), 0))
            text = f"it rewrites {print_size(wanted)}, and `--max-rewrite` leaves {free}"
            yield left, wanted, text
        cost = 0.0 if need.bill is None else need.bill.cost or 0.0
        if self.price is not None:
            price, rest = print_money(cost), print_money(max(self.price, 0.0))
            yield self.price, cost, f"the price is {price}, and `--max-price` leaves {rest}"

    def reason(self, need: Need) -> str:
        """Return why a step waits."""
        texts = [text for left, wanted, text in self._limits(need) if wanted > left]
        return "; ".join(texts) or "its turn had not come"


def _rank(need: Need) -> tuple[bool, float, float, float]:
    """Return the place of a step among others: what is owed first, then what pays back first."""
    work = None if need.bill is None else need.bill.work
    moved = 0 if work is None else work.read_bytes + work.written_bytes
    effort = moved / need.benefit_bytes if need.benefit_bytes else inf
    return (not step_of(need.step).is_owed, *need.payback, effort)


WORKER_ENDED = "worker-ended"
"""The id of a failure after which it is unknown how far the step had come: no step follows."""

VALIDATE = "validate"
"""The step that comes before those that change a table."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step on a table ended; `figures` are the counts and bytes of its own report.

    `line` says what it has done.

    `plan` is what a file of plans keeps of it, `metadata_location` where the table's metadata lie
    after it; None if it was not asked for.
    """

    step: str
    status: Status
    exit_code: int = 0
    reason: str = ""
    hint: str | None = None
    error_id: str | None = None
    figures: Mapping[str, int] = field(default_factory=dict)
    line: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    plan: Mapping[str, Any] | None = None
    metadata_location: str | None = None

    @property
    def lost_to_others(self) -> bool:
        """Whether all that failed did so because another writer committed first."""
        failed = self.figures.get("failed", 0)
        return self.status == "conflict" or 0 < failed == self.figures.get("lost_groups", 0)


@dataclass(frozen=True, slots=True)
class AssessedTable:
    """What a look at a table says: what it needs, or why nothing is done with it."""

    facts: TableSize | None = None
    needs: tuple[Need, ...] = ()
    withheld: tuple[WithheldStep, ...] = ()
    end: StepEnd | None = None

    @property
    def benefit_bytes(self) -> int:
        """What maintaining the table saves."""
        return sum(need.benefit_bytes for need in self.needs)


@dataclass(slots=True)
class TableRun:
    """A table in a run: what was seen of it first and last, what is left to do, what was done.

    `withheld` are needed steps that are not run. Where `is_fixed`, the steps are those of a plan:
    none comes to them, and none follows one that did not end well. In a run with a `budget`
    the steps in `shares` are let in as far as these say, and others are `waiting`. `by_policy` are
    those that a budget of the table's own policy limits more.
    """

    name: str
    first: AssessedTable
    left: list[Need] = field(default_factory=list)
    ends: list[StepEnd] = field(default_factory=list)
    last: AssessedTable | None = None
    skipped: str | None = None
    is_running: bool = False
    seconds: float = 0.0
    again: set[str] = field(default_factory=set)
    is_validated: bool = False
    is_fixed: bool = False
    withheld: list[WithheldStep] = field(default_factory=list)
    budget: RunBudget | None = None
    shares: dict[str, Need] = field(default_factory=dict)
    waiting: dict[str, Need] = field(default_factory=dict)
    by_policy: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = list(self.first.needs)
        self.withheld = list(self.first.withheld)
        if self.first.end is not None:
            self.ends = [self.first.end]

    def begin(self, budget: RunBudget) -> None:
        """Have all steps wait for a budget."""
        self.budget = budget
        self.waiting, self.left = {need.step: need for need in self.left}, []

    def let_in(self, need: Need) -> None:
        """Have a step run that a budget has enough for."""
        del self.waiting[need.step]
        self.shares[need.step] = need
        self.left = sorted([*self.left, need], key=lambda one: STEPS.index(one.step))

    def start(self, own_bytes: int | None) -> int | None:
        """Begin the step that is due; returns how many bytes of a budget of the run it may rewrite.

        None where no such budget says, or `own_bytes` of the table's policy are fewer.
        """
        self.is_running = True
        if self.budget is None or self.next_step == VALIDATE:
            return None
        share = self.left[0] = self.shares[self.left[0].step] = self.budget.limited(self.left[0])
        if share.most_bytes is not None and own_bytes is not None and own_bytes <= share.most_bytes:
            self.by_policy.add(share.step)
        return self.most_bytes(share.step)

    def most_bytes(self, step: str) -> int | None:
        """Return how many bytes a step may rewrite; None where no budget of the run says."""
        share = self.shares.get(step)
        return None if share is None or step in self.by_policy else share.most_bytes

    @property
    def payback(self) -> tuple[float, float]:
        """Days and scans until the best of the steps that are left has paid for itself."""
        return min((need.payback for need in self.left), default=(inf, inf))

    @property
    def next_step(self) -> str | None:
        """The step that is due."""
        if not self.left:
            return None
        return self.left[0].step if self.is_validated else VALIDATE

    @property
    def worst(self) -> StepEnd | None:
        """The step that ended worst, the first of several; None where none was run."""
        ends = [end for end in self.ends if end.step != VALIDATE or end.exit_code]
        return max(ends, key=lambda step_end: STATUSES.index(step_end.status), default=None)

    @property
    def status(self) -> Status:
        """What became of the table."""
        worst = self.worst
        if worst is not None and worst.exit_code:
            return worst.status
        if self.left and self.skipped is None:
            return "incomplete"
        if worst is not None:
            return worst.status
        return "nothing-to-do" if self.skipped is None else "skipped"

    @property
    def exit_code(self) -> int:
        """The exit code that the table would have ended with by itself."""
        worst = self.worst
        if worst is not None and worst.exit_code:
            return worst.exit_code
        return Incomplete.exit_code if self.left and self.skipped is None else 0

    @property
    def has_work_or_errors(self) -> bool:
        """Whether `--check` exits with code 4: steps are planned, or it is not valid."""
        codes = [end.exit_code for end in self.ends if end.step == VALIDATE]
        return self.status == "planned" or CorruptTable.exit_code in codes

    @property
    def metadata_location(self) -> str | None:
        """Where the table's metadata lie, as far as its steps have told."""
        return next(filter(None, (end.metadata_location for end in reversed(self.ends))), None)

    def ended(self, end: StepEnd, seen: AssessedTable | None) -> None:
        """Take in how the step that was due ended; `seen` is the table after it, if looked at."""
        self.is_running = False
        self.seconds += end.seconds
        if end.step == VALIDATE:
            self.is_validated = True
            if end.status != "done":
                self.ends.append(end)
                self._withhold(end)
            return
        self.ends = [step_end for step_end in self.ends if step_end.step != end.step]
        self.ends.append(end)
        if end.lost_to_others and end.step not in self.again and not self.is_fixed:
            self.again.add(end.step)
            return
        share = self.left.pop(0)
        if self.budget is not None:
            used = (end.figures.get(name, 0) for name in ("rewritten_bytes", "converted_bytes"))
            self.budget.give_back(share, sum(used))
        if seen is not None and seen.facts is not None:
            self.last = seen
            if not self.is_fixed:  # the needed steps, but for those that had their turn
                done = {step_end.step for step_end in self.ends}
                self._need([need for need in seen.needs if need.step not in done])
        if end.exit_code in _SIGNS_OF_DAMAGE:
            self._withhold(end)
        is_over = end.error_id in _STOPPED or end.exit_code in _ENDS_THE_TABLE
        if is_over or (self.is_fixed and end.exit_code):
            self._need([])

    def _need(self, needs: Sequence[Need]) -> None:
        """Leave these steps alone to do; what a budget has let in for others it has again."""
        if self.budget is None:
            self.left = [*needs]
            return
        steps = {need.step for need in needs}
        for share in self.left:
            if share.step not in steps:
                self.budget.take_back(share)
        self.left = [share for share in self.left if share.step in steps]
        running = {share.step for share in self.left}
        self.waiting = {need.step: need for need in needs if need.step not in running}

    def _withhold(self, end: StepEnd) -> None:
        """Withhold what is left after a sign of damage: old snapshots may hold the last copies."""
        reason = (
            f"withheld, as `{end.step}` ended with {end.exit_code} and the table may be damaged"
        )
        needs = [*self.left, *self.waiting.values()]
        self.withheld += [WithheldStep(need.step, reason) for need in needs]
        self._need([])


_ENDS_THE_TABLE = frozenset({TableNotFound.exit_code, CommitUnknown.exit_code})
_SIGNS_OF_DAMAGE = frozenset(
    {StorageError.exit_code, Unsupported.exit_code, CorruptTable.exit_code}
)
"""Codes of steps after which nothing else is done with the table, lest last copies be deleted."""
_STOPPED = frozenset({"time-limit", "interrupted", WORKER_ENDED})


@dataclass(slots=True)
class Schedule:
    """The tables of a run, and whose turn it is. `alone` are steps of which one runs at a time."""

    tables: Sequence[TableRun]
    alone: frozenset[tuple[str, str]] = frozenset()

    def next(self) -> TableRun | None:
        """Return the table whose next step comes first; None if all that is left is under way."""
        is_taken = any(self._is_alone(table) for table in self.tables if table.is_running)
        free = [
            table
            for table in self.tables
            if not table.is_running
            and table.left
            and table.skipped is None
            and not (is_taken and self._is_alone(table))
        ]
        # Those that lost against another writer wait until the others have had their turn.
        ranks = [
            (
                table.left[0].step in table.again,
                table.payback,
                -table.first.benefit_bytes,
                table.name,
            )
            for table in free
        ]
        return free[ranks.index(min(ranks))] if free else None

    @property
    def running(self) -> Sequence[TableRun]:
        """The tables that a step is under way on."""
        return [table for table in self.tables if table.is_running]

    @property
    def done_count(self) -> int:
        """The number of tables that nothing more is done with."""
        return sum(not table.left or table.skipped is not None for table in self.tables)

    @property
    def has_alone(self) -> bool:
        """Whether any step that is left runs alone."""
        return any(
            (table.name, need.step) in self.alone
            for table in self.tables
            if table.skipped is None
            for need in table.left
        )

    def _is_alone(self, table: TableRun) -> bool:
        step = table.next_step
        return step is not None and (table.name, step) in self.alone
