"""The run of conversions: an engine looks rows up in equality deletes, and a commit takes over."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from icectl.checks.file_identity import StatedFile
from icectl.commands.compact.groups_plan import CompactGroup
from icectl.commands.compact.report import GroupOutput
from icectl.commit.converted_deletes import NOTHING, Conversion, DeleteConverter, stated_of
from icectl.commit.rewritten_groups import GroupResult
from icectl.commit.transaction import DataOutputs
from icectl.entries.rows import EMPTY, by_row, numbers, take, where
from icectl.format.manifest import Content
from icectl.format.metadata import TableMetadata
from icectl.rows.compact_job import ConvertJob, Engine, MergeJob, typed_specs
from icectl.table.context import TableContext
from icectl.table.live_files import LiveFiles, every_column, load_stated, name_mapping
from icectl.table.rewrite_tasks import ConvertTask, Task


def stated_of_conversions(
    context: TableContext, metadata: TableMetadata, files: LiveFiles
) -> Mapping[str, StatedFile]:
    """Read what entries state of equality deletes, and of the data files that these apply to.

    Raises: as load_stated.
    """
    counts = [part.counts for part in files.matches.equality_deletes]
    rows = np.flatnonzero(np.sum(counts, axis=0))
    if not len(rows):
        return {}
    is_equality = numbers(files.deletes, "content") == Content.EQUALITY_DELETES
    parts = [take(files.data, rows.tolist()), where(files.deletes, is_equality)]
    return load_stated(context, metadata, files.manifests, parts)


def emptied(group: CompactGroup) -> GroupResult:
    """Return a group's result without its new files, to see what goes."""
    if group.conversion is None:
        return GroupResult(group.number, group.tasks, EMPTY)
    gone = frozenset(file.location for file in group.conversion.deletes)
    return GroupResult(group.number, (), EMPTY, converted=gone)


@dataclass(frozen=True, slots=True)
class Converting:
    """The means to convert equality deletes of one table."""

    context: TableContext
    engine: Engine
    metadata: TableMetadata
    merging: MergeJob

    def look_up(
        self,
        groups: Sequence[CompactGroup],
        tasks: Sequence[Task],
        places: DataOutputs,
        files: LiveFiles,
    ) -> DeleteConverter:
        """Look rows up for some groups, and return what commits them.

        `tasks` are those of the groups, `files` what they were planned with.
        Raises: as Engine.convert.
        """
        job = ConvertJob(
            typed_specs(self.metadata),
            every_column(self.metadata),
            name_mapping(self.metadata),
            files.unpartitioned_spec_ids,
        )
        plans = [group.conversion for group in groups if group.conversion is not None]
        conversion = Conversion(
            groups[0].number,
            tuple(file for plan in plans for file in plan.deletes),
            frozenset[str]().union(*(plan.merging for plan in plans)),
            {stated_of(file): NOTHING for plan in plans for file in plan.unread},
        )
        converting = [task for task in tasks if isinstance(task, ConvertTask)]
        conversion.add(converting, self.engine.convert(converting, job, places))
        return DeleteConverter(
            self.context.store,
            self.merging,
            places,
            "vectors" if self.metadata.format_version >= 3 else "positions",
            files.unpartitioned_spec_ids,
            self.context.concurrency,
            lambda more: self.engine.convert(more, job, places),
            conversion,
            self.context.env.new_snapshot_id(),
        )


def conversion_outputs(
    groups: Sequence[CompactGroup], files: LiveFiles, converted: GroupResult
) -> Mapping[int, GroupOutput]:
    """Return the new deletes of conversions by group; one of several counts for the first."""
    converting = [group for group in groups if group.conversion is not None]
    owners: dict[str, int] = {}
    for group in converting:
        for (location,) in by_row(take(files.data, group.files), "location"):
            owners.setdefault(location, group.number)
    file_counts, sizes, row_counts = Counter[int](), Counter[int](), Counter[int]()
    counted = set()
    columns = ("location", "file_size_in_bytes", "record_count", "referenced_data_file")
    for location, size, count, data_file in by_row(converted.added, *columns):
        number = owners.get(data_file, converting[0].number)
        row_counts[number] += count
        if location not in counted:
            counted.add(location)
            file_counts[number] += 1
            sizes[number] += size
    return {
        group.number: GroupOutput(
            file_counts[group.number], sizes[group.number], row_counts[group.number], group.choice
        )
        for group in converting
    }
