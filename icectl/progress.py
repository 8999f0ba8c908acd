"""The protocol for reporting progress, and a silent implementation.

Layers below the command line report progress through it, and never print.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

Unit = Literal["count", "bytes"]


class Progress(Protocol):
    """A receiver of phases, their advance, and warnings."""

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        """Begin a phase; the one before it is over. `total` None means not known yet."""

    def advance(self, amount: int) -> None:
        """Count `amount` more of the phase's unit as done. Safe from any thread."""

    def warn(self, message: str) -> None:
        """Tell the user something that does not end the run. Safe from any thread."""


@dataclass(frozen=True, slots=True)
class SilentProgress:
    """Progress for tests and libraries: says nothing."""

    def phase(self, name: str, *, total: int | None = None, unit: Unit = "count") -> None:
        """Begin a phase; ignored."""

    def advance(self, amount: int) -> None:
        """Count progress; ignored."""

    def warn(self, message: str) -> None:
        """Tell the user; ignored."""
