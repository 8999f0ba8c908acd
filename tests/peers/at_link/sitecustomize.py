"""Every Python that has this folder on its path loads it at start: a worker may be ended or held in
the moment in which a new data file got its name.

ICECTL_TEST_AT_LINK names a folder, and a file `kill` or `hold` in it is the wish, met once: it is
called `met` from then on.
"""

import os
import signal
import time
from pathlib import Path

FOLDER = os.environ.get("ICECTL_TEST_AT_LINK")
LONGER_THAN_ANY_TEST = 600

link = os.link


def link_and_end(source, target, **more):
    link(source, target, **more)
    if not target.endswith(".parquet"):
        return
    if wished("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if wished("hold"):
        time.sleep(LONGER_THAN_ANY_TEST)


def wished(wish: str) -> bool:
    try:
        Path(FOLDER, wish).rename(Path(FOLDER, "met"))
    except FileNotFoundError:
        return False
    return True


if FOLDER:
    os.link = link_and_end
