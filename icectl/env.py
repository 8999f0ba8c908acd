"""Clock, random identifiers and host.

No other module reads the clock or randomness, so tests can repeat a run exactly.
"""

import os
import platform
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from icectl.errors import Incomplete


class Env(Protocol):
    """Clock and identifiers of one run: the machine's own, where nothing else is said."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_seconds(self) -> float:
        """Return seconds on a clock that never goes back; differences only."""
        return time.monotonic()

    def new_uuid(self) -> str:
        """Return a random version 4 UUID in its canonical lower-case form."""
        return str(uuid.uuid4())

    def new_snapshot_id(self) -> int:
        """Return a positive 63-bit id that is not derived from time alone (R-033)."""
        return int.from_bytes(os.urandom(8), "big") >> 1 or 1

    def host_name(self) -> str:
        """Name of this machine, for journals and commit summaries."""
        return platform.node()

    def sleep(self, seconds: float) -> None:
        """Wait, for back-off between attempts."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class SystemEnv(Env):
    """The machine's own clock and randomness."""


@dataclass(slots=True)
class InstantEnv:
    """A clock that stands still at the instant of a plan, until it is released to go on."""

    env: Env
    instant_ms: int | None

    def release(self) -> None:
        """Let the clock show the time as it is from now on."""
        self.instant_ms = None

    def now_ms(self) -> int:
        """Return the instant, or the time after the release."""
        return self.env.now_ms() if self.instant_ms is None else self.instant_ms

    def monotonic_seconds(self) -> float:
        """As Env."""
        return self.env.monotonic_seconds()

    def new_uuid(self) -> str:
        """As Env."""
        return self.env.new_uuid()

    def new_snapshot_id(self) -> int:
        """As Env."""
        return self.env.new_snapshot_id()

    def host_name(self) -> str:
        """As Env."""
        return self.env.host_name()

    def sleep(self, seconds: float) -> None:
        """As Env."""
        self.env.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment at which a run has to stop safely; None never comes."""

    env: Env
    ends_at_seconds: float | None = None

    @property
    def remaining_seconds(self) -> float:
        """Seconds left on the monotonic clock, infinite without a limit; negative when over."""
        if self.ends_at_seconds is None:
            return float("inf")
        return self.ends_at_seconds - self.env.monotonic_seconds()

    @property
    def passed(self) -> bool:
        """Whether it is time to stop."""
        return self.remaining_seconds <= 0

    def check(self) -> None:
        """Do nothing before the deadline; Incomplete after it."""
        if self.passed:
            raise Incomplete(
                "stopped at the time limit",
                hint="run again to continue, or set a longer `--time-limit`",
                id="time-limit",
            )


def program_folders() -> Sequence[str]:
    """Return the folders of the PATH that are the same wherever icectl runs."""
    return list(filter(os.path.isabs, os.get_exec_path()))


def find_program(name: str) -> str | None:
    """Return the path of a program on the PATH; what lies in the working directory is not."""
    return shutil.which(name, path=os.pathsep.join(program_folders()))
