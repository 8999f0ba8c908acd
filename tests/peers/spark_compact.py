"""Compacts built tables on one session of Spark, with two attempts at each task; run by its Python.

spark_compact.py FOLDER     prints one JSON line for each table in it: its name, and its error
"""

import json
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icectl.commands.compact.report import GroupOutput
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.progress import SilentProgress
from icectl.rows import spark_rewrite
from icectl.rows.compact_job import Engine
from icectl.rows.sort_rows import Curve
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_rewrite import SparkEngine
from icectl.storage.open import StorageOptions
from icectl.table.output_sizes import Sizes
from tests.builders.compactions import compacted, planned

IDENTITY = parse_transform("identity")
ORDER = SortOrder(
    0,
    (
        SortField((2,), IDENTITY, "desc", "nulls-last"),
        SortField((1,), IDENTITY, "asc", "nulls-first"),
    ),
)
BY_ID = SortOrder(0, ORDER.fields[1:])
SMALL = {"sizes": Sizes(4 << 10, 3 << 10, 8 << 10), "every": True}
"""Built files have some KiB: several come out."""
PIECE_BYTES = 4 << 10
"""What is read at a time of what becomes several files, so that built files are many pieces."""


@dataclass(frozen=True)
class Case:
    """A table, and how it is compacted."""

    format_version: int
    partitioning: str
    options: dict[str, Any] = field(default_factory=dict)


MERGED = {
    "merged-positions": Case(2, "identity", {"deletes_only": True}),
    "merged-vectors": Case(3, "two", {"deletes_only": True, "every": True}),
}
CASES = {
    **MERGED,
    "deletes": Case(2, "identity"),
    "vectors": Case(3, "none"),
    "put-together": Case(2, "identity", {"method": "merge", "min_delete_ratio": 0.9}),
    "put-together-with-ids": Case(3, "none", {"method": "merge", "min_delete_ratio": 0.9}),
    "sorted": Case(3, "none", SMALL | {"order": ORDER}),
    "overlapping": Case(2, "none", {"sizes": Sizes(3 << 10, 2 << 10, 8 << 10), "order": BY_ID}),
    "z-ordered": Case(2, "bucket", SMALL | {"order": Curve((1, 4))}),
    "respecced": Case(2, "none", SMALL),
    "repartitioned": Case(2, "bucket", SMALL | {"repartition": True}),
    "repartitioned-days": Case(3, "day", SMALL | {"repartition": True}),
    "large-sorted": Case(3, "none", SMALL | {"order": ORDER}),
    "large-z-ordered": Case(2, "none", SMALL | {"order": Curve((1, 4))}),
    "large-packed": Case(2, "none", SMALL),
    "skewed": Case(2, "none", SMALL),
    "retried": Case(2, "two"),
    "wrong": Case(2, "identity"),
}
"""In the order in which they run: the session ends with an error."""


def compact(directory: Path, case: Case, engine: Engine | None = None) -> Collection[GroupOutput]:
    """Compact a table, in this process without an engine; the groups that are done."""
    return compacted(directory, planned(directory, **case.options), engine).outputs.values()


def main(folder: Path) -> None:
    """Compact every table."""
    deadline = Deadline(SystemEnv())
    spark_rewrite._PIECE_BYTES = PIECE_BYTES
    spark = SparkOptions("local[2,2]")
    with SparkEngine(spark, StorageOptions(), SilentProgress(), deadline) as engine:
        for name, case in CASES.items():
            if name == "retried":
                Path(os.environ["ICECTL_TEST_AT_LINK"], "kill").touch()
            try:
                done = compact(folder / name, case, engine)
                methods = sorted({group.choice.method for group in done})
                told: dict[str, Any] = {"groups": len(done), "methods": methods}
                told |= {"tasks": engine.counts.tasks, "repeats": engine.counts.repeats}
            except IcectlError as error:
                told = {"error": type(error).__name__, "message": error.message}
            print(json.dumps({"name": name} | told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
