"""Compactions of built tables: a table with work, the means, and what rows are told by."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.report import Compacted, PreparedCompaction
from icectl.commands.compact.run import execute, prepare
from icectl.entries.rows import by_row
from icectl.env import Env
from icectl.format.metadata import TableMetadata
from icectl.rows.compact_job import Engine
from icectl.table.context import TableContext
from icectl.table.output_sizes import Sizes
from tests.builders.expiry import NOW_MS, context_of
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import dv_positions, head, live_entries
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv

SIZES = Sizes(2**20, 2**19, 2**21)
"""Built files have some KiB: all of them are small."""


def compaction_of(directory: Path, env: Env | None = None) -> TableContext:
    """Reach a table to compact it."""
    return context_of(directory, env=env or FixedEnv(NOW_MS), concurrency=2)


def compacted(
    directory: Path,
    prepared: PreparedCompaction,
    engine: Engine | None = None,
    env: Env | None = None,
    **how: Any,
) -> Compacted:
    """Carry a plan out, in this process unless an engine is given."""
    context = compaction_of(directory, env)
    inline = InlineEngine(context.store, context.progress, context.deadline, context.concurrency)
    return execute(context, engine or inline, prepared, **how)


def options(**chosen: Any) -> Callable[[TableMetadata], CompactOptions]:
    """Options that fit built tables."""

    def made(metadata: TableMetadata) -> CompactOptions:
        return replace(CompactOptions(SIZES, metadata.default_spec_id, min_input_files=2), **chosen)

    return made


def planned(directory: Path, branch: str = "main", **chosen: Any) -> PreparedCompaction:
    """Plan a compaction."""
    return prepare(compaction_of(directory), branch, options(**chosen))


def build(directory: Path, format_version: int, partitioning: str) -> TableBuilder:
    """A table of small files, with deletes of every kind that its version has."""
    table = TableBuilder(directory, format_version=format_version, partitioning=partitioning)
    for start in range(0, 60, 12):
        table.append(range(start, start + 12), files=2)
    if format_version > 1:
        table.delete_rows([1, 2, 13])
        table.delete_rows([4, 15, 26])
    if format_version == 2:
        table.delete_rows([40, 41], kind="equality")
    return table


def lineage(directory: Path) -> dict[int, tuple[int, int]]:
    """Row id and last update by the table's own ids, as R-100 has them."""
    loaded = planned(directory, min_input_files=99).files
    deleted = {
        entry["data_file"]["referenced_data_file"]: dv_positions(entry["data_file"])
        for entry in live_entries(head(directory))
        if entry["data_file"]["content"] == 1
    }
    found = {}
    for location, first, sequence in by_row(
        loaded.data, "location", "first_row_id", "sequence_number"
    ):
        gone = deleted.get(location, set())
        for at, row in enumerate(pq.read_table(location, partitioning=None).to_pylist()):
            row_id, updated = row.get("_row_id"), row.get("_last_updated_sequence_number")
            if at not in gone:
                found[row["id"]] = (
                    first + at if row_id is None else row_id,
                    sequence if updated is None else updated,
                )
    return found
