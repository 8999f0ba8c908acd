"""The root command: parse, run one command, report, and turn every end into an exit code."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from icectl import __version__
from icectl.cli.console import Console, ConsoleOptions, messages_of_libraries
from icectl.cli.document import (
    Outcome,
    document,
    failure,
    json_parts,
    json_text,
    put_in_place,
    write_deleted_list,
)
from icectl.cli.failures import error_and_code, recovery_hint, with_command
from icectl.cli.help import PlainCommand, PlainGroup, root_help, unknown_command, usage_error
from icectl.cli.metrics import metrics_text
from icectl.cli.options import Command, Invocation, Shell
from icectl.cli.registry import (
    COMMANDS,
    DOCUMENTATION,
    HELP_NAMES,
    load_command,
    load_run,
    parser_of,
)
from icectl.cli.settings import (
    COLOR,
    DEFAULT_CATALOG,
    METRICS_FILE,
    PROGRESS,
    TIME_LIMIT,
    resolve,
    unknown_variables,
)
from icectl.cli.signals import Interrupts, ended_in_time
from icectl.env import Deadline, Env, SystemEnv
from icectl.errors import Declined, IcectlError, UsageError
from icectl.units import inert_json

_PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
"""What the parser inside typer raises; its module is private, and moves between versions."""


@dataclass(slots=True)
class _Run:
    """A run, with what is known of it so far, for whatever ends it."""

    is_whole_process: bool
    env: Env
    started_seconds: float
    console: Console
    command_name: str | None
    invocation: Invocation | None = None
    shell: Shell | None = None


def main(argv: Sequence[str] | None = None, *, env: Env | None = None) -> int:
    """Run one command line and return its exit code; nothing below exits or prints."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    clock = SystemEnv() if env is None else env
    if not arguments:
        sys.stderr.write(root_help(COMMANDS, DOCUMENTATION))
        return UsageError.exit_code
    run = _Run(
        is_whole_process=argv is None,
        env=clock,
        started_seconds=clock.monotonic_seconds(),
        console=_early_console(arguments, clock),
        command_name=arguments[0] if arguments[0] in COMMANDS else None,
    )
    interrupts = Interrupts(lambda text: run.console.note(text))  # noqa: PLW0108 - it changes
    with interrupts.handled():
        return _run(run, arguments, interrupts)


def parse(arguments: Sequence[str]) -> Invocation | None:
    """Read a command line; None where it asked for help or the version, which is printed then.

    Raises: UsageError.
    """
    words = list(arguments)
    if words[0] == "help" and words[1:2] and words[1] in DOCUMENTATION:
        words = [words[1], "--help"]
    if words[0] in DOCUMENTATION:
        from icectl.cli.documentation import print_documentation

        print_documentation(words, COMMANDS)
        return None
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    group = _root_parser()
    try:
        with group.make_context("icectl", list(words)) as context:
            parsed: Invocation = group.invoke(context)
            return parsed
    except typer.Exit:
        return None
    except _PARSER_ERROR as error:
        raise usage_error(error, words[0]) from error


@cache
def _root_parser() -> Any:
    """Build the parser of what stands before the command."""
    root = typer.Typer(
        cls=_LazyGroup, add_completion=False, rich_markup_mode=None, context_settings=HELP_NAMES
    )
    root.callback()(_root_options)
    return get_command(root)


class _LazyGroup(PlainGroup):
    """The root: knows its commands by name, and imports the one that is run."""

    summaries = COMMANDS
    documentation = DOCUMENTATION

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises: UsageError, for an unknown one."""
        if args[0] not in COMMANDS:
            raise unknown_command(args[0], tuple(COMMANDS), *args[1:2])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> PlainCommand:  # noqa: ARG002
        """Build the parser of the command that was asked for."""
        return parser_of(load_command(cmd_name))


def _print_version(context: typer.Context, is_asked: bool) -> None:  # noqa: FBT001
    if is_asked and context.params.get("verbose"):
        from icectl.cli.build import build_report

        typer.echo(build_report())
        raise typer.Exit
    if is_asked:
        typer.echo(f"icectl {__version__}")
        raise typer.Exit
    if context.params.get("verbose"):
        raise UsageError(
            "there is no option `--verbose` before a command",
            hint="put options after the command: `icectl COMMAND TABLE [OPTIONS]`",
        )


def _print_spark_script(is_asked: bool) -> None:  # noqa: FBT001
    if is_asked:
        typer.echo(Path(__file__).with_name("spark_script.py"))
        raise typer.Exit


def _root_options(
    *,
    spark_script: Annotated[
        bool,
        typer.Option(
            "--spark-script",
            callback=_print_spark_script,
            is_eager=True,
            help="print the path of the script for spark-submit",
        ),
    ] = False,
    verbose: Annotated[  # is read first, wherever it stands
        bool,
        typer.Option(
            "--verbose", "-v", is_eager=True, help="with --version: how icectl was built, too"
        ),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, help="print the version")
    ] = False,
) -> None:
    """Hold the options of the root."""


def _run(run: _Run, arguments: Sequence[str], interrupts: Interrupts) -> int:
    try:
        run.invocation = parse(arguments)
        if run.invocation is None:
            run.console.flush()
            return 0
        run.shell = _open_shell(run, run.invocation, interrupts)
        run.console = run.shell.console
        from icectl.entries.without_pandas import leave_pandas_out

        leave_pandas_out()
        with (
            _prepared_workers(run, run.invocation.command),
            messages_of_libraries(run.console),
            ended_in_time(run.shell.deadline, interrupts, partial(_report_failure, run)),
        ):
            try:
                run.invocation = _with_whole_names(run.invocation, run.shell)
                outcome = run.invocation.run(run.shell)
            finally:
                # What is left of killed runs, and was removed, belongs on the list too.
                path = run.invocation.value("deleted_list")
                if path and run.shell.leftovers:
                    write_deleted_list(path, run.shell.leftovers, is_continued=True)
            if run.invocation.value("save_plan"):
                from icectl.cli.plans import save_plan

                save_plan(run.invocation, run.shell, outcome)
        with messages_of_libraries(run.console):  # a reader may take longer than the time limit
            return _report_outcome(run, outcome)
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except BaseException as error:  # noqa: BLE001
        return _report_failure(run, error)


def _prepared_workers(run: _Run, command: Command) -> AbstractContextManager[None]:
    """Have workers of the command, if it has any, start with what its run imports."""
    if not (run.is_whole_process and command.has_workers):
        return nullcontext()
    load_run(command.name)
    from icectl.rows.workers import prepared_workers

    return prepared_workers()


def _open_shell(run: _Run, invocation: Invocation, interrupts: Interrupts) -> Shell:
    config = invocation.value("config")
    settings = resolve(invocation.option_settings(), os.environ, config)
    verbosity = -1 if invocation.value("quiet") else invocation.value("verbose")
    is_json, is_paged = run.console.options.json, not invocation.value("no_pager")
    color, has_progress = settings.read(COLOR), settings.read(PROGRESS)
    options = ConsoleOptions(color, verbosity, has_progress, is_json, is_paged)
    console = Console(sys.stdout, sys.stderr, sys.stdin, run.env, options)
    for line in settings.lines(invocation.command.name):
        console.detail(line)
    _check_format(invocation)
    for message in (*settings.renamed, *unknown_variables(os.environ)):
        console.warn(message)
    limit_ms = settings.read(TIME_LIMIT)
    ends_at = None if limit_ms is None else run.started_seconds + limit_ms / 1000
    env = run.env
    if invocation.value("save_plan"):
        from icectl.cli.plans import planning_env

        env = planning_env(invocation, env)
    return Shell(console, env, settings, Deadline(run.env, ends_at), interrupts)


def _with_whole_names(invocation: Invocation, shell: Shell) -> Invocation:
    """Return an invocation whose tables are names with a catalog, if there is a default one."""
    names_catalog = invocation.value("catalog") or invocation.value("catalog_option")
    if names_catalog or shell.settings.read(DEFAULT_CATALOG) is None:
        return invocation
    from icectl.cli.naming import in_default_catalog  # few runs have one

    return invocation.with_tables(partial(in_default_catalog, shell.settings))


def _check_format(invocation: Invocation) -> None:
    """Raises: UsageError, for two formats, or one that the command lacks."""
    output_format = invocation.value("format")
    if output_format is None or invocation.command.name == "inspect":  # whose views have their own
        return
    from icectl.cli.ci import check_ci_format

    if invocation.value("json") and output_format != "json":
        raise UsageError(
            f"`--json` and `--format {output_format}` cannot be used together", hint="leave one out"
        )
    is_check = invocation.command.name == "validate" or bool(invocation.value("check"))
    check_ci_format(output_format, is_check=is_check)


def _report_outcome(run: _Run, outcome: Outcome) -> int:
    console = run.console
    console.progress.stop()
    for warning in outcome.warnings:
        console.warn(warning)
    for_ci = _for_ci(run)
    if console.options.json or for_ci or _metrics_file(run):
        built = document(outcome, keeps_listed=True)
        _write_metrics(run, built)
    try:
        with console.paged():
            if console.options.json:
                _print_document(console, built)
            elif for_ci:
                _print_for_ci(run, built)
            else:
                outcome.render(console)
        console.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError:
        _discard_stdout()
        raise
    return outcome.exit_code


def _report_failure(run: _Run, raised: BaseException) -> int:
    console = run.console
    console.progress.stop()
    error, code = error_and_code(raised)
    error.hint = _recovery_hint(run, error)
    error.message = console.redact(error.message)
    error.hint = console.redact(error.hint) if error.hint else None
    if code == 1 and not isinstance(raised, MemoryError):
        console.error_lines(traceback.format_exception(raised))
    elif raised is not error:
        console.debug("".join(traceback.format_exception(raised)).rstrip())
    built = failure(error, code, run.command_name)
    _write_metrics(run, built)
    if isinstance(error, Declined):
        console.note(error.message)
    else:
        console.error(error)
    try:
        if console.options.json:
            _print_document(console, built)
        elif run.invocation is not None and run.invocation.value("json_lines"):
            last = {name: built[name] for name in ("exit", "status", "error")}
            console.write(json_text(last, indent=None) + "\n")
        elif _for_ci(run):
            _print_for_ci(run, built)
        console.flush()
    except OSError:
        _discard_stdout()
    return code


def _recovery_hint(run: _Run, error: IcectlError) -> str | None:
    """Return the hint of an error, made from whole parts of the table, with its name."""
    hint = error.hint
    if run.shell is not None and run.invocation is not None:  # else the command line is no good
        table, catalog = run.invocation.table, run.invocation.value("catalog")
        if table is not None and catalog:
            table = f"{catalog}.{table}"
        hint = recovery_hint(error, run.shell.recovery_hints, table)
    return (
        hint if hint is None or run.command_name is None else with_command(hint, run.command_name)
    )


def _print_document(console: Console, built: Mapping[str, Any]) -> None:
    whole = {**built, "warnings": list(console.warnings)}
    for part in json_parts(whole, indent=2 if console.out_is_terminal else None):
        console.write(inert_json(part))
    console.write("\n")


def _for_ci(run: _Run) -> bool:
    """Return whether the output of a running command is for CI."""
    format_ = (
        None if run.shell is None or run.invocation is None else run.invocation.value("format")
    )
    return format_ in ("github", "junit", "sarif")


def _print_for_ci(run: _Run, built: Mapping[str, Any]) -> None:
    from icectl.cli.ci import ci_text

    assert run.invocation is not None
    catalog = run.invocation.value("catalog")
    table = run.invocation.table or ", ".join(run.invocation.value("tables") or ())
    name = ".".join(part for part in (catalog, table) if part)
    run.console.write(ci_text(run.invocation.value("format"), built, name))


def _metrics_file(run: _Run) -> Path | None:
    return None if run.shell is None else run.shell.settings.read(METRICS_FILE)


def _write_metrics(run: _Run, built: Mapping[str, Any]) -> None:
    path = _metrics_file(run)
    if path is None or run.invocation is None:
        return
    text = metrics_text(
        built,
        table=run.invocation.table,
        now_ms=run.env.now_ms(),
        duration_seconds=run.env.monotonic_seconds() - run.started_seconds,
    )
    try:
        put_in_place(path, [text], run.env)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        run.console.warn(f"cannot write the metrics to `{path}`: {reason}")


def _early_console(arguments: Sequence[str], env: Env) -> Console:
    """Return the console for errors of the command line itself, from its readable options."""
    color = "auto"
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--color" or word.startswith("--color="):
            color = word.removeprefix("--color=") if "=" in word else following
    is_json = not {"--json", "--format=json"}.isdisjoint(arguments)
    options = ConsoleOptions(json=is_json or ("--format", "json") in pairwise(arguments))
    with suppress(UsageError):
        options = replace(options, color=COLOR.parse(color))
    return Console(sys.stdout, sys.stderr, sys.stdin, env, options)


def _discard_stdout() -> None:
    """Discard further output to a pipe without a reader."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
