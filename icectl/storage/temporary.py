"""Files that a run makes for a moment in a table's folders: what is being written, and probes.

Only a run that is killed leaves them behind. Nothing ever refers to one.
"""

import os
import re
from collections.abc import Iterable

from icectl.env import Env
from icectl.storage.location import name
from icectl.storage.store import FileStatus, Store, dating_clock_ms

TEMPORARY = r"\.icectl-(?:[0-9]+-[0-9]+-[^/]*|probe-[0-9a-f-]{36})$"
"""Matches their names; a location's beginning is for others to match."""

_NAME = re.compile(TEMPORARY)


def temporary_name(number: int, end: str) -> str:
    """Return the name of a file that is being written; `number` is its own in this process."""
    return f".icectl-{os.getpid()}-{number}-{end}"


def probe_name(uuid: str) -> str:
    """Return the name of a file that only shows what the storage allows."""
    return f".icectl-probe-{uuid}"


def old_temporaries(
    store: Store, env: Env, listed: Iterable[FileStatus], age_ms: int
) -> tuple[str, ...]:
    """List those of the listed files that runs made for a moment, longer ago than `age_ms`.

    By the clock that dates them; one without a time is never old. Order: kept.
    Raises: StorageError.
    """
    old = [status for status in listed if _NAME.fullmatch(name(status.location))]
    if not old:
        return ()
    limit_ms = dating_clock_ms(store, env, old[0].location) - age_ms
    return tuple(
        status.location
        for status in old
        if status.modified_ms is not None and status.modified_ms < limit_ms
    )
