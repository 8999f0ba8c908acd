"""`icectl rewrite-manifests` on 1,000,000 entries, 20 columns of stats each.

    python tests/benchmarks/bench_rewrite_manifests.py [MANIFESTS [ENTRIES]]   default 1000 of 1000

Processor time an entry takes: in a whole run, its start, its reading for the plan, the comparison
of what it wrote and the commit included, and in carrying alone, which is reading and writing as the
peers do it. The peers: fastavro decoding and encoding entries, PyIceberg's manifest writer, and a
bare inflate and deflate of the same bytes, by zlib and by the library that icectl uses; all on one
core. The same run on all cores follows.
"""

import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import fastavro

from icectl.entries.inherit import inherit
from icectl.files.avro.container import deflate_block, inflate_block
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.move import PieceWriter, move_entries
from icectl.files.manifest.write import ManifestForm
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.table.manifest_groups import PLANNED_COLUMNS
from tests.benchmarks.big_table import SCHEMA, SNAPSHOT_ID, SPEC, build
from tests.benchmarks.measure import Run, call, in_turn, median, process, verdict
from tests.benchmarks.peers import pyiceberg_entries

SAMPLE = 5
"""Manifests that the slow peers work on."""

CARRIED = 100
"""Manifests that carrying alone is measured with."""


WHOLE_RUN = 20
"""Times fastavro that a whole run has to be. It inflates the entries three times, for the plan, to
carry them and to compare what it wrote, and deflates them once: that alone is a seventieth of what
fastavro takes, and the files are synced to the disk."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that goes through a number of entries."""

    run: Callable[[], Run]
    entries: int


def recode_with_fastavro(paths: Sequence[Path]) -> None:
    """Decode every entry and encode it again."""
    for path in paths:
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            entries, schema = list(reader), reader.writer_schema
        assert schema is not None
        fastavro.writer(io.BytesIO(), schema, entries, codec="deflate")


def stored_blocks(paths: Sequence[Path]) -> list[bytes]:
    """The blocks of manifests, compressed."""
    blocks = []
    for path in paths:
        with path.open("rb") as file:
            inflated = [block.bytes_.getvalue() for block in fastavro.block_reader(file)]
        blocks += [deflate_block("deflate", block) for block in inflated]
    return blocks


def with_zlib(blocks: Sequence[bytes]) -> None:
    """Inflate and deflate as most libraries do."""
    for block in blocks:
        zlib.compress(zlib.decompress(block, -zlib.MAX_WBITS))


def with_icectl(blocks: Sequence[bytes]) -> None:
    """Inflate and deflate with the same library as icectl."""
    for block in blocks:
        deflate_block("deflate", inflate_block("deflate", block))


def carrier(paths: Sequence[Path]) -> Callable[[], object]:
    """A function that reads the manifests and makes one of their entries, in memory."""
    form = ManifestForm(SCHEMA, SPEC, 2, ManifestContent.DATA)
    listed = ManifestFile("", 0, 0, ManifestContent.DATA, 1, 1, SNAPSHOT_ID)
    planned = [
        inherit(
            read_manifest(path.read_bytes(), columns=PLANNED_COLUMNS, manifest=0, spec=SPEC)[1],
            [listed],
        )
        for path in paths
    ]

    def carry() -> None:
        with tempfile.TemporaryFile() as spool:
            marker = b"icectl-test-sync"
            writer = PieceWriter(form, spool, codec="deflate", sync_marker=marker)
            for path, entries in zip(paths, planned, strict=True):
                pieces = np.zeros(len(entries), np.int64)
                for moved in move_entries(path.read_bytes(), entries, pieces, form):
                    writer.add(*moved)
            writer.manifest(list(writer.sizes()))

    return carry


def pyiceberg_writer(table: Path, paths: Sequence[Path], target: Path) -> Callable[[], object]:
    """A function that writes entries, read beforehand, as PyIceberg's merge does."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import write_manifest
    from pyiceberg.table import StaticTable

    opened = StaticTable.from_metadata(str(table / "metadata" / "v1.metadata.json"))
    files = PyArrowFileIO()
    entries = [entry for path in paths for entry in pyiceberg_entries(path)]

    def write() -> None:
        output = files.new_output(str(target))
        target.unlink(missing_ok=True)
        with write_manifest(
            2, opened.spec(), opened.schema(), output, SNAPSHOT_ID, "deflate"
        ) as writer:
            for entry in entries:
                writer.existing(entry)

    return write


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    manifests, count = (int(argument) for argument in [*sys.argv[1:], "1000", "1000"][:2])
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    with tempfile.TemporaryDirectory() as folder:
        table, pristine = Path(folder) / "big", Path(folder) / "pristine"
        paths = build(table, manifests, count)
        shutil.copytree(table, pristine)
        peers, blocks = paths[:SAMPLE], stored_blocks(paths[:CARRIED])
        write = pyiceberg_writer(table, peers, Path(folder) / "pyiceberg.avro")
        carry = carrier(paths[:CARRIED])

        def rewritten() -> Run:
            shutil.rmtree(table)
            shutil.copytree(pristine, table)
            icectl = str(Path(sys.executable).parent / "icectl")
            return process([icectl, "rewrite-manifests", str(table), "--yes", "--json"])

        subjects = {
            "whole run": Subject(rewritten, manifests * count),
            "carrying alone": Subject(lambda: call(carry), len(paths[:CARRIED]) * count),
            "fastavro": Subject(lambda: call(lambda: recode_with_fastavro(peers)), SAMPLE * count),
            "PyIceberg's writer": Subject(lambda: call(write), SAMPLE * count),
            "zlib alone": Subject(
                lambda: call(lambda: with_zlib(blocks)), len(paths[:CARRIED]) * count
            ),
            "isal alone": Subject(
                lambda: call(lambda: with_icectl(blocks)), len(paths[:CARRIED]) * count
            ),
        }
        runs = in_turn(3, *(subject.run for subject in subjects.values()))
        os.sched_setaffinity(0, cores)
        on_all = rewritten()
    rates = {}
    for (name, subject), found in zip(subjects.items(), runs, strict=True):
        rates[name] = subject.entries / median([run.cpu_seconds for run in found])
        print(f"{name}: {rates[name]:,.0f} entries a second of processor time")
    seconds = f"{on_all.wall_seconds:.1f} s, {on_all.cpu_seconds:.1f} s of processor time"
    print(f"whole run on {len(cores)} cores: {seconds}")
    for codec in ("zlib alone", "isal alone"):
        print(f"{codec} / whole run: {rates[codec] / rates['whole run']:.2f}")
    peak = max(run.peak_bytes for run in runs[0])

    def reached(ours: str, peer: str, factor: float) -> bool:
        return verdict(f"{ours} / {peer}", rates[ours] / rates[peer], factor, at_most=False)

    verdicts = [
        reached("carrying alone", "fastavro", 50),
        reached("whole run", "fastavro", WHOLE_RUN),
        reached("whole run", "PyIceberg's writer", 5),
        verdict("peak memory in GiB", peak / (1 << 30), 1.0),
    ]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
