"""One step on one table, in this process or in a worker: the single command, and what it ended as.

A step is the run of its command. Its options come from the policy, as if a settings file had
them: where the table's own properties keep more, they win. The steps that a table needs are judged
by its current metadata and manifests; of older snapshots only their summaries are read.
"""

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from icectl.catalog.protocol import LoadedTable, PlacesByCatalog
from icectl.cli.console import silent_console
from icectl.cli.document import Outcome, clean, table_json
from icectl.cli.failures import error_and_code, with_table
from icectl.cli.metrics import numbers_of
from icectl.cli.naming import name_in_hints
from icectl.cli.options import SPARK_OPTIONS, Change, Common, RunLimits, Shell
from icectl.cli.plans import Review, TableState, settings_in_full
from icectl.cli.registry import load_run
from icectl.cli.session import Session, connect_to, open_session
from icectl.cli.settings import (
    CONCURRENCY,
    ERASE_DEADLINE,
    ERASE_REQUESTED_AT,
    ORPHANS_OLDER_THAN,
    SETTINGS,
    TEMP_DIR,
    VALIDATE_LEVEL,
    Layer,
    Origin,
    Resolved,
    Setting,
    Settings,
    as_planned,
    resolve,
)
from icectl.cli.signals import Interrupts
from icectl.commands.bill import bill
from icectl.commands.maintain.plan import VALIDATE, AssessedTable, StepEnd, TableSize, needs
from icectl.commands.maintain.policy import KEYS, TablePolicy
from icectl.commands.many import finding_in_words, worst_finding
from icectl.commands.outcomes import Status, status_of_error
from icectl.commands.query_logs import LoggedScans
from icectl.commands.rates import prices_of, rates_of
from icectl.commands.sight import Sight
from icectl.commands.steps import ASSESS, STEPS, Judgement, judge_all, step_of
from icectl.commands.validate.options import ValidateRequest
from icectl.commit.attempt import CommitRequest, commit_changes
from icectl.env import Deadline, Env, InstantEnv
from icectl.errors import CommitConflict, CommitUnknown, CorruptTable, MissingFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import LAST_ORPHAN_SCAN, MAINTAIN_ENABLED, last_orphan_scan_ms, read
from icectl.format.updates import SetProperties, Update
from icectl.storage.location import is_local
from icectl.table.context import TableContext, open_table
from icectl.table.reader import Reader
from icectl.table.reviewed import PLANNED, Reviewed, ReviewedAct
from icectl.units import print_instant


def mark_looked_for(context: TableContext, at_ms: int) -> None:
    """Note in the table that orphans were looked for; where it says so already, do nothing.

    Raises: CommitUnknown; Unsupported, where the catalog cannot set properties; what loading and
    committing raise. A mark that conflicts is left to the next run.
    """
    loaded = open_table(context.catalog)
    loaded.capabilities.check_update(SetProperties, "record when orphans were last searched")

    def changes(metadata: TableMetadata) -> Sequence[Update]:
        """Set the property, unless another run has looked since."""
        known = last_orphan_scan_ms(metadata.properties, at_ms)
        if known is not None and known >= at_ms:
            return ()
        return (SetProperties({LAST_ORPHAN_SCAN.name: print_instant(at_ms)}),)

    try:
        commit_changes(context, loaded, changes, CommitRequest())
    except CommitConflict:
        return


def facts_of(sight: Sight, judged: Mapping[str, Judgement]) -> TableSize:
    """Return the size of a table that is judged."""
    totals = sight.totals
    return TableSize(
        data_file_count=totals.data_file_count,
        data_file_bytes=totals.data_file_bytes,
        delete_file_count=totals.delete_file_count,
        delete_file_bytes=totals.delete_file_bytes,
        manifest_count=judged["rewrite-manifests"].figures.count,
        manifest_bytes=judged["rewrite-manifests"].figures.size_bytes,
        snapshot_count=len(sight.metadata.snapshots),
        expirable_snapshot_count=judged["expire-snapshots"].figures.expired,
        metadata_file_count=judged["remove-orphans"].figures.count,
    )


_LOOK_SECONDS = 60.0
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ReviewedPlan:
    """The plan that a step is held to: its changes, and the settings that it was made with.

    Where it is not `exact`, less than its changes may be done, and never more.
    """

    base: TableState
    acts: frozenset[ReviewedAct]
    settings: Mapping[str, Mapping[str, str]]
    exact: bool


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A step on a table, as it goes to its worker.

    `options` are those of Common, as given; `concurrency` the files at once that are left to it;
    `planning` where nothing may change, `is_alone` where no other such step may run beside it. At
    `instant_ms`, if given, the plan is made and kept; `reviewed` is a plan that was reviewed.
    Where it `is_strict`, a budget that is too small for anything is an error. `rewritten_bytes` are
    what the run leaves to it, `logged` how often logs say that the table is read.
    """

    table: str
    step: str
    policy: TablePolicy
    options: Mapping[str, Any]
    steps: tuple[str, ...] = STEPS
    concurrency: int | None = None
    planning: bool = False
    is_alone: bool = False
    seconds_left: float = float("inf")
    instant_ms: int | None = None
    reviewed: ReviewedPlan | None = None
    is_strict: bool = False
    rewritten_bytes: int | None = None
    logged: LoggedScans | None = None


@dataclass(frozen=True, slots=True)
class StepContext:
    """What steps run with: the clock, the signals, and whether to stop early.

    `places_by_catalog` is as in Shell, for all steps of the run in this process.
    """

    env: Env
    interrupts: Interrupts
    is_stopped: Callable[[], bool]
    places_by_catalog: PlacesByCatalog = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _StoppableDeadline(Deadline):
    """A deadline that comes at once where the sender of the step says so."""

    is_stopped: Callable[[], bool] = bool

    @property
    def remaining_seconds(self) -> float:
        """Seconds left, none once the step is called off."""
        if self.is_stopped():
            return 0.0
        if self.ends_at_seconds is None:
            return float("inf")
        return self.ends_at_seconds - self.env.monotonic_seconds()


Done = tuple[StepEnd, AssessedTable | None]
"""How a step ended, and what is seen of the table after it, where it has changed."""


def carry_out(job: StepRequest, place: StepContext) -> Done:
    """Carry a step out, and look at the table again where it has changed; never raises Exception.

    What ends the program passes: KeyboardInterrupt and the like.
    """
    started = place.env.monotonic_seconds()
    shell = _shell(job, place)
    common = Common(shell=shell, json=True, **job.options)
    seen: AssessedTable | None = None
    try:
        if job.step != ASSESS:
            end = _run(common, job)
        else:
            session = open_session(common, job.table, read_only=False)
            loaded = open_table(session.context.catalog)
            if read(loaded.metadata.properties, MAINTAIN_ENABLED):
                session.context.catalog.check_writable(loaded)
                end, seen = StepEnd(ASSESS, "done"), _judged(common, session, loaded, job)
            else:
                reason = "its property `icectl.maintain.enabled` is false"
                end = StepEnd(ASSESS, "skipped", reason=reason)
                seen = AssessedTable(end=end)
    except Exception as error:  # noqa: BLE001 - one table's failure never stops the others
        end = _failed_end(common, job, error)
    else:
        if job.step in STEPS and not job.planning and end.status == "done":
            seen = _seen_after(common, job)
    took = place.env.monotonic_seconds() - started
    warnings = tuple(shell.console.redact(warning) for warning in shell.console.warnings)
    return replace(end, warnings=warnings, seconds=took), seen


def _judged(
    common: Common, session: Session, loaded: LoadedTable, job: StepRequest
) -> AssessedTable:
    """Judge a table by its policy: of older snapshots only summaries are read."""
    reader, read_key = Reader(session.context, loaded), job.policy.read
    snapshot, other = loaded.metadata.current_snapshot, partial(connect_to, common)
    sight = Sight(reader, session.settings, snapshot, is_exact=False, other=other)
    _ = sight.entries  # what cannot be read ends the look
    judged = judge_all(sight, lambda step: _request(step.command, job.policy))
    limits = {
        command: {
            **{
                limit.name: read_key(f"{command}.{limit.name}") for limit in step_of(command).limits
            },
            "every": read_key("remove-orphans.every"),
        }
        for command in judged
    }
    settings, scans = session.settings, read_key("scans-per-day")
    if job.logged is not None:
        scans = job.logged.per_day(sight.totals.data_file_count)
    rates = rates_of(settings, is_local=is_local(loaded.metadata.location))
    bills = {
        step: bill(judgement.work, rates, prices_of(settings), scans)
        for step, judgement in judged.items()
        if judgement.work is not None
    }
    payback_ms = read_key("payback-max")
    payback_days = None if payback_ms is None else payback_ms / _DAY_MS
    needed = needs(judged, limits, job.steps, bills, payback_days)
    return AssessedTable(facts_of(sight, judged), *needed)


def _seen_after(common: Common, job: StepRequest) -> AssessedTable | None:
    """Look at a table that a step has changed; None where that fails, which the next step tells.

    A limit that has passed leaves time for it: the report is to tell what was done.
    """
    try:
        env = common.shell.env
        deadline = Deadline(env, env.monotonic_seconds() + _LOOK_SECONDS)
        free = replace(common, shell=replace(common.shell, review=None, deadline=deadline))
        session = open_session(free, job.table, read_only=False)
        return _judged(free, session, open_table(session.context.catalog), job)
    except Exception:  # noqa: BLE001 - the step itself has ended well
        return None


def _run(common: Common, job: StepRequest) -> StepEnd:
    if job.step == VALIDATE:
        return _validate(common, job)
    now_ms = common.shell.env.now_ms()
    change = Change(yes=True, dry_run=job.planning)
    request = _request(job.step, job.policy)
    outcome = load_run(job.step)(common, job.table, request, change)
    table = outcome.table
    end = replace(
        _step_end(job.step, outcome),
        metadata_location=None
        if table is None
        else table.metadata_location_after or table.metadata_location,
    )
    if job.planning and job.instant_ms is not None and job.step in PLANNED:
        assert table is not None
        settings = settings_in_full(common.shell.settings, job.step)
        plan = {
            "base": table_json(table),
            "settings": {key: dict(value) for key, value in settings.items()},
            "result": clean(outcome.result),
        }
        end = replace(end, plan=plan)
    if job.step == "remove-orphans" and end.exit_code == 0 and not job.planning:
        session = open_session(common, job.table, read_only=False)
        try:
            mark_looked_for(session.context, now_ms)
        except CommitUnknown:
            raise
        except Exception as error:  # noqa: BLE001 - then the next run looks again
            message, _ = error_and_code(error)
            session.console.warn(
                f"the time of the search for orphans could not be recorded: {message}"
            )
    return end


def _validate(common: Common, job: StepRequest) -> StepEnd:
    outcome = load_run(VALIDATE)(common, job.table, ValidateRequest())
    end = _step_end(VALIDATE, outcome)
    if outcome.exit_code == 0:
        return replace(end, status="done")
    worst = worst_finding(outcome.result)
    first = "" if worst is None else f": {finding_in_words(worst)}"
    reason = f"`validate` exits with {outcome.exit_code}{first}"
    hint = with_table("`icectl validate TABLE` reports all of it", name_in_hints(common, job.table))
    code = CorruptTable.exit_code  # of the table: it is damaged
    return replace(end, status="failed", exit_code=code, reason=reason, hint=hint)


def _step_end(step: str, outcome: Outcome) -> StepEnd:
    status: Status = outcome.status
    figures = dict(numbers_of(clean(outcome.result, keeps_listed=True)))
    code = 0 if status == "planned" else outcome.exit_code
    warnings = "; ".join(outcome.warnings)
    return StepEnd(step, status, code, warnings, figures=figures, line=outcome.line)


def _failed_end(common: Common, job: StepRequest, raised: Exception) -> StepEnd:
    if isinstance(raised, FileNotFoundError) and raised.filename is not None:
        raised = MissingFile(str(raised.filename))  # of the table: its store has answered
    error, code = error_and_code(raised)
    console = common.shell.console
    hint = error.hint
    if code == 1 and not isinstance(raised, MemoryError):
        console.warn("".join(traceback.format_exception(raised)).rstrip())
    for recovery_hint in common.shell.recovery_hints if code == 15 else ():
        hint = recovery_hint(error) or hint  # type: ignore[arg-type]  # 15 is CorruptTable's
    name = name_in_hints(common, job.table)
    return StepEnd(
        job.step,
        status_of_error(code),
        exit_code=code,
        reason=console.redact(error.message),
        hint=with_table(console.redact(hint), name) if hint else None,
        error_id=error.error_id,
    )


def _request(step: str, policy: TablePolicy) -> Any:
    options: dict[str, Any] = {}
    for key in KEYS.values():
        if key.section == step and key.field is not None and key.name in policy.values:
            text = policy.values[key.name].text
            texts = list(text) if isinstance(text, tuple) else text
            options[key.field] = policy.read(key.name) if key.metavar == "BOOL" else texts
    if options.get("deletes_only"):
        options.pop("min_delete_files", None)
    chosen = step_of(step)
    limits = {limit.name: policy.read(f"{step}.{limit.name}") for limit in chosen.limits}
    return chosen.with_limits(chosen.request(**options), limits)


def check_options(policy: TablePolicy, shell: Shell) -> None:
    """Have every step read its options, before any table is looked at. Raises: UsageError."""
    settings = settings_with(shell.settings, policy)
    for step in map(step_of, STEPS):
        step.read(settings, shell.env.now_ms(), _request(step.command, policy))


def _shell(job: StepRequest, place: StepContext) -> Shell:
    """Return a shell of its own for a step: nothing is printed or asked."""
    options = {
        setting.key: str(job.options[name])
        for name, setting in (("concurrency", CONCURRENCY), ("temp_dir", TEMP_DIR))
        if job.options.get(name) is not None
    }
    settings = resolve(options, os.environ, job.options.get("config"))
    settings = settings_with(settings, job.policy, job.concurrency)
    env, review, reviewed = place.env, None, job.reviewed
    if job.instant_ms is not None:
        env = InstantEnv(env, job.instant_ms)
        if reviewed is not None:
            settings = as_planned(settings, job.step, reviewed.settings, SPARK_OPTIONS, {})
            review = Review(
                job.step, reviewed.base, Reviewed(reviewed.acts), env, exact=reviewed.exact
            )
    ends_at = place.env.monotonic_seconds() + job.seconds_left
    deadline = _StoppableDeadline(place.env, ends_at, place.is_stopped)
    is_shared, own = job.rewritten_bytes is not None, job.policy.read("budget.rewrite-bytes")
    limits = RunLimits(
        rewritten_bytes=job.rewritten_bytes if is_shared else own,
        deleted_files=job.policy.read("budget.delete-files"),
        is_strict=job.is_strict,
        is_shared=is_shared,
    )
    return Shell(
        silent_console(place.env),
        env,
        settings,
        deadline,
        place.interrupts,
        limits=limits,
        review=review,
        places_by_catalog=place.places_by_catalog,
    )


def settings_with(
    settings: Settings, policy: TablePolicy, concurrency: int | None = None
) -> Settings:
    """Return the settings of a step: those of the policy stand where a settings file's would."""
    values = dict(settings.values)
    for setting in SETTINGS:
        value = policy.values.get(setting.key)
        if value is not None and isinstance(value.text, str) and KEYS[setting.key].setting:
            values[setting.key] = _resolved(setting, value.text, value.origin)
    of_commands = (ORPHANS_OLDER_THAN, VALIDATE_LEVEL, ERASE_REQUESTED_AT, ERASE_DEADLINE)
    for setting in of_commands:
        value = policy.values.get(setting.key)
        if value is not None and isinstance(value.text, str):
            values[setting.key] = _resolved(setting, value.text, value.origin)
    if concurrency is not None:
        values[CONCURRENCY.key] = _resolved(CONCURRENCY, str(concurrency), "--jobs")
    return replace(settings, values=values)


def _resolved(setting: Setting[Any], text: str, origin: str) -> Resolved:
    return Resolved(setting.parse(text), text, Origin(Layer.FILE, origin))


def options_given(common: Common) -> Mapping[str, Any]:
    """Return the options of Common but for those that are of the whole run, for steps."""
    left_out = {"shell", "json", "quiet", "verbose", "color", "no_progress", "no_pager",
                "metrics_file", "time_limit"}  # fmt: skip
    return {
        entry.name: getattr(common, entry.name)
        for entry in fields(Common)
        if entry.name not in left_out
    }
