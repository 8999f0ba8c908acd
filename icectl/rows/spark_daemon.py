"""The process that Spark's Python workers are forked from, with all loaded that kernels need.

Else each worker would load it for itself, which takes longer than many a task.
"""

import gc
import importlib
from pathlib import Path
from zipimport import zipimporter

from pyspark.daemon import manager

import icectl.rows.spark_frames
import icectl.rows.spark_orphans
import icectl.rows.spark_rewrite  # noqa: F401 - what tasks are made of

_known: dict[str, tuple[int, int]] = {}
_read_again = zipimporter.invalidate_caches


def _read_if_changed(self: zipimporter) -> None:
    """Read the list of an archive again, where it has changed."""
    try:
        status = Path(self.archive).stat()
        stamp = status.st_mtime_ns, status.st_size
    except OSError:
        stamp = (0, 0)
    if _known.get(self.archive) != stamp:
        _known[self.archive] = stamp
        _read_again(self)


if __name__ == "__main__":
    # Spark has Python forget what is on its path before each task, and some Pythons read all
    # archives there at once then, PySpark's own among them: most of the work of a small task.
    zipimporter.invalidate_caches = _read_if_changed  # type: ignore[method-assign]
    importlib.invalidate_caches()
    gc.collect()
    gc.freeze()  # workers collect garbage after each task, and need not look at all this again
    manager()
