"""The run of `icectl refs`: list, or plan and commit a change."""

from collections.abc import Sequence

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, read_options
from icectl.cli.session import identity_of, open_session
from icectl.commands.change import MetadataReport, PlannedChange, carry_out, commit_metadata
from icectl.commands.refs.options import VERBS, RefsRequest
from icectl.commands.refs.plan import (
    RefChange,
    RefSettings,
    plan_drop,
    plan_fast_forward,
    plan_ref,
    plan_rollback,
    snapshot_at,
    updates,
)
from icectl.commands.refs.report import print_changes, print_refs, question, refs_result
from icectl.commit.output_journal import Leftovers
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.table.row_safety import open_to_change
from icectl.units import parse_instant

COMMAND = "refs"

_OPTIONS_BY_VERB = {
    "list": (),
    "tag": ("--at", "--replace", "--max-ref-age"),
    "branch": (
        "--at", "--replace", "--max-ref-age", "--min-snapshots-to-keep", "--max-snapshot-age",
    ),
    "drop": (),
    "rollback": ("--to",),
    "fast-forward": ("--to",),
}  # fmt: skip


def run(common: Common, table: str, request: RefsRequest, change: Change) -> Outcome:
    """List the branches and tags, or change some."""
    _check(request)
    if request.verb in (None, "list"):
        return _show(common, table)
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    leftovers = Leftovers(context, (COMMAND,))
    values = read_options(request)
    settings = RefSettings(
        values["max_ref_age"], values["min_snapshots_to_keep"], values["max_snapshot_age"]
    )
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    changes = _plan(metadata, request, settings, context.env.now_ms())
    if request.verb == "drop":
        for name in request.names or ():
            if not any(one.name == name for one in changes):
                session.console.warn(f"the table has no branch or tag `{name}`")
    report = MetadataReport(metadata, changes)
    return carry_out(
        session,
        change,
        PlannedChange(
            command=COMMAND,
            loaded=loaded,
            report=report,
            result=refs_result,
            show=lambda console, refs, _: print_changes(console, refs),
            has_work=bool(changes),
            clean_up=lambda: leftovers.remove(loaded),
            execute=lambda: commit_metadata(context, leftovers, loaded, report, updates),
            superseded=lambda: MetadataReport(metadata),
            question=question(metadata.location, changes),
        ),
    )


def _check(request: RefsRequest) -> None:
    """Raises: UsageError, for an unknown verb, an option of another one, missing names."""
    verb, names = request.verb or "list", request.names or []
    if verb not in VERBS:
        raise UsageError(f"`{verb}` is none of {', '.join(VERBS)}")
    given = {
        "--at": request.at,
        "--to": request.to,
        "--replace": request.replace,
        "--max-ref-age": request.max_ref_age,
        "--min-snapshots-to-keep": request.min_snapshots_to_keep,
        "--max-snapshot-age": request.max_snapshot_age,
    }
    for name, value in given.items():
        if value and name not in _OPTIONS_BY_VERB[verb]:
            raise UsageError(f"`{name}` does not go with `{verb}`")
    if verb in ("rollback", "fast-forward") and request.to is None:
        raise UsageError(f"`{verb}` needs `--to`")
    least = 0 if verb in ("list", "rollback") else 1
    most = {"list": 0, "drop": None}.get(verb, 1)
    if len(names) < least:
        raise UsageError(f"`{verb}` needs the name of a branch or tag")
    if most is not None and len(names) > most:
        raise UsageError(f"`{verb}` takes {'one name' if most else 'no name'}, not {len(names)}")


def _plan(
    metadata: TableMetadata, request: RefsRequest, settings: RefSettings, now_ms: int
) -> Sequence[RefChange]:
    """Plan what the verb asks for. Raises: UsageError; Refused."""
    names = request.names or ["main"]
    if request.verb == "drop":
        planned = [plan_drop(metadata, name) for name in dict.fromkeys(names)]
    elif request.verb == "rollback":
        to = request.to or ""
        planned = [plan_rollback(metadata, names[0], to, _instant(to, now_ms))]
    elif request.verb == "fast-forward":
        target = snapshot_at(metadata, request.to or "", None)
        planned = [plan_fast_forward(metadata, names[0], target)]
    else:
        where, kind = request.at, request.verb or ""
        at = None if where is None else snapshot_at(metadata, where, _instant(where, now_ms))
        planned = [plan_ref(metadata, kind, names[0], at, settings, replaces=request.replace)]
    return [change for change in planned if change is not None]


def _instant(text: str, now_ms: int) -> int | None:
    try:
        return parse_instant(text, now_ms)
    except UsageError:
        return None


def _show(common: Common, table: str) -> Outcome:
    session = open_session(common, table, read_only=True)
    loaded = session.open_for_reading("listed").loaded
    metadata = loaded.metadata
    return Outcome(
        command=COMMAND,
        result=refs_result(MetadataReport(metadata)),
        render=lambda console: print_refs(console, metadata),
        table=identity_of(loaded),
    )
