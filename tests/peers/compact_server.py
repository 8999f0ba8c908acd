"""Compacts tables on one session of Spark that stays up; run by the Python that has PySpark.

compact_server.py    reads {"table", "branch", "sort_order" or "zorder"} as a line of JSON, rewrites
                     every file of the table, and answers with a line: its groups, or its error
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import execute, prepare
from icectl.env import Deadline, SystemEnv
from icectl.errors import IcectlError
from icectl.format.metadata import TableMetadata
from icectl.progress import SilentProgress
from icectl.rows.sort_rows import parse_sort_order, parse_zorder
from icectl.rows.spark_classic import SparkOptions
from icectl.rows.spark_rewrite import SparkEngine
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions
from icectl.table.context import TableContext
from icectl.table.output_sizes import sizes_of

TARGET_BYTES = 20_000
"""Tables of a few rows have files of some KiB: several come out."""


def compact(engine: SparkEngine, command: dict[str, Any]) -> int:
    """Compact a table; how many groups."""
    env, store, silent = SystemEnv(), LocalStore(), SilentProgress()

    def options(metadata: TableMetadata) -> CompactOptions:
        order = None
        if "sort_order" in command:
            order = parse_sort_order(command["sort_order"], metadata)
        if "zorder" in command:
            order = parse_zorder(command["zorder"], metadata)
        sizes = sizes_of(TARGET_BYTES, None, None)
        return CompactOptions(sizes, metadata.default_spec_id, order=order, every=True)

    context = TableContext(
        store=store,
        catalog=FileSystemCatalog(store, str(Path(command["table"])), env),
        env=env,
        progress=silent,
        deadline=Deadline(env),
        concurrency=2,
    )
    planned = prepare(context, command["branch"], options)
    return len(execute(context, engine, planned).outputs)


def main() -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints is no answer
    spark = SparkOptions("local[2]")
    with SparkEngine(spark, StorageOptions(), SilentProgress(), Deadline(SystemEnv())) as engine:
        for line in sys.stdin:
            try:
                told: dict[str, Any] = {"groups": compact(engine, json.loads(line))}
            except IcectlError as error:
                told = {
                    "code": error.exit_code,
                    "error": f"{type(error).__name__}: {error.message}",
                }
            except Exception:  # noqa: BLE001 - a bug is told, and others go on
                told = {"code": 1, "error": traceback.format_exc()[-3000:]}
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
