"""The course of `icectl validate`: options to a choice, the checks, the outcome."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Literal, cast

from icectl.checks.choice import Level, RuleChoice, fails, rule_ids
from icectl.checks.finding import Severity
from icectl.cli.commands.validate import ValidateRequest
from icectl.cli.failures import with_table
from icectl.cli.naming import is_draft_root, name_in_hints
from icectl.cli.options import Common
from icectl.cli.session import Session, identity_of, open_session
from icectl.cli.settings import VALIDATE_FAIL_ON, VALIDATE_LEVEL, parse_option
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.engine.spark import SparkWorkers
from icectl.engine.spark_connect import open_workers
from icectl.errors import UsageError
from icectl.plan.snapshot_choice import SnapshotChoice, parse_snapshot_id
from icectl.report.document import Outcome
from icectl.report.validate import CheckedTable, checked_result, print_checked
from icectl.run.validate.data import RemoteReaders
from icectl.run.validate.validate import ValidateOptions, validate
from icectl.run.way_out import BrokenTable
from icectl.units import parse_ratio

ENGINES = ("local", "spark")


def run(common: Common, table: str, request: ValidateRequest) -> Outcome:
    """Check a table and say what was found.

    Raises: UsageError for options that make no sense together; what reading the metadata raises.
    """
    if is_draft_root(common, table):
        from icectl.cli.courses.draft_16025 import validate_root

        return validate_root(common, table, request)
    settings = common.shell.settings
    level = cast("Level", settings.read(VALIDATE_LEVEL))  # the setting takes nothing else
    fail_on = cast("Severity", settings.read(VALIDATE_FAIL_ON))
    options = _options(request, level)
    session = open_session(common, table, read_only=True)
    elsewhere = _elsewhere(session, request)
    reader = session.read("checked")
    if elsewhere is not None:
        options = replace(options, elsewhere=RemoteReaders(elsewhere, session.storage()))
    found = validate(reader, options)
    name = name_in_hints(common, table)
    broken = BrokenTable(session.store, session.catalog, session.env, name)
    findings = broken.hinted(found.findings, "metadata" if level == "metadata" else "files")
    checked = CheckedTable(
        table_location=reader.metadata.location,
        level=level,
        findings=tuple(replace(one, hint=with_table(one.hint, name)) for one in findings),
        snapshots_checked=found.snapshots_checked,
        files_checked=found.files_checked,
        files_decoded=found.files_decoded,
        files_judged=found.files_judged,
        bytes_read=found.bytes_read,
        sample=options.sample,
        complete=found.complete,
    )
    exit_code, status = _end(checked, fail_on)
    return Outcome(
        command="validate",
        result=checked_result(checked),
        render=lambda console: print_checked(console, checked, whole=_whole(session)),
        table=identity_of(reader.loaded),
        exit_code=exit_code,
        status=status,
    )


def _elsewhere(
    session: Session, request: ValidateRequest
) -> Callable[[], AbstractContextManager[SparkWorkers]] | None:
    """Return what opens Spark for the files, if that was asked for. Raises: UsageError."""
    conf = request.spark_conf or ()
    if request.engine != "spark":
        check_no_spark_options(request.master, conf, request.remote)
        return None
    given = spark_options(session, request.master, conf, remote=request.remote)
    return partial(open_workers, given, session.progress, session.deadline)


def _whole(session: Session) -> bool:
    return session.console.options.verbosity > 0


def _end(checked: CheckedTable, fail_on: Severity) -> tuple[int, Literal["done", "incomplete"]]:
    """Errors that were found count more than what was not looked at."""
    if fails(checked.findings, fail_on):
        return 4, "done" if checked.complete else "incomplete"
    return (0, "done") if checked.complete else (3, "incomplete")


def _options(request: ValidateRequest, level: Level) -> ValidateOptions:
    if request.engine not in ENGINES:
        raise UsageError(f"`--engine`: `{request.engine}` is none of `local`, `spark`")
    if request.engine == "spark" and level not in ("footers", "data"):
        raise UsageError(
            f"`--engine spark` reads data files, which level `{level}` does not",
            hint="`--level footers` and `--level data` read them",
        )
    choice = SnapshotChoice(
        snapshot_id=parse_snapshot_id("--snapshot", request.snapshot), ref=request.ref
    )
    if choice.count > 1:
        raise UsageError("`--snapshot` and `--ref` exclude each other")
    if choice.count and request.all_snapshots:
        raise UsageError("`--all-snapshots` checks every snapshot; it excludes choosing one")
    sample = parse_option("--sample", request.sample, parse_ratio)
    if sample is not None and level == "metadata":
        raise UsageError(
            "`--sample` chooses among data files, which level `metadata` does not look at"
        )
    return ValidateOptions(
        level=level,
        choice=choice,
        all_snapshots=request.all_snapshots,
        sample=sample,
        rules=RuleChoice(
            rule_ids("--rule", request.rule or ()), rule_ids("--skip", request.skip or ())
        ),
    )
