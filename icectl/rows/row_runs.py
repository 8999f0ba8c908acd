"""Rows of the input files of a task by their positions: runs of them, as a table to send."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.rows.deleted_positions import Flags

_RUNS = pa.schema([("input", pa.int32()), ("start", pa.int64()), ("stop", pa.int64())])
"""The place of an input file in the task; its first row, and the one behind the last."""


def no_rows() -> pa.Table:
    """Return runs without a row."""
    return _RUNS.empty_table()


def runs_of(flags: Sequence[Flags | None]) -> pa.Table:
    """Return the flagged rows of input files as runs; None stands for no row of a file.

    Order: of the files, and their rows.
    """
    tables = [no_rows()]
    for at, of_file in enumerate(flags):
        if of_file is None:
            continue
        ends = np.flatnonzero(np.diff(of_file, prepend=False, append=False))
        columns = [np.full(len(ends) // 2, at, np.int32), ends[::2], ends[1::2]]
        tables.append(pa.table(columns, schema=_RUNS))
    return pa.concat_tables(tables)


def rows_of(runs: pa.Table, locations: Sequence[str]) -> Mapping[str, npt.NDArray[np.uint64]]:
    """Return the positions of rows by file, without empty ones; `locations` are the task's.

    Order: ascending.
    """
    inputs, starts, stops = (column.to_numpy() for column in runs.columns)
    counts = stops - starts
    before = np.cumsum(counts) - counts
    rows = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    inputs = np.repeat(inputs, counts)
    return {
        locations[at]: rows[inputs == at].astype(np.uint64) for at in np.unique(inputs).tolist()
    }
