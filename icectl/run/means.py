"""What every command that changes a table works with."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from icectl.catalog.protocol import Catalog
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.storage.store import Store


@dataclass(frozen=True, slots=True)
class Means:
    """The means to change one table.

    `shield()` is for steps that a first Ctrl-C must not cut in two.
    """

    store: Store
    catalog: Catalog
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int
    shield: Callable[[], AbstractContextManager[object]]

    @property
    def members(self) -> Mapping[str, Any]:
        """All of it by name, for a command that needs more."""
        return {item.name: getattr(self, item.name) for item in fields(Means)}
