"""`icectl refs`: show and change the branches and tags of a table."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TableArgument, command, option
from icectl.cli.registry import load_run
from icectl.cli.settings import parse_count
from icectl.errors import UsageError
from icectl.format.properties import FOREVER_MS
from icectl.units import parse_duration

VERBS = ("list", "tag", "branch", "drop", "rollback", "fast-forward")


def parse_positive_duration(text: str) -> int:
    """Read milliseconds. Raises: UsageError, for a duration of nothing, or beyond 64 bits, too."""
    duration_ms = parse_duration(text)
    if duration_ms <= 0:
        raise UsageError("it is not positive")
    if duration_ms > FOREVER_MS:
        raise UsageError("it is too long for table metadata")
    return duration_ms


def _parse_kept(text: str) -> int:
    """Read a number of snapshots. Raises: UsageError, for one that Java cannot read, too."""
    count = parse_count(text)
    if count >= 2**31:
        raise UsageError(f"`{text}` is too large a number")
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class RefsRequest:
    """The options of `icectl refs`, as given."""

    verb: Annotated[
        str | None,
        typer.Argument(
            metavar="VERB",
            help="list (default), tag, branch, drop, rollback or fast-forward",
            show_default=False,
        ),
    ] = None
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="the branch or tag; drop: one or more; rollback: main by default",
            show_default=False,
        ),
    ] = None
    at: Annotated[
        str | None,
        option(
            "--at",
            metavar="WHERE",
            help="tag, branch: a ref, a snapshot's id, or a timestamp (default: head of main)",
        ),
    ] = None
    to: Annotated[
        str | None,
        option(
            "--to",
            metavar="WHERE",
            help="rollback: an older snapshot, or a timestamp; fast-forward: a ref or snapshot",
        ),
    ] = None
    replace: Annotated[bool, option("--replace", help="tag, branch: move an existing one")] = False
    max_ref_age: Annotated[
        str | None,
        option(
            "--max-ref-age",
            metavar="DURATION",
            parse=parse_positive_duration,
            help="tag, branch: drop it at this age",
        ),
    ] = None
    min_snapshots_to_keep: Annotated[
        str | None,
        option(
            "--min-snapshots-to-keep",
            metavar="N",
            parse=_parse_kept,
            help="branch: expiry keeps at least N snapshots",
        ),
    ] = None
    max_snapshot_age: Annotated[
        str | None,
        option(
            "--max-snapshot-age",
            metavar="DURATION",
            parse=parse_positive_duration,
            help="branch: age at which its snapshots expire",
        ),
    ] = None


@command(
    "refs",
    examples=[
        ("icectl refs /wh/db/t", "list branches and tags"),
        ("icectl refs prod.db.t tag eoy-2025 --max-ref-age 365d", "tag the head of main"),
        ("icectl refs prod.db.t rollback --to 2h", "roll main back to its state two hours ago"),
        ("icectl refs prod.db.t fast-forward main --to audit", "publish a branch"),
        ("icectl refs prod.db.t drop audit --yes", "drop a branch or tag"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
    choices={"verb": VERBS},
)
def refs(common: Common, table: TableArgument, request: RefsRequest, change: Change) -> Outcome:
    """List, create, move and drop the branches and tags of a table.

    A change is one commit that changes no file of the table and adds no snapshot. A rollback moves
    a branch to one of its own older snapshots; `branch NAME --at WHERE --replace` moves it to any
    snapshot. A fast-forward moves a branch to a descendant of its head. icectl asks before
    snapshots become unreachable from a branch. They stay in the table until `icectl
    expire-snapshots` drops them; until then `--replace` restores them. If another writer moves the
    ref concurrently, the command exits with code 11.
    """
    return load_run("refs")(common, table, request, change)
