"""What follows the first commit of an upgrade: manifests and deletion vectors, commit by commit."""

import sys
from collections.abc import Callable, Iterable

from icectl.cli.failures import error_and_code
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import execute as execute_compaction
from icectl.commands.compact.run import prepare as prepare_compaction
from icectl.commands.upgrade_to_v4.report import Upgraded
from icectl.errors import CommitUnknown, IcectlError, Refused
from icectl.format.metadata import TableMetadata
from icectl.format.properties import DELETE_TARGET_FILE_SIZE_BYTES, read
from icectl.rows.local import LocalEngine
from icectl.table.context import TableContext
from icectl.table.output_sizes import sizes_of


def carry_on(
    context: TableContext, done: Upgraded | None, follow_ups: Iterable[Callable[[], Upgraded]]
) -> Upgraded:
    """Make the commits that follow the first; its outcome, None if there was none to make.

    An error leaves the table as the commits before it made it, and is part of the outcome.
    Raises: CommitUnknown; Refused, if there is no commit to make; as the first commit.
    """
    for follow_up in follow_ups:
        try:
            context.deadline.check()
            upgraded = follow_up()
        except CommitUnknown:
            raise
        except (IcectlError, OSError) as raised:  # files of rows are written without a store
            if done is None:
                raise
            return Upgraded(done.landed, done.snapshot_id, error_and_code(raised)[0])
        first = upgraded.snapshot_id if done is None else done.snapshot_id
        done = Upgraded(upgraded.landed, upgraded.snapshot_id if first is None else first)
    if done is None:
        raise Refused("there is nothing left to upgrade")
    return done


def convert(context: TableContext, branch: str) -> Upgraded:
    """Make the position delete files of a branch deletion vectors (R-115, sfc-1 11.5).

    Raises: CommitConflict, where another writer has made all of them go; as execute_compaction.
    """
    engine = LocalEngine(context.store, context.progress, context.deadline, context.concurrency)
    planned = prepare_compaction(context, branch, _vectors_alone)
    outcome = execute_compaction(context, engine, planned)
    return Upgraded(outcome.landed, outcome.snapshot_ids[-1])


def _vectors_alone(metadata: TableMetadata) -> CompactOptions:
    """Merge position delete files into vectors; equality deletes and other vectors stay."""
    return CompactOptions(
        sizes_of(read(metadata.properties, DELETE_TARGET_FILE_SIZE_BYTES), None, None),
        metadata.default_spec_id,
        min_input_files=sys.maxsize,
        deletes_only=True,
        keeps_equality_deletes=True,
    )
