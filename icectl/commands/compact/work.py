"""What a compaction reads, writes and saves: pure, by its groups of files."""

from collections.abc import Sequence

import numpy as np

from icectl.commands.bill import GETS_OF_DATA_FILE, Work, gets_in_ranges, gets_of, puts_of
from icectl.commands.compact.groups_plan import CompactGroup
from icectl.commands.compact.plan import CompactPlan
from icectl.entries.columns import Integers
from icectl.entries.deletes import delete_files_of
from icectl.entries.rows import numbers, where
from icectl.entries.summary import summarise
from icectl.table.live_files import LiveFiles


def rewriting_work(
    files: LiveFiles,
    rows: Integers,
    *,
    decoded_bytes: int,
    new_bytes: int,
    new_files: int,
    saved_depth: float,
) -> Work:
    """Return what it takes to make new files of some data files. New files are read again.

    Rows are taken to compress alike. A store that copies ranges of files by itself reads and writes
    fewer bytes than are told.
    """
    sizes = numbers(files.data, "file_size_in_bytes")
    is_rewritten = np.zeros(len(sizes), np.bool_)
    is_rewritten[rows] = True
    deletes = where(files.deletes, delete_files_of(files.matches, is_rewritten))
    stored = sizes[is_rewritten].tolist()
    return Work(
        copied_bytes=max(sum(stored) - decoded_bytes, 0),
        decoded_bytes=decoded_bytes,
        other_bytes=new_bytes + summarise(deletes).delete_file_bytes,
        written_bytes=new_bytes,
        get_requests=gets_of(stored)
        + len(deletes)
        + new_files
        + gets_in_ranges(new_bytes, new_files),
        put_requests=puts_of(new_bytes, new_files),
        fewer_requests=GETS_OF_DATA_FILE * max(len(stored) - new_files, 0),
        fewer_per_look_up=GETS_OF_DATA_FILE * saved_depth,
    )


def work_of(plan: CompactPlan, files: LiveFiles, removed_delete_files: int) -> Work:
    """Return what a plan takes beside the table's metadata."""
    rewriting = [group for group in plan.groups if not group.keeps_files]
    converting = [group for group in plan.groups if group.keeps_files]
    rows = {row for group in rewriting for row in group.files}
    work = rewriting_work(
        files,
        np.fromiter(sorted(rows), np.int64),
        decoded_bytes=sum(group.rewritten_bytes for group in rewriting),
        new_bytes=sum(group.expected_bytes for group in rewriting),
        new_files=sum(group.expected_files for group in rewriting),
        saved_depth=plan.saved_depth,
    )
    return work + converting_work(converting) + Work(fewer_requests=removed_delete_files)


def converting_work(groups: Sequence[CompactGroup]) -> Work:
    """Return what it takes to read and write the deletes of data files, which stay."""
    return Work(
        decoded_bytes=sum(group.input_bytes for group in groups),
        written_bytes=sum(group.expected_bytes for group in groups),
        get_requests=sum(len(group.files) + group.input_files for group in groups),
        put_requests=sum(group.expected_files for group in groups),
    )
