"""The steps of maintenance: one place decides what each command would do to a table.

`inspect health`, `maintain` and the health of many tables call a step, and the step calls its
command's own planner with the same options. A new step is a module `step.py` in its command's
folder, and a name in STEPS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from icectl.commands.bill import Work
from icectl.errors import CorruptTable, IcectlError, Refused, StorageError, Unsupported, UsageError
from icectl.format.properties import MALFORMED

if TYPE_CHECKING:  # what reads a table is imported by those who judge one
    from icectl.cli.settings import Settings
    from icectl.commands.sight import Sight

STEPS = (
    "expire-rows",
    "erase",
    "compact",
    "rewrite-manifests",
    "analyze",
    "expire-snapshots",
    "remove-orphans",
)
"""The commands that maintain a table, in the order in which they are run on it."""

OVER_BUDGET = "left to another run by `--max-rewrite` or `budget.rewrite-bytes`"
"""The reason of files that a plan leaves to another run."""

ASSESS = "assess"
"""The step that only looks."""

OPEN_COST_BYTES = 4 << 20
"""Bytes that a reader could read in the time it takes to open a file, as Spark plans with."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of work that a plan has, which a limit is compared with; `text` is the reason."""

    limit: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a command would do to a table: nothing without `measures`.

    `figures` are the command's own. `error` is what the command would end with instead; `options`
    are those that it needs beside its defaults; `note` is for people. It `drops` snapshots, or
    builds on what is lost with some (`stands_on`). `work` is what that takes, if it is known.
    """

    figures: Any
    measures: tuple[Measure, ...] = ()
    benefit_bytes: int = 0
    error: IcectlError | None = None
    options: tuple[str, ...] = ()
    note: str = ""
    drops: frozenset[int] = frozenset()
    stands_on: frozenset[int] = frozenset()
    work: Work | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether it is unknown what the table needs: it is damaged, or a property malformed."""
        is_damage = isinstance(self.error, CorruptTable | StorageError)
        return is_damage or (self.error is not None and self.error.error_id == MALFORMED)

    def due(self, limits: Mapping[str, float]) -> tuple[Measure, ...]:
        """Return the measures that reach their limits: with none of them the step can wait."""
        return tuple(item for item in self.measures if item.value >= limits.get(item.limit, 0))


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a step, by its name in `[health]` of the settings.

    `unit` is what is counted, `policy_help` what a policy's key of this name says.
    """

    name: str
    unit: str
    policy_help: str
    is_ratio: bool = False


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check of health, of the measures of some limits.

    `found` says in words what the figures of a step show, `members` for JSON.
    """

    name: str
    title: str
    limits: tuple[str, ...]
    found: Callable[[Any], str]
    members: Callable[[Any], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Step:
    """One maintenance command.

    `request` declares its options, and `read` reads them at a time in ms, before any table is.
    `plan` says what the command would do, and writes nothing;
    `nothing` are the figures where that could not be planned. `deletes` where it drops history or
    deletes files. `not_in_policies` are options of one run on one table, or of no rule, each with
    the key that stands for it. `with_limits` makes a request heed limits. `is_owed` where it is run
    whatever it pays. `asked_by_health` is the request that health judges by.
    """

    command: str
    request: type[Any]
    read: Callable[["Settings", int, Any], object]
    plan: Callable[["Sight", Any], Judgement]
    nothing: Any
    limits: tuple[Limit, ...]
    checks: tuple[HealthCheck, ...]
    deletes: bool = False
    is_owed: bool = False
    not_in_policies: Mapping[str, str | None] = field(default_factory=dict)
    with_limits: Callable[[Any, Mapping[str, float]], Any] = field(
        default=lambda request, _: request
    )
    asked_by_health: Callable[[], Any] | None = None

    @property
    def request_of_health(self) -> Any:
        """What health judges a table by: defaults, if the step says nothing else."""
        return (self.asked_by_health or self.request)()

    def judge(self, sight: "Sight", request: Any) -> Judgement:
        """Return what the command would do; what it would end with is part of the answer."""
        try:
            return self.plan(sight, request)
        except (Refused, Unsupported, CorruptTable, StorageError, UsageError) as error:
            return Judgement(self.nothing, error=error)


@cache
def step_of(command: str) -> Step:
    """Return the step of a command, imported now: help has no need of it."""
    name = STEPS[STEPS.index(command)].replace("-", "_")  # of the table alone, whatever is asked
    step: Step = import_module(f"icectl.commands.{name}.step").STEP
    return step


def judge_all(sight: "Sight", request_of: Callable[[Step], Any]) -> Mapping[str, Judgement]:
    """Judge a table by all steps, each with its request. Order: of STEPS."""
    steps = map(step_of, STEPS)
    return {step.command: step.judge(sight, request_of(step)) for step in steps}


def first_error(*checks: Callable[[], object]) -> IcectlError | None:
    """Return what the first failing check raises: the reason why a command would refuse."""
    for check in checks:
        try:
            check()
        except (Refused, Unsupported, CorruptTable, StorageError, UsageError) as error:
            return error
    return None
