"""An Env whose every answer is known: the same run gives the same bytes."""

import threading
import uuid
from dataclasses import dataclass, field


@dataclass
class FixedEnv:
    """Clock that moves only by `sleep`; uuids and snapshot ids count up."""

    start_ms: int = 1_700_000_000_000
    slept: list[float] = field(default_factory=list)
    uuids: int = 0
    snapshot_ids: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def now_ms(self) -> int:
        return self.start_ms + round(1000 * sum(self.slept))

    def monotonic_seconds(self) -> float:
        return sum(self.slept)

    def new_uuid(self) -> str:
        with self.lock:
            self.uuids += 1
            return str(uuid.UUID(int=(4 << 76) | (2 << 62) | self.uuids))

    def new_snapshot_id(self) -> int:
        with self.lock:
            self.snapshot_ids += 1
            return 1000 + self.snapshot_ids

    def host_name(self) -> str:
        return "fixed-host"

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
