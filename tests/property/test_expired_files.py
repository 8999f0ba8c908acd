"""What an expiry deletes, of random histories, is what plain sets of their entries say.

Entries are of all three states, manifests are shared, rewritten and dropped in any way. A file may
be live in two manifests of a snapshot, of which a later one drops one: the file must stay.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.commands.expire_snapshots.reach import read_reached
from icectl.entries.files import FileKind
from icectl.errors import CorruptTable
from icectl.format.manifest import ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.storage import spill
from icectl.storage.many_files import FilesByKind, by_location
from icectl.table.retention import AskedRetention, Retention, decide
from tests.builders.entry_rows import data, entries
from tests.builders.expiry import context_of
from tests.builders.plain_manifests import list_of, manifest_of
from tests.builders.plain_metadata import NO_FIELDS, plain_metadata

LIVE = {Status.ADDED, Status.EXISTING}
ENTRIES = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(Status)), min_size=1, max_size=5, unique_by=str
)


@dataclass(frozen=True)
class History:
    """Manifests of (file, status), the manifests of each snapshot, and the snapshots to expire."""

    manifests: Sequence[Sequence[tuple[int, Status]]]
    snapshots: Sequence[frozenset[int]]
    expired: frozenset[int]

    def live(self, snapshot: int) -> list[int]:
        """The files of live entries, one for each entry."""
        listed = [self.manifests[number] for number in self.snapshots[snapshot]]
        return [file for manifest in listed for file, status in manifest if status in LIVE]

    def files(self, snapshots: Sequence[int]) -> set[int]:
        return {file for snapshot in snapshots for file in self.live(snapshot)}


@st.composite
def histories(draw: st.DrawFn) -> History:
    manifests = draw(st.lists(ENTRIES, min_size=1, max_size=6))
    listed = st.frozensets(st.integers(0, len(manifests) - 1))
    snapshots = draw(st.lists(listed, min_size=2, max_size=5))
    expired = draw(st.frozensets(st.integers(0, len(snapshots) - 2), min_size=1))
    return History(manifests, snapshots, expired)


def written(folder: Path, history: History) -> TableMetadata:
    """The history as a table of version 2, whose last snapshot is the current one."""
    manifests = []
    for number, content in enumerate(history.manifests):
        made = (
            data(f"{folder}/data/{file}", status=status, file_size_in_bytes=file % 3 + 1)
            for file, status in content
        )
        stored = manifest_of(entries(*made).table, NO_FIELDS, PartitionSpec(0, ()), snapshot_id=1)
        path = folder / f"m{number}.avro"
        path.write_bytes(stored)
        states = [status for _, status in content]
        counts = [states.count(state) for state in (Status.ADDED, Status.EXISTING, Status.DELETED)]
        row_counts = [10 * count for count in counts]
        manifests.append(
            ManifestFile(
                str(path), len(stored), 0, ManifestContent.DATA, 1, 1, 1, *counts, *row_counts, ()
            )
        )
    snapshots = []
    for number, listed in enumerate(history.snapshots, start=1):
        path = folder / f"snap-{number}.avro"
        path.write_bytes(
            list_of(
                [manifests[place] for place in sorted(listed)],
                number,
                number,
                parent_snapshot_id=number - 1 or None,
            )
        )
        snapshots.append(Snapshot(number, number, number - 1 or None, number, str(path)))
    return plain_metadata(
        location=str(folder),
        last_sequence_number=len(snapshots),
        current_snapshot_id=len(snapshots),
        snapshots=tuple(snapshots),
        refs={"main": SnapshotRef(len(snapshots), "branch")},
    )


def planned(
    metadata: TableMetadata, retention: Retention
) -> list[tuple[str, FileKind, int | None]] | None:
    """The files to delete; None where a snapshot that stays has a file twice."""
    sizes = {str(path): path.stat().st_size for path in Path(metadata.location).glob("m*.avro")}
    try:
        reached = read_reached(context_of(), metadata, retention, sizes, trusted=True)
        return [*by_location(FilesByKind(reached.only_going())).rows()]
    except CorruptTable as error:
        if error.rule != "R-066":
            raise
        return None


@given(histories(), st.sampled_from([1, 1 << 20]))
@settings(max_examples=80)
def test_r191_what_is_deleted_is_what_sets_of_live_files_say(history, waiting_bytes):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "_WAITING_BYTES", waiting_bytes)  # 1: all is read from disk
        metadata = written(Path(name), history)
        ids = tuple(number + 1 for number in history.expired)
        retention = decide(metadata, AskedRetention(expire_ids=ids), 0)
        kept = [place for place in range(len(history.snapshots)) if place not in history.expired]
        lives = [history.live(place) for place in kept]
        is_twice = any(len(set(live)) < len(live) for live in lives)
        found = planned(metadata, retention)
    assert is_twice or found is not None
    if found is None:
        return
    if is_twice:  # unless no data file goes, all are read
        assert all(kind is not FileKind.DATA_FILES for _, kind, _ in found)
    gone = history.files(sorted(history.expired)) - history.files(kept)
    manifests = frozenset[int]().union(*(history.snapshots[place] for place in history.expired))
    manifests -= frozenset[int]().union(*(history.snapshots[place] for place in kept))
    wanted = {(f"{name}/data/{file}", FileKind.DATA_FILES) for file in gone}
    wanted |= {(f"{name}/m{number}.avro", FileKind.MANIFESTS) for number in manifests}
    wanted |= {(f"{name}/snap-{id_}.avro", FileKind.MANIFEST_LISTS) for id_ in ids}
    assert [(place, kind) for place, kind, _ in found] == sorted(wanted, key=lambda one: one[::-1])
    found_sizes = {place: size for place, kind, size in found if kind is FileKind.DATA_FILES}
    assert found_sizes == {f"{name}/data/{file}": file % 3 + 1 for file in gone}
