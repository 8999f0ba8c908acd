"""Plans that are kept in files: what `--save-plan` writes, and the run that a plan stands for."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from icectl.cli.naming import name_in_catalog, name_in_hints
from icectl.cli.options import Change, Common, Invocation, Shell
from icectl.cli.output_files import put_in_place
from icectl.cli.settings import Settings, as_planned, is_secret, texts_of
from icectl.env import Env, InstantEnv
from icectl.errors import StorageError, UsageError
from icectl.plan.reviewed import Reviewed, acts_of
from icectl.report.document import Outcome
from icectl.report.saved_plan import PlanRequest, SavedPlan, plan_text
from icectl.run.review import Review, TableState
from icectl.storage.location import scheme

_LOCATIONS = frozenset({"location", "inventory", "quarantine"})
"""Options that take a path, which means the same from every folder once it is in full."""

_COMMON = tuple(entry.name for entry in fields(Common) if entry.name != "shell")
_CHANGE = tuple(entry.name for entry in fields(Change))


def planning_env(invocation: Invocation, env: Env) -> Env:
    """Return the clock of a run whose plan is to be kept: it stands still.

    Raises: UsageError, for `--save-plan` without a plan.
    """
    if not (invocation.value("dry_run") or invocation.value("check")):
        raise UsageError(
            "`--save-plan` keeps a plan, and this run would carry it out",
            hint="add `--dry-run`; `icectl apply FILE` then does what the plan says",
        )
    return InstantEnv(env, env.now_ms())


def save_plan(invocation: Invocation, shell: Shell, outcome: Outcome) -> None:
    """Write the plan of a dry run where `--save-plan` says; none where a run would be refused.

    Raises: UsageError, for a secret in its options; StorageError, where it can't be written.
    """
    place = invocation.value("save_plan")
    text = outcome.plan
    if text is None and outcome.status not in ("planned", "nothing-to-do"):
        return
    if text is None:
        text = plan_text(_request(invocation, shell), outcome)
    try:
        put_in_place(Path(place), text, shell.env)
    except OSError as error:
        raise StorageError(f"cannot write the plan to {place}: {error.strerror}") from error
    shell.console.note(f"the plan is in {place}; `icectl apply {place}` carries it out")


def planned_invocation(
    command: Any, saved: SavedPlan, common: Common, change: Change
) -> Invocation:
    """The command line that a plan stands for: its own options, and those of apply for the rest."""
    given = {name: getattr(common, name) for name in _COMMON}
    given |= {name: getattr(change, name) for name in _CHANGE}
    return Invocation.on(command, saved.request.table, {**given, **saved.request.options})


def planned_shell(saved: SavedPlan, shell: Shell, *, allow_newer: bool) -> Shell:
    """The place where a plan is carried out: its settings, its instant, and what it holds to."""
    request = saved.request
    clock = InstantEnv(shell.env, request.instant_ms)
    review = Review(
        request.command,
        TableState(saved.uuid, None if allow_newer else saved.metadata_location),
        Reviewed(acts_of(request.command, saved.result)),
        clock,
        exact=not allow_newer,
    )
    settings = as_planned(shell.settings, request.command, request.settings)
    return replace(shell, settings=settings, env=clock, review=review)


def _request(invocation: Invocation, shell: Shell) -> PlanRequest:
    command = invocation.command.name
    common = Common(shell=shell, **{name: invocation.value(name) for name in _COMMON})
    options = {
        name: value
        for name, value in invocation.values.items()
        if name not in {*_COMMON, *_CHANGE, "table", "tables"}
        and value not in (None, False, [], ())
    }
    check_no_secret(options.get("spark_conf", ()), options.get("remote"))
    metadata_file = invocation.value("metadata_file")
    table = invocation.table
    assert table is not None  # several are refused before they are planned
    return PlanRequest(
        command,
        table_in_full(common, table),
        shell.env.now_ms(),
        None if metadata_file is None else _in_full(metadata_file),
        {name: _with_places(name, value) for name, value in options.items()},
        settings_in_full(shell.settings, command),
    )


def table_in_full(common: Common, table: str) -> str:
    """TABLE as it means the same in every folder."""
    if name_in_catalog(common, table) is None:
        return _in_full(table)
    return name_in_hints(common, table)


def _in_full(location: str) -> str:
    return location if scheme(location) else str(Path(location).absolute())


def _with_places(name: str, value: Any) -> Any:
    if name not in _LOCATIONS:
        return value
    return [_in_full(each) for each in value] if isinstance(value, list) else _in_full(value)


def settings_in_full(settings: Settings, command: str) -> dict[str, Mapping[str, str]]:
    """The settings of a command as a plan keeps them: paths mean the same in every folder."""
    return {
        key: {**value, "value": text_in_full(key, value["value"])}
        for key, value in texts_of(settings, command).items()
    }


def text_in_full(key: str, text: str) -> str:
    """Return the text of a setting; where it is a path, one that means the same in every folder."""
    return _in_full(text) if key.rpartition(".")[2] in _LOCATIONS else text


def check_no_secret(spark_conf: Iterable[str], remote: str | None) -> None:
    """Raises: UsageError, for a credential among settings of Spark, or in its address."""
    given = [("--spark-conf", pair.partition("=")[0]) for pair in spark_conf]
    given += [("--remote", part.partition("=")[0]) for part in (remote or "").split(";")[1:]]
    for option, name in given:
        if is_secret(name.rpartition(".")[2]):
            raise UsageError(
                f"`--save-plan`: `{option} {name}` looks like a secret, and the plan is for others "
                "to read",
                hint="Spark's own configuration, or the environment, may hold it",
            )
