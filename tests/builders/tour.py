"""The table of the tour: three hundred commits, thousands of small files, deletes, refs.

python -m tests.builders.tour build DIRECTORY     build it, print what it holds
python -m tests.builders.tour rows DIRECTORY      count and checksum of its rows, without icectl
"""

import hashlib
import sys
from pathlib import Path

from icectl.env import SystemEnv
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder

COMMITS = 300
FILES_A_COMMIT = 4
ROWS_A_COMMIT = 240
HOUR_MS = 3_600_000


def build(directory: Path) -> None:
    """Build the table of a service that commits every hour and was never maintained."""
    table = TableBuilder(
        directory,
        format_version=2,
        partitioning="identity",
        start_ms=SystemEnv().now_ms() - (COMMITS + 40) * HOUR_MS,
        commit_interval_ms=HOUR_MS,
        properties={"history.expire.max-snapshot-age-ms": str(5 * 24 * HOUR_MS)},
    )
    for commit in range(COMMITS):
        start = commit * ROWS_A_COMMIT
        if commit % 10 == 9:
            table.delete_rows(range(start - ROWS_A_COMMIT, start, 17))
        elif commit % 50 == 25:
            table.remove_data_files(60)
        else:
            table.append(range(start, start + ROWS_A_COMMIT), files=FILES_A_COMMIT)
        if commit == 40:
            table.ref("end-of-quarter", "tag")
        if commit == 120:
            table.ref("audit", "branch", min_snapshots_to_keep=2)
    files = sum(1 for path in directory.rglob("*") if path.is_file())
    live = len(table.live())
    print(f"{len(table.ids_of)} snapshots, {live} live files, {files} files in {directory}")


def rows(directory: Path) -> None:
    """Print how many rows the table shows, and a checksum over them."""
    found = read_rows(read_metadata(current_metadata(directory)))
    digest = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    print(f"{len(found)} rows, checksum {digest}")


if __name__ == "__main__":
    {"build": build, "rows": rows}[sys.argv[1]](Path(sys.argv[2]))
