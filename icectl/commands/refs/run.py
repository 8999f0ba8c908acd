"""The run of `icectl refs`: list, or plan and commit a change."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from icectl.cli.console import Console
from icectl.cli.document import Outcome, id_text, print_new_metadata_file
from icectl.cli.options import Change, Common, read_options
from icectl.cli.session import identity_of, open_session
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.change import (
    MetadataReport,
    PlannedChange,
    carry_out,
    check_table_first,
    commit_metadata,
)
from icectl.commands.refs.options import VERBS, RefsRequest
from icectl.commands.refs.plan import (
    RefChange,
    plan_drop,
    plan_fast_forward,
    plan_ref,
    plan_rollback,
    refs_of,
    snapshot_at,
    updates,
)
from icectl.commit.output_journal import Leftovers
from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import SnapshotRef, ancestors
from icectl.table.guard import open_to_change
from icectl.units import is_instant, parse_instant, print_count, print_duration, print_instant

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
    _check(table, request)
    if request.verb in (None, "list"):
        session = open_session(common, table, read_only=True)
        loaded = session.open_for_reading("listed").loaded
        return Outcome(
            command=COMMAND,
            result=refs_result(MetadataReport(loaded.metadata)),
            render=lambda console: print_refs(console, loaded.metadata),
            table=identity_of(loaded),
        )
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    leftovers = Leftovers(context, (COMMAND,))
    values = read_options(request)
    retention = {
        "max_ref_age_ms": values["max_ref_age"],
        "min_snapshots_to_keep": values["min_snapshots_to_keep"],
        "max_snapshot_age_ms": values["max_snapshot_age"],
    }
    loaded = open_to_change(context.catalog)
    metadata = loaded.metadata
    now_ms = context.env.now_ms()
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
        planned = [plan_ref(metadata, kind, names[0], at, retention, replaces=request.replace)]
    changes = [item for item in planned if item is not None]
    if request.verb == "drop":
        for name in request.names or ():
            if not any(item.name == name for item in changes):
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


def _check(table: str, request: RefsRequest) -> None:
    """Raises: UsageError, for an unknown verb, an option of another one, missing names."""
    verb, names = request.verb or "list", request.names or []
    if verb not in VERBS:
        check_table_first(COMMAND, VERBS, table, verb)
        raise UsageError(f"`{verb}` is not one of {', '.join(VERBS)}")
    for name in dict.fromkeys(chain(("--at", "--to"), *_OPTIONS_BY_VERB.values())):
        value = getattr(request, name.removeprefix("--").replace("-", "_"))
        if value and name not in _OPTIONS_BY_VERB[verb]:
            raise UsageError(f"`{name}` cannot be used with `{verb}`")
    if verb in ("rollback", "fast-forward") and request.to is None:
        raise UsageError(f"`{verb}` needs `--to`")
    least = 0 if verb in ("list", "rollback") else 1
    most = {"list": 0, "drop": None}.get(verb, 1)
    if len(names) < least:
        raise UsageError(f"`{verb}` needs the name of a branch or tag")
    if most is not None and len(names) > most:
        raise UsageError(f"`{verb}` takes {'one name' if most else 'no name'}, not {len(names)}")


def _instant(text: str, now_ms: int) -> int | None:
    """Return the time of a text; None if it is none. Raises: UsageError, for one in the future."""
    return parse_instant(text, now_ms) if is_instant(text) else None


def refs_result(report: MetadataReport[RefChange]) -> dict[str, Any]:
    """Return the JSON members: all refs after the changes, and the changes."""
    after = refs_of(report.metadata)
    for change in report.changes:
        if change.after is None:
            del after[change.name]
        else:
            after[change.name] = change.after
    return {
        "refs": [{"name": name, **_ref(report.metadata, ref)} for name, ref in after.items()],
        "changes": [
            {
                "name": change.name,
                "before": _ref(report.metadata, change.before) if change.before else None,
                "after": _ref(report.metadata, change.after) if change.after else None,
                "leaving_snapshots": [id_text(snapshot_id) for snapshot_id in change.leaving],
            }
            for change in report.changes
        ],
    }


def _ref(metadata: TableMetadata, ref: SnapshotRef) -> Mapping[str, Any]:
    return {
        "type": ref.type,
        "snapshot_id": id_text(ref.snapshot_id),
        "committed_at": _committed_at(metadata, ref),
        "max_ref_age_ms": ref.max_ref_age_ms,
        "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        "max_snapshot_age_ms": ref.max_snapshot_age_ms,
    }


def _committed_at(metadata: TableMetadata, ref: SnapshotRef) -> str | None:
    snapshot = metadata.snapshot(ref.snapshot_id)
    return None if snapshot is None else print_instant(snapshot.timestamp_ms)


def print_refs(console: Console, metadata: TableMetadata) -> None:
    """Print all branches and tags, main first."""
    refs = refs_of(metadata)
    if not refs:
        console.say("the table has no branches or tags: it has no snapshot yet")
        return
    columns = (
        TableColumn("name", cut="end"),
        *(TableColumn(name) for name in ("type", "snapshot", "committed (UTC)")),
        *(TableColumn(name, "right") for name in ("ref age", "keep", "snapshot age")),
    )
    rows = [
        (
            name,
            ref.type,
            str(ref.snapshot_id),
            _committed_at(metadata, ref) or "expired",
            _age(ref.max_ref_age_ms),
            "" if ref.min_snapshots_to_keep is None else f"{ref.min_snapshots_to_keep:,}",
            _age(ref.max_snapshot_age_ms),
        )
        for name, ref in refs.items()
    ]
    print_table(console, columns, rows)


def _age(duration_ms: int | None) -> str:
    return "" if duration_ms is None else print_duration(duration_ms)


def question(table_location: str, changes: Sequence[RefChange]) -> str | None:
    """Return the question before changes that take snapshots from a ref; None for others."""
    taken = [change for change in changes if change.before is not None and _takes(change)]
    if not taken:
        return None
    names = ", ".join(f"`{change.name}`" for change in taken)
    if all(change.after is None for change in taken):
        return f"drop {names} of {table_location}?"
    return f"move {names} of {table_location}?"


def _takes(change: RefChange) -> bool:
    """Return whether a ref is removed, or loses snapshots."""
    if change.after is None or change.leaving:
        return True
    return change.after.type == "tag" and change.before != change.after


def print_changes(console: Console, report: MetadataReport[RefChange]) -> None:
    """Print the changes, planned or made."""
    if not report.changes:
        console.say("nothing to do: refs already match")
        return
    for change in report.changes:
        console.say(_sentence(change, done=report.done))
    leaving = {snapshot_id for change in report.changes for snapshot_id in change.leaving}
    if leaving:
        refs: dict[str, SnapshotRef | None] = {**refs_of(report.metadata)}
        refs |= {change.name: change.after for change in report.changes}
        snapshots = report.metadata.snapshots_by_id
        lost = leaving.difference(
            ancestor.snapshot_id
            for ref in refs.values()
            if ref is not None
            for ancestor in ancestors(snapshots, ref.snapshot_id)
        )
        names = " and ".join(change.name for change in report.changes if change.leaving)
        verb = "becomes" if len(leaving) == 1 else "become"
        out = f"{print_count(len(leaving), 'snapshot')} {verb} unreachable from {names}"
        if not lost:
            console.say(f"{out}; other branches or tags still reach all of them")
        elif len(lost) < len(leaving):
            console.say(f"{out}; {len(lost):,} in no other ref, in the table until they expire")
        else:
            console.say(f"{out}; they stay in the table until they expire")
    if report.done:
        print_new_metadata_file(console, report.new_metadata_file)


def _sentence(change: RefChange, *, done: bool) -> str:
    before, after = change.before, change.after
    if after is None:
        assert before is not None
        verb = "dropped" if done else "drop"
        return f"{verb} {before.type} {change.name}, at snapshot {before.snapshot_id}"
    if before is None:
        verb = "created" if done else "create"
        return f"{verb} {after.type} {change.name} at snapshot {after.snapshot_id}"
    if before.snapshot_id == after.snapshot_id:
        verb = "changed" if done else "change"
        return f"{verb} the retention of {after.type} {change.name}"
    verb = "moved" if done else "move"
    ids = f"from snapshot {before.snapshot_id} to {after.snapshot_id}"
    return f"{verb} {after.type} {change.name} {ids}"
