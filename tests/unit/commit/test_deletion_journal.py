"""Journals: written whole, found again, judged by what the table says, damage left alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.commit import deletion as journals
from icectl.commit.deletion import DeletionJournal
from icectl.commit.journals import journal_location
from icectl.entries.files import FileKind, Files, files
from icectl.storage.local.store import LocalStore
from icectl.storage.location import loosest_key
from icectl.storage.many_files import FilesByKind
from tests.builders.history import history
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore

COMMAND = "expire-snapshots"
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


class Warnings:
    """Progress that keeps what it is warned of."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def phase(self, name: str, *, total: int | None = None, unit: str = "count") -> None: ...

    def advance(self, amount: int) -> None: ...

    def warn(self, message: str) -> None:
        self.told.append(message)


def named(kind: FileKind, *found: tuple[str, int | None]) -> Files:
    places = [place for place, _ in found]
    return files(places, [loosest_key(p) for p in places], kind, [size for _, size in found])


DOOMED = FilesByKind(
    [
        named(FileKind.DATA_FILES, ("file:///wh/t/data/a%20b.parquet", 10), ("/wh/t/data/ü", None)),
        named(FileKind.MANIFEST_LISTS, ("/wh/t/metadata/snap-1.avro", 5)),
    ]
)


def journal(tmp_path: Path, *snapshot_ids: int) -> DeletionJournal:
    location = journal_location(f"{tmp_path}/metadata", COMMAND, "u-1")
    return DeletionJournal(location, UUID, 1_700_000_000_000, snapshot_ids, DOOMED)


def found(tmp_path: Path, progress: Warnings | None = None) -> list[DeletionJournal]:
    store = LocalStore()
    listed = store.list_directory(f"{tmp_path}/metadata")
    return journals.unfinished_journals(store, listed, COMMAND, progress or Warnings())


def test_a_journal_lies_beside_the_metadata_file_and_is_named_for_its_command(tmp_path):
    written = journal(tmp_path, 1)
    assert written.location == f"{tmp_path}/metadata/icectl-expire-snapshots-u-1.json"
    journals.write(LocalStore(), FixedEnv(), written)
    with pytest.raises(FileExistsError):
        journals.write(LocalStore(), FixedEnv(), replace(written, created_ms=0))


def test_a_journal_is_read_as_it_was_written(tmp_path):
    written = journal(tmp_path, 1, 2**62)
    journals.write(LocalStore(), FixedEnv(), written)
    (read,) = found(tmp_path)
    assert (read.location, read.table_uuid, read.created_ms) == (
        written.location, UUID, 1_700_000_000_000,
    )  # fmt: skip
    assert read.snapshot_ids == (1, 2**62)
    assert [*read.files.rows()] == [*DOOMED.rows()]
    assert [key for part in read.files for key in part.table["key"].to_pylist()] == [
        "/wh/t/data/a b.parquet", "/wh/t/data/ü", "/wh/t/metadata/snap-1.avro",
    ]  # fmt: skip


def test_a_journal_of_many_files_is_written_and_read_by_parts(tmp_path, monkeypatch):
    """Its bytes are those of a journal that is written as a whole."""
    monkeypatch.setattr(journals, "_WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr(journals, "STEP", 3)
    names = [f'/wh/t/{at}/],["\\{at % 7 * "ü"}\N{GRINNING FACE}' for at in range(500)]
    kinds = FileKind.DATA_FILES, FileKind.MANIFESTS
    many = FilesByKind(named(kind, *((name, None) for name in names)) for kind in kinds)
    written = replace(journal(tmp_path, 7), files=many)
    store = CountingStore(LocalStore())
    journals.write(store, FixedEnv(), written)
    assert [method for method, _ in store.calls] == ["open_new"]
    content = Path(written.location).read_text()
    assert json.loads(content) == {
        "icectl-journal": 1,
        "table-uuid": UUID,
        "created-ms": 1_700_000_000_000,
        "snapshot-ids": [7],
        "files": [[name, int(kind), None] for kind in kinds for name in names],
    }
    assert content == json.dumps(json.loads(content), separators=(",", ":"))
    for size in (200, 1_021, len(content), len(content) + 1):
        monkeypatch.setattr(journals, "_READ_BYTES", size)
        (read,) = found(tmp_path)
        assert [*read.files.rows()] == [*many.rows()]


def test_a_journal_has_landed_when_every_snapshot_it_names_is_gone(tmp_path):
    metadata = history([(2, None, "2026-01-01T00:00:00Z")], {"main": {"head": 2}})
    assert journal(tmp_path, 1).has_landed(metadata)
    assert journal(tmp_path).has_landed(metadata)
    assert not journal(tmp_path, 1, 2).has_landed(metadata)


def test_other_files_are_no_journals(tmp_path):
    folder = tmp_path / "metadata"
    folder.mkdir()
    for other in (
        "v1.metadata.json",
        "icectl-compact-u-1.json",
        "icectl-expire-snapshots-u-1.avro",
    ):
        (folder / other).write_text("{}")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"icectl-journal": 2}', b'{"icectl-journal": 1}', b"\xff",
     *(b'{"icectl-journal":1,"table-uuid":null,"created-ms":1,"snapshot-ids":[],"files":' + files
       for files in (b"1}", b"[1]}", b"[[1,0,1]]}", b"[", b"[]", b'[["/a",0,1]', b'[["/a",0,1]]',
                     b'[["/a",0,1]]},', b'[["/a",0,1],]}', b'[["/a",0,1]["/b",0,1]]}',
                     b'[["/a",0,"1"]]}', b'[["/a",0]]}', b'[["/a",0,1],["/b",0,1}'))],
)  # fmt: skip
def test_a_damaged_journal_is_warned_of_and_left_alone(tmp_path, content):
    location = Path(journal(tmp_path).location)
    location.parent.mkdir()
    location.write_bytes(content)
    progress = Warnings()
    assert found(tmp_path, progress) == []
    (warning,) = progress.told
    assert warning.startswith(f"the journal {location.name} cannot be read and is ignored: ")
    assert location.read_bytes() == content


def test_a_journal_of_another_version_is_left_alone(tmp_path):
    written = journal(tmp_path, 1)
    journals.write(LocalStore(), FixedEnv(), written)
    path = Path(written.location)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"icectl-journal": 2}))
    progress = Warnings()
    assert found(tmp_path, progress) == []
    assert progress.told[0].endswith("version 2 is not known")


def test_a_journal_that_its_run_removes_meanwhile_is_passed_over_in_silence(tmp_path):
    """It was said to be unreadable, and to be left alone."""

    class Finishing(WrappedStore):
        def read_range(self, location, offset, length):
            Path(location).unlink()
            return super().read_range(location, offset, length)

    journals.write(LocalStore(), FixedEnv(), journal(tmp_path, 1))
    listed = LocalStore().list_directory(f"{tmp_path}/metadata")
    progress = Warnings()
    assert journals.unfinished_journals(Finishing(LocalStore()), listed, COMMAND, progress) == []
    assert progress.told == []


def test_discarding_never_raises(tmp_path):
    written = journal(tmp_path, 7)
    journals.write(LocalStore(), FixedEnv(), written)
    journals.discard(FaultyStore(LocalStore(), 1, "before"), [written])
    assert len(found(tmp_path)) == 1
    journals.discard(LocalStore(), [written])
    assert found(tmp_path) == []


def test_what_a_journal_holds_is_plain_json(tmp_path):
    written = journal(tmp_path, 7)
    journals.write(LocalStore(), FixedEnv(), written)
    assert json.loads(Path(written.location).read_text()) == {
        "icectl-journal": 1,
        "table-uuid": UUID,
        "created-ms": 1_700_000_000_000,
        "snapshot-ids": [7],
        "files": [
            ["file:///wh/t/data/a%20b.parquet", 0, 10],
            ["/wh/t/data/ü", 0, None],
            ["/wh/t/metadata/snap-1.avro", 5, 5],
        ],
    }
