"""The course of `icectl rewrite-manifests`: options, plan, run, outcome."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, cast

from icectl.cli.commands.rewrite_manifests import RewriteRequest
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, identity_of, open_session, unpublished_metadata
from icectl.cli.settings import parse_count, parse_option, whole_number
from icectl.errors import CommitConflict, UsageError
from icectl.plan.rewrite_manifests import RewriteOptions
from icectl.report.document import Outcome
from icectl.report.rewrite_manifests import Rewriting, print_rewriting, rewriting_result
from icectl.run.rewrite_manifests import (
    COMMAND,
    PreparedRewrite,
    RewrittenManifests,
    execute,
    prepare,
    remove_leftovers,
)
from icectl.spec.layout import Layout, layout_name, layout_of_table
from icectl.spec.manifest import FileFormat
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import LEAF_MAX_ENTRIES, TARGET_MANIFEST_SIZE_BYTES, read
from icectl.units import parse_size

Content = Literal["all", "data", "deletes"]
_FORMATS = {"avro": FileFormat.AVRO, "parquet": FileFormat.PARQUET}


def run(common: Common, table: str, request: RewriteRequest, change: Change) -> Outcome:
    """Plan the rewrite and, unless the plan is all that was asked for, run it."""
    options = options_of(request)
    session = open_session(common, table, read_only=False, change=change)
    access = session.access
    prepared = prepare(
        access,
        request.branch,
        lambda metadata: replace(options(metadata), only=session.reviewed),
    )
    told = Rewriting(prepared.plan, prepared.listed.manifests)
    session.approve(lambda: rewriting_result(told))
    whole = change.dry_run or change.check
    if not prepared.has_work:
        if not whole:
            remove_leftovers(access, prepared)
        return _outcome(session, prepared, told, status="nothing-to-do", whole=whole)
    if whole:
        outcome = _outcome(session, prepared, told, status="planned", whole=True)
        return replace(outcome, exit_code=4) if change.check else outcome
    try:
        done = execute(access, prepared)
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        untouched = replace(told, plan=replace(prepared.plan, groups=()))
        return _outcome(session, prepared, untouched, status="nothing-to-do", whole=False)
    return _done(session, prepared, told, done)


def _done(
    session: Session, prepared: PreparedRewrite, told: Rewriting, done: RewrittenManifests
) -> Outcome:
    location = done.landed.metadata_location
    told = replace(
        told,
        written=done.written,
        snapshot_id=done.snapshot_id,
        new_metadata_file=unpublished_metadata(done.landed),
    )
    outcome = _outcome(session, prepared, told, status="done", whole=False)
    return replace(outcome, table=identity_of(prepared.loaded, location))


def _outcome(
    session: Session,
    prepared: PreparedRewrite,
    told: Rewriting,
    *,
    status: Literal["done", "planned", "nothing-to-do"],
    whole: bool,
) -> Outcome:
    listing = whole or session.console.options.verbosity > 0
    return Outcome(
        command=COMMAND,
        result=rewriting_result(told),
        render=lambda console: print_rewriting(console, told, whole=listing),
        table=identity_of(prepared.loaded),
        status=status,
        dry_run=whole,
    )


def options_of(request: RewriteRequest) -> Callable[[TableMetadata], RewriteOptions]:
    """Check the request, and return what makes options of it for a table.

    Raises: UsageError.
    """
    if request.content not in ("all", "data", "deletes"):
        message = f"`--content` is `all`, `data` or `deletes`, not `{request.content}`"
        raise UsageError(message)
    form = request.manifest_format
    if form is not None and form not in _FORMATS:
        raise UsageError(f"`--manifest-format` is `avro` or `parquet`, not `{form}`")
    spec_id = (
        None
        if request.spec_id is None
        else whole_number("--spec-id", request.spec_id, "id of a partition spec")
    )
    given = parse_option("--target-size", request.target_size, parse_size)
    if given is not None and given < 1:
        raise UsageError("`--target-size` is 0")
    minimum = parse_option("--min-manifests", request.min_manifests, parse_count)
    sort_by = tuple(name.strip() for name in (request.sort_by or "").split(",") if name.strip())
    if request.sort_by is not None and not sort_by:
        raise UsageError("`--sort-by` names no partition field")

    def of(metadata: TableMetadata) -> RewriteOptions:
        """Make the options for a table. Raises: UsageError for a format that it can't have."""
        if form is not None and layout_name(metadata) != "iceberg-1.12":
            raise UsageError(
                "`--manifest-format` is for tables of version 4 as Iceberg 1.12 writes it",
                hint="of others the version and the layout say how manifests are stored",
            )
        return RewriteOptions(
            target_size_bytes=given or read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES),
            spec_id=spec_id,
            sort_by=sort_by,
            min_manifests=2 if minimum is None else minimum,
            content=cast("Content", request.content),  # checked above
            max_entries=(
                read(metadata.properties, LEAF_MAX_ENTRIES)
                if layout_of_table(metadata) is Layout.SFC_1
                else None
            ),
            file_format=None if form is None else _FORMATS[form],
        )

    return of
