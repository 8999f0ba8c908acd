"""The process that Spark's Python workers are forked from, with all loaded that kernels need.

Else each worker would load it for itself, which takes longer than many a task.
"""

import gc

from pyspark.daemon import manager

import icectl.rows.spark_frames
import icectl.rows.spark_orphans
import icectl.rows.spark_rewrite  # noqa: F401 - what tasks are made of

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # workers collect garbage after each task, and need not look at all this again
    manager()
