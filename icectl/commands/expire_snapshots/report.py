"""The plan and the outcome of an expiry, as result members and as text."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from icectl.catalog.protocol import LoadedTable
from icectl.cli.console import Console
from icectl.cli.document import Listed, id_text, print_new_metadata_file
from icectl.cli.session import unpublished_metadata
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.expire_snapshots.plan import (
    ExpirePlan,
    ManifestCounts,
    UnreadablePart,
    as_landed,
)
from icectl.commit.deletion import DeletionJournal, Removal
from icectl.entries.files import Files
from icectl.format.manifest import ManifestIdentity
from icectl.format.metadata import TableMetadata
from icectl.storage.many_files import FilesByKind
from icectl.table.retention import AskedRetention, Decision, Retention
from icectl.table.reviewed import Reviewed
from icectl.units import print_count, print_instant, print_second, print_size

LISTED_WITHOUT_VERBOSE = 40
"""Snapshots that are listed when the whole plan was not asked for."""


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """The options of an expiry; `policy` is called with the metadata of the table.

    Snapshots younger than `min_age_ms` are refused. With a reviewed plan (`only`), nothing is
    deleted that it does not name.
    """

    policy: Callable[[TableMetadata], AskedRetention]
    min_age_ms: int = 0
    clean_expired_metadata: bool = False
    keep_files: bool = False
    trusts_lists: bool = False
    only: Reviewed | None = None


@dataclass(frozen=True, slots=True)
class PreparedExpiry:
    """A plan and what it was made from.

    `deletable` and `outside` are the plan's files inside and outside the table's own places, also
    files of an `unfinished` earlier run; files behind a link count as outside. The commit of an
    `abandoned` run never landed. Of files that stay, `staying` matter to those to delete. Killed
    runs left `temporaries`. What expires and is `unread` hides its files. `read` are manifests that
    need not be read again, and `manifests` says how many there are.
    """

    loaded: LoadedTable
    options: ExpireOptions
    now_ms: int
    plan: ExpirePlan
    deletable: FilesByKind
    outside: FilesByKind
    unfinished: tuple[DeletionJournal, ...]
    abandoned: tuple[DeletionJournal, ...]
    staying: Iterable[Files]
    temporaries: tuple[str, ...]
    unread: tuple[UnreadablePart, ...] = ()
    read: frozenset[ManifestIdentity] = frozenset()
    manifests: ManifestCounts = field(default_factory=ManifestCounts)

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return self.plan.changes_table or (self.deletes_files and len(self.deletable) > 0)

    @property
    def deletes_files(self) -> bool:
        """Whether a run deletes files at all."""
        return deletes_files(self.loaded, self.options)


@dataclass(frozen=True, slots=True)
class Expired:
    """The result of a run."""

    landed: LoadedTable
    removal: Removal


def deletes_files(loaded: LoadedTable, options: ExpireOptions) -> bool:
    """Return whether a run deletes files: not if only the caller knows the current metadata."""
    return not options.keep_files and loaded.capabilities.publishes


@dataclass(frozen=True, slots=True)
class Expiry:
    """The plan of an expiry, and its outcome; `superseded_by` says why nothing was executed."""

    prepared: PreparedExpiry
    outcome: Expired | None = None
    superseded_by: str | None = None

    @property
    def plan(self) -> ExpirePlan:
        """The plan; after a run, as far as it has come true."""
        plan = self.prepared.plan
        return plan if self.outcome is None else as_landed(plan, self.outcome.landed.metadata)


def superseded(expiry: Expiry, reason: str) -> Expiry:
    """Return the report of an expiry that changed nothing after all: every snapshot is kept."""
    decisions = tuple(
        item if item.kept else replace(item, kept=True, reason=reason)
        for item in expiry.plan.retention.decisions
    )
    plan = replace(expiry.plan, retention=Retention(decisions, ()), schema_ids=(), spec_ids=())
    prepared = replace(expiry.prepared, plan=plan, deletable=FilesByKind(), outside=FilesByKind())
    return Expiry(prepared, superseded_by=reason)


def expiry_result(expiry: Expiry) -> dict[str, Any]:
    """Return the JSON members; of a plan, `deleted` and `files` are what would be deleted."""
    prepared, plan = expiry.prepared, expiry.plan
    removal = None if expiry.outcome is None else expiry.outcome.removal
    planned = prepared.deletable if prepared.deletes_files else FilesByKind()
    deleted = planned if removal is None else removal.removed
    failed = () if removal is None else removal.failed
    return {
        "expired": [_decision(item) for item in plan.retention.expired],
        "kept": [_decision(item) for item in plan.retention.kept],
        "refs_removed": [
            {"name": ref.name, "snapshot_id": id_text(ref.snapshot_id), "reason": ref.reason}
            for ref in plan.retention.refs_removed
        ],
        "schemas_removed": list(plan.schema_ids),
        "specs_removed": list(plan.spec_ids),
        "deleted": {kind.name.lower(): count for kind, count in deleted.counts.items()},
        "deleted_bytes": deleted.total_bytes,
        "manifest_count": prepared.manifests.total,
        "read_manifest_count": prepared.manifests.read,
        "files": _files(deleted),
        "outside": _files(prepared.outside),
        "failed": [{"path": item.location, "error": item.error} for item in failed],
    }


def expiry_line(expiry: Expiry) -> str:
    """Return how many snapshots an expiry drops and what it frees, or would."""
    prepared, outcome = expiry.prepared, expiry.outcome
    deleted = prepared.deletable if prepared.deletes_files else FilesByKind()
    deleted = deleted if outcome is None else outcome.removal.removed
    snapshots = print_count(len(expiry.plan.retention.expired), "snapshot")
    size = print_size(deleted.total_bytes)
    if outcome is None:
        return f"{snapshots} to expire, {size} to free"
    return f"{snapshots} expired, {size} freed"


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "snapshot_id": id_text(decision.snapshot_id),
        "timestamp": print_instant(decision.timestamp_ms),
        "reason": decision.reason,
    }


def _files(files: FilesByKind) -> Listed:
    return Listed(
        len(files),
        lambda: (
            {"path": location, "kind": kind.name.lower(), "size_bytes": size}
            for location, kind, size in files.rows()
        ),
    )


def question(expiry: Expiry) -> str:
    """Return the question that the user is asked before anything happens."""
    count = len(expiry.plan.retention.expired)
    prepared = expiry.prepared
    files = f" and delete {_count_files(prepared.deletable)}" if prepared.deletes_files else ""
    location = prepared.loaded.metadata.location
    return f"expire {print_count(count, 'snapshot')} of {location}{files}?"


def print_expiry(console: Console, expiry: Expiry, *, whole: bool) -> None:
    """Print the plan, or the outcome of its execution; `whole`: every file of a plan too."""
    deletable, outcome = expiry.prepared.deletable, expiry.outcome
    if expiry.superseded_by is not None:
        console.say(expiry.superseded_by)
        return
    if outcome is None:
        has_work = expiry.plan.changes_table or len(deletable) > 0
        if whole or has_work:
            _print_snapshots(console, expiry.plan, whole=whole)
        if not has_work:
            console.say("nothing to do: every snapshot stays")
            return
        if whole:
            _print_files(console, expiry)
        if expiry.prepared.manifests.total:
            console.say(_manifests(expiry))
        console.say(_summary(expiry, deletable, "would be deleted"))
        _print_outside(console, expiry)
        return
    removal = outcome.removal
    for decision in expiry.plan.retention.expired[:LISTED_WITHOUT_VERBOSE]:
        console.detail(f"expired {decision.snapshot_id}: {decision.reason}")
    console.detail(_manifests(expiry))
    console.say(_summary(expiry, removal.removed, "deleted"))
    _print_outside(console, expiry)
    print_new_metadata_file(console, unpublished_metadata(outcome.landed), "no file was deleted")
    for item in removal.failed:
        console.warn(f"cannot delete {item.location}: {item.error}")
    if removal.stopped:
        console.warn("deleting stopped early; run the command again to finish")


def _print_snapshots(console: Console, plan: ExpirePlan, *, whole: bool) -> None:
    decisions = plan.retention.decisions
    if not decisions:
        return
    shown = decisions if whole else decisions[-LISTED_WITHOUT_VERBOSE:]
    names = ("snapshot", "committed", "")
    columns = (*map(TableColumn, names), TableColumn("reason", cut="wrap"))
    table = [
        (
            str(item.snapshot_id),
            print_second(item.timestamp_ms),
            "keep" if item.kept else "expire",
            item.reason,
        )
        for item in shown
    ]
    print_table(console, columns, table)
    if len(shown) < len(decisions):
        console.print(f"and {len(decisions) - len(shown):,} older ones: `--dry-run` lists all")
    for ref in plan.retention.refs_removed:
        console.print(f"ref {ref.name} is removed: {ref.reason}")
    for what, ids in (("schemas", plan.schema_ids), ("partition specs", plan.spec_ids)):
        if ids:
            console.print(f"unused {what} are removed: {', '.join(map(str, ids))}")
    console.print()


def _print_files(console: Console, expiry: Expiry) -> None:
    prepared = expiry.prepared
    if not prepared.deletes_files or not len(prepared.deletable):
        return
    base = prepared.loaded.metadata.location.rstrip("/") + "/"
    size_column = TableColumn("bytes", align="right")
    columns = (size_column, TableColumn("kind"), TableColumn("file", cut="middle"))
    table = Listed(
        len(prepared.deletable),
        lambda: (
            (
                "?" if size is None else f"{size:,}",
                kind.name.lower().replace("_", " ").removesuffix("s"),
                place.removeprefix(base),
            )
            for place, kind, size in prepared.deletable.rows()
        ),
    )
    print_table(console, columns, table)
    console.print()


def _summary(expiry: Expiry, deleted: FilesByKind, verb: str) -> str:
    expired = print_count(len(expiry.plan.retention.expired), "snapshot")
    kept_count = len(expiry.plan.retention.kept)
    text = f"{expired} expired, {kept_count:,} kept"
    if verb != "deleted":
        text = f"{expired} would expire, {kept_count:,} {'stays' if kept_count == 1 else 'stay'}"
    if not expiry.prepared.deletes_files:
        return f"{text}; no file is deleted"
    return f"{text}; {_count_files(deleted)} {verb}, {print_size(deleted.total_bytes)}"


def _manifests(expiry: Expiry) -> str:
    counts = expiry.prepared.manifests
    return f"read {counts.read:,} of {print_count(counts.total, 'manifest')}"


def _count_files(files: FilesByKind) -> str:
    return f"{print_count(len(files), 'file')} ({files.content_count:,} data and delete files)"


def _print_outside(console: Console, expiry: Expiry) -> None:
    outside = expiry.prepared.outside
    if not len(outside):
        return
    count = print_count(len(outside), "file")
    console.note(f"kept {count} outside the table's location that no snapshot reads")
    for location in islice(outside.locations(), LISTED_WITHOUT_VERBOSE):
        console.note(f"  {location}")
