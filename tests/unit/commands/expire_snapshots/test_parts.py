"""Files of an expiry by parts: which of those that stay matter, and what texts decide."""

import numpy as np
import pytest

from icectl.commands.expire_snapshots.parts import FileParts, KeptFiles
from icectl.commands.expire_snapshots.plan import ReachedFiles
from icectl.entries.files import FileKind, Files, files, rows, together
from icectl.storage import spill
from icectl.storage.many_files import FilesByKind
from icectl.table.reachable import key_hashes

DATA = FileKind.DATA_FILES


def named(*places: str, size: int | None = 1, kind: FileKind = DATA) -> Files:
    return files(places, places, kind, [size] * len(places))


def places_of(parts: object) -> list[str]:
    assert isinstance(parts, FileParts)
    return sorted(place for part in parts for place, _, _ in rows(part))


def mattering(deletable: Files, *staying: Files, local: bool = True) -> list[str]:
    kept = KeptFiles([deletable], local=local)
    kept.add_each(staying)
    return places_of(kept.matter)


def test_the_parts_hold_each_row_once_and_the_same_keys_at_the_same_place(monkeypatch):
    monkeypatch.setattr(spill, "_WAITING_BYTES", 1)
    first, second = FileParts(), FileParts()
    listed = named(*(f"/t/{number}" for number in range(300)))
    shuffled = together([named("/t/7", "/t/299"), named("/t/0")])
    for parts, added in ((first, listed), (second, shuffled)):
        parts.add(added, key_hashes(added.table["key"]))
    assert places_of(first) == sorted(f"/t/{number}" for number in range(300))
    assert places_of(first) == places_of(first)  # again
    pairs = [
        ({place for place, _, _ in rows(one)}, {place for place, _, _ in rows(other)})
        for one, other in zip(first, second, strict=True)
    ]
    assert all(small <= large for large, small in pairs)
    assert sum(len(small) for _, small in pairs) == 3


def test_of_files_that_stay_those_matter_that_may_be_one_to_delete():
    going = named("/t/a/x.parquet", size=5)
    assert mattering(going, named("/t/a/x.parquet", "/t/a/y.parquet", size=7)) == ["/t/a/x.parquet"]
    assert mattering(going, named("/t/a/y.parquet", size=5)) == ["/t/a/y.parquet"]
    assert mattering(going, named("/t/a/y.parquet", size=None)) == []
    assert mattering(named("/t/a/x.parquet", size=None), named("/t/a/y", size=None)) == []


def test_names_of_other_folders_matter_on_this_machine():
    going, staying = named("/t/a/x", "/t/x1"), named("/link/x", "/t/a/xx", "x", "/x/", size=7)
    assert mattering(going, staying) == ["/link/x", "x"]
    assert mattering(going, staying, local=False) == []
    assert mattering(going, Files(staying.table.slice(1))) == ["x"]


def test_check_sums_that_stay_matter_on_this_machine():
    going, staying = named("/t/a"), named("/t/.b.crc", "/t/b", size=7)
    assert mattering(going, staying) == ["/t/.b.crc"]
    assert mattering(going, staying, local=False) == []


@pytest.mark.parametrize("kind", FileKind)
def test_equality_deletes_that_stay_are_noted(kind):
    kept = KeptFiles(local=False)
    kept.add_each([named("/t/e", kind=kind), named("/t/d")])
    assert kept.has_equality_deletes == (kind is FileKind.EQUALITY_DELETE_FILES)


def test_a_hash_that_two_locations_have_by_accident_decides_nothing():
    going, staying = named("/t/a", "/t/b", size=5), named("/t/c", "/t/b", size=7)
    one_hash = np.zeros(2, np.uint64) + key_hashes(going.table["key"])[0]
    parts = FileParts()
    parts.add(going, one_hash)
    kept = KeptFiles(parts, local=False)
    kept.add(staying, one_hash)
    assert places_of(kept.matter) == ["/t/b", "/t/c"]
    assert [*FilesByKind(ReachedFiles(parts, kept.matter).only_going()).locations()] == ["/t/a"]
