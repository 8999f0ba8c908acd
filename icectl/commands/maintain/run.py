"""The run of `icectl maintain`: tables, policies, a look at each, steps, the report."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import Outcome, Status, json_line
from icectl.cli.naming import configuration_of, name_in_catalog, name_in_hints
from icectl.cli.options import Common, SparkRun, read_options
from icectl.cli.session import open_session
from icectl.cli.settings import COMPACT_ENGINE, COMPACT_MASTER, CONCURRENCY, UNTRUSTED_POLICY, Layer
from icectl.cli.signals import Terminated
from icectl.cli.targets import FoundTables, find_tables, look_at_each, missing_tables
from icectl.commands.maintain.ended_tables import EndedTables
from icectl.commands.maintain.options import MaintainRequest
from icectl.commands.maintain.plan import AssessedTable, RunBudget, Schedule, StepEnd, TableRun
from icectl.commands.maintain.policy import (
    KEYS,
    SPARK_KEYS,
    MaintenancePolicy,
    TablePolicy,
    Window,
    idle_rules,
    read_policy,
    thresholds_in,
)
from icectl.commands.maintain.report import (
    maintained_result,
    note_interrupted,
    print_maintained,
    print_policy,
    question,
    reason_of,
    totals,
)
from icectl.commands.maintain.saved_plans import (
    SavedMaintenance,
    kept_plan,
    on_spark,
    planned_run,
    policy_in,
    reviewed_steps,
)
from icectl.commands.maintain.step import (
    ReviewedPlan,
    StepContext,
    StepRequest,
    carry_out,
    check_options,
    options_given,
)
from icectl.commands.maintain.workers import StepsHere, StepsInWorkers
from icectl.commands.outcomes import exit_code_of
from icectl.commands.query_logs import LoggedScans, read_all_logs
from icectl.commands.rates import prices_of
from icectl.commands.steps import ASSESS, STEPS
from icectl.errors import Declined, Incomplete, ProblemsFound, UsageError
from icectl.format.properties import (
    GC_ENABLED,
    MAINTAIN_ENABLED,
    MAX_REF_AGE_MS,
    MAX_SNAPSHOT_AGE_MS,
    MIN_SNAPSHOTS_TO_KEEP,
    TableProperty,
)
from icectl.rows.choice import choose_engine
from icectl.storage.open import requests_at_once
from icectl.units import print_count, print_size

COMMAND = "maintain"
_TABLE_LIMITS: Sequence[TableProperty[Any]] = (
    MAINTAIN_ENABLED,
    GC_ENABLED,
    MAX_SNAPSHOT_AGE_MS,
    MIN_SNAPSHOTS_TO_KEEP,
    MAX_REF_AGE_MS,
)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What is asked of a run: the tables, each with its policy, and how it is carried out.

    A plan to keep is made at `instant_ms`; `reviewed` is what each step of a table
    may do by a plan that was kept, `logged` how often logs say that a table is read.
    """

    common: Common
    request: MaintainRequest
    tables: Sequence[str]
    policies: Mapping[str, TablePolicy]
    only: tuple[str, ...] = STEPS
    jobs: int = 1
    instant_ms: int | None = None
    reviewed: Mapping[str, Mapping[str, ReviewedPlan]] = field(default_factory=dict)
    logged: Mapping[str, LoggedScans | None] = field(default_factory=dict)

    @property
    def planning(self) -> bool:
        """Whether nothing may change."""
        return self.request.dry_run or self.request.check

    def steps(self, table: str) -> tuple[str, ...]:
        """Return the steps that may be run on a table."""
        return self.policies[table].steps(self.only)

    def job(
        self,
        table: str,
        step: str,
        seconds_left: float,
        *,
        alone: bool = False,
        rewritten_bytes: int | None = None,
    ) -> StepRequest:
        """Return a step on a table, as it goes to its worker."""
        concurrency = None
        if self.jobs > 1:  # all steps together have the files at once of one
            settings = self.common.shell.settings
            concurrency = requests_at_once(settings.read(CONCURRENCY), table)
            if step == "compact":  # each of its processes holds row groups
                concurrency = min(concurrency, max(os.cpu_count() or 1, 1))
            concurrency = max(concurrency // self.jobs, 1)
        reviewed = self.reviewed.get(table, {}).get(step)
        is_planned = reviewed is not None or (self.planning and step in STEPS)
        return StepRequest(
            table=table,
            step=step,
            policy=self.policies[table],
            options=options_given(self.common),
            steps=self.steps(table),
            concurrency=concurrency,
            planning=self.planning,
            is_alone=alone,
            seconds_left=seconds_left,
            instant_ms=self.instant_ms if is_planned else None,
            reviewed=reviewed,
            is_strict=self.request.strict,
            rewritten_bytes=rewritten_bytes,
            logged=self.logged.get(table),
        )


def run(
    common: Common, targets: Sequence[str], request: MaintainRequest, spark: SparkRun
) -> Outcome:
    """Find the tables and, unless their plan or policy is all that was asked for, maintain them."""
    other = "--json" if common.json else f"--format {request.format}" if request.format else None
    if request.json_lines and other is not None:
        raise UsageError(f"`{other}` and `--json-lines` cannot be used together")
    if common.path_map or common.path_map_file:
        raise UsageError("`--path-map` is for reading, and this command changes tables")
    policy = MaintenancePolicy()
    if request.policy is not None:
        is_trusted = not common.shell.settings.read(UNTRUSTED_POLICY)
        policy = read_policy(request.policy, is_trusted=is_trusted)
        for message in policy.renamed:
            common.shell.console.warn(message)
    policy = replace(policy, base=thresholds_in(common.shell.settings))
    matched = find_tables(common, targets, request.exclude or ())
    policies = {
        table: on_spark(policy.of(name_in_hints(common, table)), spark) for table in matched.tables
    }
    _check_options(policies, common)
    instant_ms = common.shell.env.now_ms() if request.save_plan else None
    values = read_options(request)
    if values["max_price"] is not None and not prices_of(common.shell.settings).are_set:
        hint = "set what a store and a machine cost in `[prices]` of icectl.toml"
        raise UsageError("`--max-price` needs prices, and none is set", hint=hint)
    setup = _Setup(
        common,
        request,
        matched.tables,
        policies,
        values["only"] or STEPS,
        values["jobs"] or 1,
        instant_ms,
        logged=_logged(common, matched.tables, request.queries),
    )
    if request.explain:
        return _explain(setup)
    words = [COMMAND, *targets, *(["--policy", request.policy] if request.policy else ())]
    ended = EndedTables(common, words, setup.planning, request.json_lines)
    _check_matches(setup, targets, matched, policy)
    tables = _assess_tables(setup, matched)
    budget = RunBudget(values["max_rewrite"], values["max_price"])
    for table in tables if budget.is_limited else ():
        table.begin(budget)
    budget.share_out(tables)
    work = [table for table in tables if table.left]
    if work and not (setup.planning or request.yes or request.policy):
        _confirm(common, tables)
    _maintain(setup, tables, ended, budget)
    return _outcome(setup, tables, ended)


def _logged(
    common: Common, tables: Sequence[str], paths: Sequence[str] | None
) -> Mapping[str, LoggedScans | None]:
    """Return how often logs say that each table is read. Raises: UsageError, for missing files."""
    if not paths:
        return {}
    reads = read_all_logs(paths)
    console = common.shell.console
    if reads.days is None:
        console.warn("`--queries`: logs of less than a day do not say how often tables are read")
        return {}
    skipped = reads.unreadable_lines + reads.other_lines
    if skipped or reads.unreadable_files:
        lines, files = (
            print_count(skipped, "line"),
            print_count(len(reads.unreadable_files), "file"),
        )
        console.note(f"`--queries`: {lines} skipped, {files} read in part")
    return {table: reads.scans_of(_names_in_logs(common, table)) for table in tables}


def _names_in_logs(common: Common, table: str) -> tuple[str, ...]:
    name = name_in_catalog(common, table)
    if name is not None:
        return (".".join(name.parts),)
    place = table.rstrip("/")
    return (".".join(part.removesuffix(".db") for part in place.split("/")[-2:]), place)


def apply_plan(
    common: Common,
    file: str,
    saved: SavedMaintenance,
    spark: SparkRun,
    *,
    dry_run: bool,
    allow_newer: bool,
) -> Outcome:
    """Carry out a plan of maintenance: the first step of a table exactly, others within it."""
    policies = {
        table.table: on_spark(policy_in(table.policy, file), spark) for table in saved.tables
    }
    _check_options(policies, common)
    setup = _Setup(
        common,
        MaintainRequest(dry_run=dry_run),
        tuple(policies),
        policies,
        instant_ms=saved.instant_ms,
        reviewed={
            table.table: reviewed_steps(table, allow_newer=allow_newer) for table in saved.tables
        },
    )
    ended = EndedTables(common, ["apply", file], setup.planning)
    seen = _assess_tables(setup, FoundTables(tuple(policies), ()))
    tables = [
        planned_run(*pair)
        for pair in zip(saved.tables, [table.first for table in seen], strict=True)
    ]
    _maintain(setup, tables, ended, RunBudget())
    return _outcome(setup, tables, ended)


def _check_matches(
    setup: _Setup, targets: Sequence[str], tables: FoundTables, policy: MaintenancePolicy
) -> None:
    """Warn of patterns and rules that match nothing. Raises: UsageError, with `--strict`.

    Rules are for more runs than this one: only a plan warns of them, other runs note them.
    """
    common, console = setup.common, setup.common.shell.console
    idle = [f"`--exclude {pattern}` leaves no table out" for pattern in tables.idle]
    rules = list(
        idle_rules(
            policy,
            [name_in_hints(common, target) for target in targets],
            [name_in_hints(common, table) for table in tables.tables],
            configuration_of(common).__contains__,
        )
    )
    steps = {step for table in setup.tables for step in setup.steps(table)}
    only = setup.only if setup.request.only is not None else ()
    idle += [f"`--only {step}`: no policy has this step" for step in only if step not in steps]
    for message in idle + rules:
        if setup.request.strict:
            raise UsageError(message, hint="without `--strict` this is a warning")
        if message in idle or setup.planning:
            console.warn(message)
        else:
            console.note(message)


def _check_options(policies: Mapping[str, TablePolicy], common: Common) -> None:
    """Have each policy's options read, but equal ones once. Raises: UsageError."""
    checked: list[TablePolicy] = []
    for policy in policies.values():
        if policy not in checked:
            check_options(policy, common.shell)
            checked.append(policy)


def _explain(setup: _Setup) -> Outcome:
    """Return the effective policy of one table."""
    if len(setup.tables) != 1:
        raise UsageError(
            f"`--explain` accepts one table, but TARGET selects {len(setup.tables):,}",
            hint="`--dry-run` lists them",
        )
    [table] = setup.tables
    texts: list[tuple[str, str, str]] = []
    values, settings = setup.policies[table].values, setup.common.shell.settings
    for key in KEYS.values():  # and settings for keys that the policy lacks
        value = values.get(key.name)
        if value is not None:
            texts.append((key.name, value.shown, value.origin))
        elif key.setting is not None and settings.origin(key.setting).layer is not Layer.BUILT_IN:
            setting = settings.values[key.setting.key]
            texts.append((key.name, setting.text, setting.origin.text))
    session = open_session(setup.common, table, read_only=True)
    metadata = session.open_for_reading("explained").metadata
    texts += [
        (property_.name, metadata.properties[property_.name], "table property")
        for property_ in _TABLE_LIMITS
        if property_.name in metadata.properties
    ]
    for name, ref in metadata.refs.items():
        limits = (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
        if limits != (None, None, None):
            texts.append((f"retention of {ref.type} {name}", "of its own", "table"))
    result = {
        "table": table,
        "steps": list(setup.steps(table)),
        "policy": [dict(zip(("key", "value", "origin"), text, strict=True)) for text in texts],
    }
    return Outcome(COMMAND, {"explained": result}, lambda console: print_policy(console, result))


def _assess_tables(setup: _Setup, tables: FoundTables) -> list[TableRun]:
    """Assess every table that may be maintained now. Order: that of the tables."""
    shell = setup.common.shell
    place = StepContext(shell.env, shell.interrupts, lambda: shell.deadline.passed)
    progress = shell.console.progress
    progress.phase("checking tables", total=len(setup.tables))

    def look(table: str) -> TableRun:
        policy, skipped = setup.policies[table], None
        window: Window | None = policy.read("window")
        if not policy.read("enabled"):
            skipped = f"left out by {policy.values['enabled'].origin}"
        elif window is not None and not (setup.planning or window.left_ms(shell.env.now_ms())):
            skipped = f"outside its window {window.text}"
        if skipped is not None:
            return TableRun(table, AssessedTable(end=StepEnd(ASSESS, "skipped", reason=skipped)))
        end, seen = carry_out(setup.job(table, ASSESS, shell.deadline.remaining_seconds), place)
        progress.advance(1)
        return TableRun(table, AssessedTable(end=end) if seen is None else seen)

    missing = missing_tables(setup.common, tables)
    runs = look_at_each(setup.common, setup.tables, look)
    for target, error in missing:
        end = StepEnd(ASSESS, "failed", error.exit_code, error.message, error.hint, error.id)
        runs.append(TableRun(target, AssessedTable(end=end)))
    return runs


def _confirm(common: Common, tables: Sequence[TableRun]) -> None:
    """Ask once, for all tables. Raises: Declined; UsageError, if no user can answer."""
    console = common.shell.console
    if not console.asks:
        raise UsageError(
            "cannot ask for confirmation without a terminal",
            hint="confirm with `--yes` or a `--policy`, or see the plan with `--dry-run`",
            id="confirmation-needed",
        )
    for table in tables:
        steps = ", ".join(need.step for need in table.left) or reason_of(table) or "nothing to do"
        console.note(f"{table.name}: {steps}")
    if not console.ask(question(tables)):
        raise Declined


def _maintain(
    setup: _Setup, tables: Sequence[TableRun], ended: EndedTables, budget: RunBudget
) -> None:
    """Run the steps that tables need, until none is left or time is up."""
    alone = frozenset(
        (run.name, step) for run in tables if run.left for step in _spark_steps(setup, run.name)
    )
    schedule = Schedule(tables, alone)
    console = setup.common.shell.console
    console.progress.phase("maintaining tables")
    shell = setup.common.shell
    steps: StepsHere | StepsInWorkers = StepsInWorkers(setup.jobs, console.note)
    if setup.jobs == 1 and not alone:
        steps = StepsHere(StepContext(shell.env, shell.interrupts, lambda: False))
    try:
        with steps as runner:
            while True:
                _start_steps(setup, schedule, runner)
                ended.tell(tables)
                if not schedule.running:
                    break
                console.progress.rename(_progress_text(schedule))
                number, (end, seen) = runner.wait()
                schedule.tables[number].ended(end, seen)
                budget.share_out(tables)
                ended.log_step(schedule.tables[number], end)
                if not schedule.has_alone:
                    runner.end_spark()
    except (KeyboardInterrupt, Terminated):
        note_interrupted(console, tables)
        ended.tell_rest(tables)
        raise
    ended.tell_rest(tables)
    for table in tables:
        for warning in (text for end in table.ends for text in end.warnings):
            console.warn(f"{table.name}: {warning}")


def _start_steps(setup: _Setup, schedule: Schedule, runner: StepsHere | StepsInWorkers) -> None:
    """Start steps while a worker is free and time is left."""
    deadline = setup.common.shell.deadline
    while len(schedule.running) < runner.count and not deadline.passed:
        table = schedule.next()
        if table is None:
            return
        seconds = _seconds(setup, table)
        if seconds is None:
            window = setup.policies[table.name].values["window"].shown
            table.skipped = f"outside its window {window}"
            continue
        step = table.next_step
        assert step is not None
        if seconds <= 0:
            budget = setup.policies[table.name].values["budget.time"].shown
            reason = f"the {budget} of this run for a table are used up"
            code = Incomplete.exit_code
            table.ended(StepEnd(step, "incomplete", code, reason, error_id="time-limit"), None)
            continue
        own_bytes = setup.policies[table.name].read("budget.rewrite-bytes")
        most_bytes, alone = table.start(own_bytes), (table.name, step) in schedule.alone
        job = setup.job(table.name, step, seconds, alone=alone, rewritten_bytes=most_bytes)
        reviewed, location = job.reviewed, table.metadata_location
        if reviewed is not None and reviewed.base.metadata_location and location is not None:
            # Its plan expects the state that earlier steps left.
            base = replace(reviewed.base, metadata_location=location)
            job = replace(job, reviewed=replace(reviewed, base=base))
        runner.start(schedule.tables.index(table), job)


def _seconds(setup: _Setup, table: TableRun) -> float | None:
    """Seconds for a table's next step, by run, window and budget; None if its window is closed."""
    shell, policy = setup.common.shell, setup.policies[table.name]
    seconds = shell.deadline.remaining_seconds
    window: Window | None = policy.read("window")
    if window is not None and not setup.planning:
        left_ms = window.left_ms(shell.env.now_ms())
        if left_ms is None:
            return None
        seconds = min(seconds, left_ms / 1000)
    budget_ms: int | None = policy.read("budget.time")
    return seconds if budget_ms is None else min(seconds, budget_ms / 1000 - table.seconds)


def _spark_steps(setup: _Setup, table: str) -> Iterator[str]:
    """Yield the steps of a table that use Spark; one session serves the whole run."""
    policy, settings = setup.policies[table], setup.common.shell.settings

    engine = policy.read(COMPACT_ENGINE.key) or settings.read(COMPACT_ENGINE)
    of_spark = ("compact.master", "compact.remote", "compact.spark-conf")
    is_for_spark = any(policy.read(key) for key in of_spark) or bool(settings.read(COMPACT_MASTER))
    choice = choose_engine(engine, for_spark=is_for_spark)
    if choice.name == "spark" and not setup.planning:  # a plan of it starts nothing
        yield "compact"
    if policy.read("remove-orphans.engine") == "spark":
        yield "remove-orphans"


def _progress_text(schedule: Schedule) -> str:
    current = [f"{run.next_step} {run.name}" for run in schedule.running]
    changed = sum(
        end.figures.get("rewritten_bytes", 0) + end.figures.get("deleted_bytes", 0)
        for table in schedule.tables
        for end in table.ends
        if end.status != "planned"
    )
    size = f", {print_size(changed)}" if changed else ""
    return f"{schedule.done_count} of {len(schedule.tables)} tables{size}: {', '.join(current)}"


def _outcome(setup: _Setup, tables: Sequence[TableRun], ended: EndedTables) -> Outcome:
    request = setup.request
    ordered = sorted(tables, key=lambda run: (-run.first.benefit_bytes, run.name))
    codes = [table.exit_code for table in tables]
    if request.check:
        codes += [ProblemsFound.exit_code for table in tables if table.has_work_or_errors]
    code = exit_code_of(codes, check=request.check)
    statuses = {table.status for table in tables}
    status: Status = "done" if "done" in statuses else "nothing-to-do"
    if code in (3, 12):
        status = "unknown" if code == 12 else "incomplete"
    elif setup.planning and "planned" in statuses:
        status = "planned"
    plan = None
    if request.save_plan is not None and setup.instant_ms is not None:
        if any(not SPARK_KEYS.isdisjoint(policy.values) for policy in setup.policies.values()):
            setup.common.shell.console.note(
                "not in the plan: the policy's Spark settings; give them to `icectl apply` again"
            )
        plan = kept_plan(setup.common, ordered, setup.policies, setup.instant_ms)

    ended.log_end(code)

    def render(console: Console) -> None:
        if not request.json_lines:
            print_maintained(console, ordered, planning=setup.planning)
            return
        last = {"run": ended.run_id, "totals": totals(ordered), "exit": code, "status": status}
        console.print(json_line(last))

    return Outcome(
        COMMAND,
        {"run": ended.run_id, **maintained_result(ordered)},
        render,
        exit_code=code,
        status=status,
        dry_run=setup.planning,
        plan=plan,
    )
