"""The upstream draft of version 4 on the command line: exports, and roots of it as TABLE."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import cast

from icectl.checks.choice import RuleChoice, fails, rule_ids
from icectl.checks.finding import Severity
from icectl.cli.commands.inspect import ViewRequest
from icectl.cli.commands.upgrade_to_v4 import UpgradeRequest
from icectl.cli.commands.validate import ValidateRequest
from icectl.cli.options import Change, Common
from icectl.cli.session import identity_of, open_session, storage_of
from icectl.cli.settings import VALIDATE_FAIL_ON, parse_count, parse_option
from icectl.commit.draft_16025.export import ROOT, ExportAccess, ExportPlan, write_export
from icectl.errors import TableNotFound, UsageError
from icectl.plan.inspect.views import Row, RowSet
from icectl.report.document import Outcome
from icectl.report.draft_16025 import Export, export_result, print_export
from icectl.report.inspect.rows import print_chosen, print_csv, print_json_lines
from icectl.report.validate import CheckedTable, checked_result, print_checked
from icectl.run.draft_16025.export import prepare
from icectl.run.draft_16025.read import check_root, draft_rows
from icectl.spec.layout import DRAFT_16025
from icectl.storage.location import join, scheme
from icectl.storage.open import open_store
from icectl.storage.store import Store
from icectl.units import print_count


def export(common: Common, table: str, request: UpgradeRequest, change: Change) -> Outcome:
    """Write a snapshot in the form of the draft, unless the plan is all that was asked for.

    Raises: UsageError; as run/draft_16025/export.py.
    """
    folder = _folder(request)
    session = open_session(common, table, read_only=True, change=change)
    reader = session.read("exported")
    plan = prepare(reader, request.branch, folder)
    told = Export(
        from_version=reader.metadata.format_version,
        folder=folder,
        root=join(folder, ROOT),
        snapshot_id=plan.snapshot.snapshot_id,
        leaf_count=plan.leaf_count,
        live_count=plan.live_count,
        notes=_notes(plan),
    )
    session.approve(lambda: export_result(told))
    planning = change.dry_run or change.check
    if not planning:
        done = write_export(ExportAccess(reader.store, reader.progress, reader.deadline), plan)
        told = replace(
            told,
            bytes_written=done.size_bytes,
            live_count=done.live_count,
            leaf_count=len(done.files) - 1,
        )
    return Outcome(
        command="upgrade-to-v4",
        result=export_result(told),
        render=lambda console: print_export(console, told),
        table=identity_of(reader.loaded),
        exit_code=4 if change.check else 0,
        status="planned" if planning else "done",
        dry_run=planning,
    )


def _folder(request: UpgradeRequest) -> str:
    """Return the folder to write to, with a scheme. Raises: UsageError."""
    if request.layout != DRAFT_16025 or not request.to:
        raise UsageError(
            f"`--layout {DRAFT_16025}` and `--to FOLDER` go together",
            hint="they write a snapshot in the form of the draft; the table stays as it is",
        )
    for option, given in (
        ("--lazy", request.lazy),
        ("--eager", request.eager),
        ("--convert-position-deletes", request.convert_position_deletes),
        ("--allow-read-only", request.allow_read_only),
    ):
        if given:
            raise UsageError(f"`{option}` means nothing to `--layout {DRAFT_16025}`")
    folder = request.to.rstrip("/") or "/"
    return folder if scheme(folder) else f"file:{Path(folder).absolute()}"


def _notes(plan: ExportPlan) -> tuple[str, ...]:
    """Return what the form does not say that the table does."""
    notes = ["column sizes have no place in it"]
    if plan.lost_vectors:
        vectors = print_count(plan.lost_vectors, "deletion vector")
        notes.append(f"left out, of data files that are not live: {vectors}")
    return tuple(notes)


# -- a root as TABLE ----------------------------------------------------------------------------


def show_root(common: Common, table: str, view: str, given: ViewRequest, wanted: str) -> Outcome:
    """Show entries of a root and of its leaves, in a wanted format.

    Raises: UsageError for a view, or an option, that means nothing to a root; TableNotFound; as
    read_root.
    """
    chosen = "entries" if view == "summary" else view
    if chosen not in _VIEWS:
        raise UsageError(
            f"a root of the draft has no view `{view}`", hint=f"views: {', '.join(_VIEWS)}"
        )
    for option, value in (
        ("--snapshot", given.snapshot),
        ("--ref", given.ref),
        ("--as-of", given.as_of),
        ("--all-snapshots", given.all_snapshots),
        ("--content", given.content),
        ("--from", given.from_),
        ("--to", given.to),
        ("--html", given.html),
        ("--check", given.check),
        ("--fail-on", given.fail_on),
    ):
        if value:
            raise UsageError(f"`{option}` means nothing to a root of the draft")
    if wanted not in ("text", "json", "jsonl", "csv"):
        raise UsageError(f"`--format {wanted}` means nothing to a root of the draft")
    limit = parse_option("--limit", given.limit, parse_count)
    store, location = _located(common, table)
    rows = list(islice(draft_rows(store, location, chosen), limit))
    names = tuple((given.columns or "").split(",")) if given.columns else _columns(rows, wanted)
    if given.columns:
        rows = [{name: row.get(name) for name in names} for row in rows]
    printer = {"jsonl": print_json_lines, "csv": print_csv}.get(wanted, print_chosen)
    return Outcome(
        command="inspect",
        result={"view": f"draft-{chosen}", "root": location, "rows": rows},
        render=lambda console: printer(console, RowSet(names, rows)),
    )


_VIEWS = ("entries", "files", "manifests")
_TEXT = ("status", "content", "live", "record_count", "location")


def _columns(rows: Sequence[Row], wanted: str) -> tuple[str, ...]:
    """Return all members that rows have, in their order; few of them in text."""
    return _TEXT if wanted == "text" else tuple(dict.fromkeys(chain.from_iterable(rows)))


def validate_root(common: Common, table: str, request: ValidateRequest) -> Outcome:
    """Check a root of the draft and its leaves, whatever the level: data files are not read.

    Raises: UsageError; TableNotFound; StorageError; Unsupported.
    """
    if request.snapshot or request.ref or request.all_snapshots:
        raise UsageError("a root of the draft is one snapshot", hint="leave the choice out")
    chosen = RuleChoice(
        rule_ids("--rule", request.rule or ()), rule_ids("--skip", request.skip or ())
    )
    found = check_root(*_located(common, table))
    checked = CheckedTable(
        table_location=found.table_location,
        level="metadata",
        findings=tuple(filter(chosen.keeps, found.findings)),
        snapshots_checked=1,
        files_checked=found.file_count,
        bytes_read=found.bytes_read,
    )
    fail_on = cast("Severity", common.shell.settings.read(VALIDATE_FAIL_ON))
    whole = common.shell.console.options.verbosity > 0
    return Outcome(
        command="validate",
        result=checked_result(checked),
        render=lambda console: print_checked(console, checked, whole=whole),
        exit_code=4 if fails(checked.findings, fail_on) else 0,
    )


def _located(common: Common, table: str) -> tuple[Store, str]:
    """Return the store of a root, and its location. Raises: TableNotFound; StorageError."""
    store = open_store(storage_of(common), common.shell.env)
    location = table if scheme(table) else str(Path(table).absolute())
    if store.stat(location) is None:
        raise TableNotFound(f"there is no file `{location}`")
    return store, location
