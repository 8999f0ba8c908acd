"""Saved plans: the file of `--save-plan`, the run that it stands for, and its review."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import Any, get_args

from icectl import __version__
from icectl.catalog.configured import passwords_in
from icectl.catalog.protocol import Catalog, PinnedCatalog
from icectl.cli.document import (
    Outcome,
    clean,
    first_breach,
    json_parts,
    plan_schema,
    put_in_place,
    result_schema,
    table_json,
)
from icectl.cli.naming import name_in_catalog, name_in_hints
from icectl.cli.options import (
    NEVER_PLANNED,
    SPARK_OPTIONS,
    Change,
    Command,
    Common,
    Invocation,
    Shell,
    SparkRun,
    option_settings,
)
from icectl.cli.patterns import is_pattern
from icectl.cli.settings import Settings, as_planned, texts_of
from icectl.env import Env, InstantEnv
from icectl.errors import CommitConflict, Refused, StorageError, Unsupported, UsageError
from icectl.format.json_members import parse_json
from icectl.storage.location import scheme
from icectl.table.reviewed import PLANNED, Reviewed, ReviewedAct, acts_of
from icectl.units import print_count, print_instant

PLAN_FORMAT = 1
_MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan was asked for with: what makes the same plan of the same table again.

    `table` is TABLE in full, `instant_ms` the moment that ages were counted from. `options` are
    those of the command as given, `settings` texts and the layers they come from, by key.
    """

    command: str
    table: str
    instant_ms: int
    metadata_file: str | None
    options: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What a run needs of a plan; `uuid` and `metadata_location` are of its table."""

    request: PlanRequest
    uuid: str | None
    metadata_location: str
    reviewed: Reviewed


def plan_parts(request: PlanRequest, outcome: Outcome) -> Iterator[str]:
    """Yield the file of a plan: JSON, for a reviewer to read, with its own checksum at the end."""
    assert outcome.table is not None
    return sealed_plan(
        {
            "icectl": __version__,
            "plan": PLAN_FORMAT,
            "command": request.command,
            "table": request.table,
            "base": table_json(outcome.table),
            "instant_ms": request.instant_ms,
            "instant": print_instant(request.instant_ms),
            "metadata_file": request.metadata_file,
            "options": dict(request.options),
            "settings": {key: dict(value) for key, value in request.settings.items()},
            "status": outcome.status,
            "result": clean(outcome.result, keeps_listed=True),
        }
    )


def sealed_plan(built: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a plan with its hash behind it."""
    built["hash"] = _hash(built)
    yield from json_parts(built, indent=2)
    yield "\n"


def open_saved_plan(text: str, name: str) -> dict[str, Any]:
    """Read the file of a plan, and check that it is as it was written; `name` is its own.

    Raises: UsageError, where it is none; Refused, where it was changed after it was written;
    Unsupported, for one of a newer icectl, or of a command without plans.
    """
    try:
        built = parse_json(text)
        if not isinstance(built, dict) or "plan" not in built or "hash" not in built:
            raise UsageError(f"{name} is not a saved plan", hint=_HINT)
        computed = _hash({key: value for key, value in built.items() if key != "hash"})
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a saved plan: it is not JSON", hint=_HINT) from error
    if built["plan"] != PLAN_FORMAT:
        raise Unsupported(
            f"{name} is a plan of format {built['plan']}, but this icectl supports {PLAN_FORMAT}",
            hint=f"apply it with icectl {built.get('icectl')}, which saved it",
        )
    if built["hash"] != computed:
        raise not_as_written(name)
    command = built.get("command")
    if not isinstance(command, str):
        raise UsageError(f"{name} is not a saved plan: it names no command", hint=_HINT)
    if command not in {*PLANNED, _MAINTAIN}:
        raise Unsupported(f"{name} is a plan of `{command}`, which this icectl cannot apply")
    _check_schema(built, plan_schema(command), name)
    return built


def _check_schema(built: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> None:
    """Raises: UsageError, for a plan with a valid hash that icectl cannot have written."""
    breach = first_breach(built, schema)
    if breach is not None:
        raise UsageError(f"{name} is not a plan that icectl wrote: {breach}", hint=_HINT)


def check_step_result(result: Mapping[str, Any], command: str, name: str) -> None:
    """Check the result of a step of maintenance. Raises: UsageError."""
    schema, definitions = result_schema(command)
    _check_schema(result, {**schema, "$defs": definitions}, name)


def not_as_written(name: str) -> Refused:
    """Say that a file is not as it was written."""
    return Refused(
        f"{name} was changed after it was made: it does not match its hash",
        hint="make a new plan with `--dry-run --save-plan`",
        id="plan-changed",
    )


def saved_plan(built: Mapping[str, Any]) -> SavedPlan:
    """Make a plan of one command of what its file has, as `open_saved_plan` has read it."""
    base = built["base"]
    request = PlanRequest(**{entry.name: built[entry.name] for entry in fields(PlanRequest)})
    reviewed = Reviewed(acts_of(request.command, built["result"]))
    return SavedPlan(request, base["uuid"], base["metadata_location"], reviewed)


_HINT = "`--dry-run --save-plan FILE` writes one"


def _hash(built: Mapping[str, Any]) -> str:
    """Return the checksum of a plan, whatever its white space and order of keys."""
    checksum = hashlib.sha256()
    for part in json_parts(built, sort_keys=True, separators=(",", ":")):
        checksum.update(part.encode("ascii"))
    return "sha256:" + checksum.hexdigest()


_LOCATIONS = frozenset({"location", "inventory", "quarantine"})
"""Options that take a path, which means the same from every folder once it is in full."""

_COMMON = tuple(entry.name for entry in fields(Common) if entry.name != "shell")
_CHANGE = tuple(entry.name for entry in fields(Change))


def planning_env(invocation: Invocation, env: Env) -> Env:
    """Return the clock of a run whose plan is to be kept: it stands still.

    Raises: UsageError, for `--save-plan` without a plan; Refused, for what no plan may say.
    """
    if not (invocation.value("dry_run") or invocation.value("check")):
        raise UsageError(
            "`--save-plan` saves a plan, and this run would make the changes",
            hint="add `--dry-run`; `icectl apply FILE` then runs the plan",
        )
    for name in sorted(NEVER_PLANNED):
        if invocation.value(name):
            raise _never_planned(invocation.command, name)
    return InstantEnv(env, env.now_ms())


def save_plan(invocation: Invocation, shell: Shell, outcome: Outcome) -> None:
    """Write the plan of a dry run where `--save-plan` says; none where a run would be refused.

    Raises: UsageError, for a secret in its options; StorageError, where it can't be written.
    """
    place = invocation.value("save_plan")
    parts = outcome.plan
    if parts is None and outcome.status not in ("planned", "nothing-to-do"):
        return
    if parts is None:
        parts = plan_parts(_request(invocation, shell), outcome)
    try:
        put_in_place(Path(place), parts, shell.env)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"cannot write the plan to {place}: {reason}") from error
    is_empty = outcome.status == "nothing-to-do"
    shell.console.note(
        f"there is nothing to do: the plan in {place} is empty"
        if is_empty
        else f"the plan is in {place}; `icectl apply {quote(place)}` runs it"
    )


def planned_invocation(
    command: Command, saved: SavedPlan, common: Common, change: Change, spark: SparkRun
) -> Invocation:
    """The command line that a plan stands for: its own options, and those of apply for the rest.

    Raises: Refused, Unsupported, UsageError, for options that a plan has not.
    """
    values = {name: getattr(common, name) for name in _COMMON}
    values |= {name: getattr(change, name) for name in _CHANGE}
    for name, value in asdict(spark).items():
        if name in command.parameters:
            values[name] = value
        elif value:
            raise UsageError(f"`{_option(name)}`: `{command.name}` has no such option")
    _check_options(command, saved.request)
    return Invocation.on(command, saved.request.table, {**saved.request.options, **values})


def _check_options(command: Command, request: PlanRequest) -> None:
    """Check that a plan requests options of the command, for one table."""
    known = command.planned_options
    for name, value in request.options.items():
        if name not in command.parameters and name not in {*_COMMON, *_CHANGE, *SPARK_OPTIONS}:
            raise Unsupported(
                f"the plan has an option of `{command.name}` that this icectl does not know: "
                f"{name}",
                hint="apply it with the version of icectl that made it",
            )
        if name in NEVER_PLANNED:
            raise _never_planned(command, name)
        if name not in known:
            raise not_for_plans(name, f"`{_option(name)}`")
        if not any(_is_of(value, kind) for kind in (known[name], *get_args(known[name]))):
            raise UsageError(f"the option `{name}` of the plan has a value of another type")
    keys = {f"{command.name}.{name.replace('_', '-')}" for name in known}
    if request.settings.keys() - keys:
        raise not_for_plans(min(request.settings.keys() - keys), "it")
    texts = [request.table, request.metadata_file or "", *_texts(request.options)]
    if any("\0" in text for text in texts) or is_pattern(request.table):
        raise UsageError("the plan does not name one table, or a path in it has a NUL character")


def _is_of(value: Any, kind: Any) -> bool:
    if kind == list[str]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return kind in (str, bool) and type(value) is kind


def _texts(options: Mapping[str, Any]) -> Iterator[str]:
    for value in options.values():
        items = value if isinstance(value, list) else [value]
        yield from (item for item in items if isinstance(item, str))


def not_for_plans(name: str, given_anew: str) -> Refused:
    """Say that a plan has an option that only `apply` may get."""
    return Refused(
        f"the plan sets `{name}`, which is not allowed in a plan",
        hint=f"make a new plan; if {given_anew} is needed, give it to `icectl apply`",
        id="plan-option",
    )


def _never_planned(command: Command, name: str) -> Refused:
    return Refused(
        f"`{_option(name)}` cannot be saved in a plan: a file must not cause deletes outside the "
        "table",
        hint=f"run `icectl {command.name}` itself with it",
        id="plan-option",
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def planned_shell(
    command: Command, saved: SavedPlan, shell: Shell, spark: SparkRun, *, allow_newer: bool
) -> Shell:
    """The place where a plan is carried out: its settings, its instant, and what it holds to."""
    request = saved.request
    clock = InstantEnv(shell.env, request.instant_ms)
    review = Review(
        request.command,
        TableState(saved.uuid, None if allow_newer else saved.metadata_location),
        saved.reviewed,
        clock,
        exact=not allow_newer,
    )
    options = option_settings(command.name, asdict(spark))
    settings = as_planned(shell.settings, command.name, request.settings, SPARK_OPTIONS, options)
    return replace(shell, settings=settings, env=clock, review=review)


def _request(invocation: Invocation, shell: Shell) -> PlanRequest:
    command = invocation.command
    common = Common(shell=shell, **{name: invocation.value(name) for name in _COMMON})
    options = {
        name: value
        for name, value in invocation.values.items()
        if name in command.planned_options and value not in (None, False, [], ())
    }
    left_out = ", ".join(sorted(_option(name) for name in SPARK_OPTIONS if invocation.value(name)))
    if left_out:
        shell.console.note(f"not in the plan: {left_out}; give them to `icectl apply` again")
    check_no_password([invocation.table or "", *_texts(options)])
    for name in _LOCATIONS & options.keys():
        place = options[name]
        is_list = isinstance(place, list)
        options[name] = [*map(_in_full, place)] if is_list else _in_full(place)
    metadata_file, table = invocation.value("metadata_file"), invocation.table
    assert table is not None  # several are refused before they are planned
    return PlanRequest(
        command.name,
        table_in_full(common, table),
        shell.env.now_ms(),
        None if metadata_file is None else _in_full(metadata_file),
        options,
        settings_in_full(shell.settings, command.name),
    )


def table_in_full(common: Common, table: str) -> str:
    """TABLE as it means the same in every folder."""
    is_location = name_in_catalog(common, table) is None
    return _in_full(table) if is_location else name_in_hints(common, table)


def _in_full(location: str) -> str:
    return location if scheme(location) else str(Path(location).absolute())


def settings_in_full(settings: Settings, command: str) -> dict[str, Mapping[str, str]]:
    """The settings of a command as a plan keeps them: paths mean the same in every folder."""
    return {
        key: {**value, "value": text_in_full(key, value["value"])}
        for key, value in texts_of(settings, command).items()
        if key.rpartition(".")[2].replace("-", "_") not in SPARK_OPTIONS
    }


def text_in_full(key: str, text: str) -> str:
    """Return the text of a setting; where it is a path, one that means the same in every folder."""
    return _in_full(text) if key.rpartition(".")[2] in _LOCATIONS else text


def check_no_password(texts: Iterable[str]) -> None:
    """Raises: UsageError, for a URI with a password among what a plan would hold."""
    if any(passwords_in(text) for text in texts):
        raise UsageError(
            "`--save-plan`: an address contains a password, and others may read the plan",
            hint="plans do not contain `--storage-option`",
        )


_SHOWN = 3
"""Changes that a message names."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as a plan was made of it; any of its states where there is no location."""

    uuid: str | None
    metadata_location: str | None


@dataclass(frozen=True, slots=True)
class Review:
    """A plan that was reviewed, of `base`; a run does just that, or what of it still holds.

    The latter where it is not `exact`. `clock` stands at the plan's instant until the run's own
    plan was compared.
    """

    command: str
    base: TableState
    reviewed: Reviewed
    clock: InstantEnv
    exact: bool

    def pinned(self, catalog: Catalog) -> Catalog:
        """The catalog, which shows no other table, nor another state of it unless that may be."""
        return PinnedCatalog(catalog, self.base.uuid, self.base.metadata_location)

    def approve(self, result: Callable[[], Mapping[str, Any]]) -> None:
        """Compare what a run is about to do with what was reviewed.

        Raises: CommitConflict, where it is not that, or, on a newer table, more than that.
        """
        acts = acts_of(self.command, result())
        missing = self.reviewed.acts - acts if self.exact else frozenset()
        differences = {"not in it": acts - self.reviewed.acts, "no longer possible": missing}
        changes = [f"{_names_of_acts(of)} {what}" for what, of in differences.items() if of]
        if changes:
            raise CommitConflict(
                f"the plan no longer fits the table: {', '.join(changes)}",
                hint="make a new plan and check the differences; nothing was changed",
                id="plan-outdated",
            )
        self.clock.release()


def _names_of_acts(acts: frozenset[ReviewedAct]) -> str:
    shown = ", ".join(sorted(map(str, acts))[:_SHOWN])
    more = ", ..." if len(acts) > _SHOWN else ""
    verb = "is" if len(acts) == 1 else "are"
    return f"{print_count(len(acts), 'change')} ({shown}{more}) {verb}"
