"""`icectl inspect` of a million files against one thread that reads and inflates the manifests.

python tests/benchmarks/bench_inspect.py [MANIFESTS [ENTRIES]]     default 1000 manifests of 1000
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from isal import isal_zlib

from tests.benchmarks.big_table import build
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict

SYNC_MARKER = b"icectl-test-sync"


def inflate(path: Path) -> int:
    """Bytes of all blocks of one manifest, read and inflated in this thread."""
    content = path.read_bytes()
    at = content.index(SYNC_MARKER) + 16
    total = 0
    while at < len(content):
        _, at = _varint(content, at)
        length, at = _varint(content, at)
        total += len(isal_zlib.decompress(content[at : at + length], -15))
        at += length + 16
    return total


def _varint(content: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def main() -> int:
    """Print the ratio and the memory; 1 when a target is missed."""
    manifests, count = (int(argument) for argument in [*sys.argv[1:], "1000", "1000"][:2])
    icectl = str(Path(sys.executable).parent / "icectl")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "big"
        paths = build(table, manifests, count)

        def baseline() -> Run:
            return call(lambda: sum(inflate(path) for path in paths))

        inspect, inflated = in_turn(
            5, lambda: process([icectl, "inspect", str(table), "--json"]), baseline
        )
    print(
        f"{manifests * count:,} entries: inspect {median([r.wall_seconds for r in inspect]):.2f} s "
        f"({median([r.cpu_seconds for r in inspect]):.2f} s processor), "
        f"read and inflate {median([r.wall_seconds for r in inflated]):.2f} s"
    )
    peak = max(run.peak_bytes for run in inspect)
    reached = [
        verdict("inspect / read and inflate", ratio(inspect, inflated), 2.0),
        verdict("peak memory in MiB", peak / (1 << 20), 250),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
