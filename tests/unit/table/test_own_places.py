"""The folders in which a command may delete files for a table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.catalog.protocol import Capabilities, LoadedTable
from icectl.entries.files import FileKind, files, rows
from icectl.errors import Refused
from icectl.storage.local.store import LocalStore
from icectl.table.own_places import (
    OwnPlaces,
    check_metadata_folder,
    metadata_files_among,
    own_places,
)
from tests.builders.checked import table
from tests.builders.expiry import context_of
from tests.builders.orphans import OTHER_UUID
from tests.stores.wrapped import CountingStore

NAME = "v3.metadata.json"


def loaded(location: str, holder: str, folder: str = "") -> LoadedTable:
    """A table of a catalog whose metadata file lies in `holder`, and new ones go to `folder`."""
    metadata = replace(table(), location=location)
    capabilities = Capabilities(
        is_certain=True, publishes=True, numbers_versions=False, cleans_metadata=True
    )
    own = folder or f"{location.rstrip('/')}/metadata"
    return LoadedTable(metadata, f"{holder}/{NAME}", 3, own, capabilities)


@pytest.mark.parametrize(
    ("location", "holder", "folder", "own"),
    [
        ("s3://b/t", "s3://b/t/metadata", "", ["s3://b/t"]),
        ("s3://b/t/", "s3://b/t/metadata", "", ["s3://b/t"]),
        ("s3://b/t", "s3://b/t", "", ["s3://b/t"]),
        ("s3://b/t", "s3a://b/t/metadata", "", ["s3://b/t"]),
        ("s3://b/t", "s3://b/t/metadata/x", "", []),
        ("s3://b/t", "s3://b/t2/metadata", "", []),
        ("s3://b/t", "s3://c/t/metadata", "", []),
        ("s3://b/t", "gs://b/t/metadata", "", []),
        ("s3://b/t", "/b/t/metadata", "", []),
        ("s3://b/t", "s3://b/m", "s3://b/m/", ["s3://b/m"]),
        ("s3://b/t", "s3://b/m/x", "s3://b/m", []),
        ("s3://b/t", "s3://c/m", "s3://c/m", []),
        ("s3://b/t", "s3://b/t/metadata", "s3://b/m", ["s3://b/t"]),
        ("file:/wh/t", "/wh/t/metadata", "", ["file:/wh/t"]),
        ("/wh/t", "file:///wh/u/metadata", "", []),
    ],
)
def test_a_place_is_owned_where_the_metadata_file_lies(
    location: str, holder: str, folder: str, own: Sequence[str]
) -> None:
    places = own_places(loaded(location, holder, folder))
    assert list(places.folders) == own
    assert places.location == location.rstrip("/")
    assert places.has_location is (own == [location.rstrip("/")])


def test_a_local_place_is_the_same_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk/t/metadata").mkdir(parents=True)
    (tmp_path / "wh").symlink_to(tmp_path / "disk")
    location = f"{tmp_path}/wh/t"
    assert own_places(loaded(location, f"{tmp_path}/disk/t/metadata")).folders == (location,)
    assert own_places(loaded(location, f"{tmp_path}/disk/u/metadata")).folders == ()


def test_files_are_inside_of_a_folder_or_outside_of_all() -> None:
    places = OwnPlaces("/wh/t", ("/wh/t", "/m"))
    inside = ["/wh/t/data/a", "/m/v1.metadata.json", "file:/wh/t/b", "/m/c", "/wh/t/a..b"]
    outside = ["/wh/t2/a", "/wh/t/../u/a", "s3://wh/t/a", "/m/x/../../wh/t", "/wh"]
    names = [name for pair in zip(inside, outside, strict=True) for name in pair]
    found = files(names, names, FileKind.DATA_FILES, [1] * len(names))
    own, others = places.split(found)
    assert [name for name, _, _ in rows(own)] == inside
    assert [name for name, _, _ in rows(others)] == outside
    assert places.holds("/m")
    assert not OwnPlaces("/wh/t", ()).holds("/wh/t")


def test_metadata_go_among_no_files_of_another_table(tmp_path: Path) -> None:
    """Only the usual folder, with the metadata file in it, is not searched."""
    store = CountingStore(LocalStore())
    context = context_of(tmp_path, store)
    location, named = f"{tmp_path}/t", f"{tmp_path}/m"
    usual = f"{location}/metadata"
    check_metadata_folder(context, loaded(location, usual))
    assert not store.counts
    check_metadata_folder(context, loaded(location, usual, named))
    assert store.counts
    for folder in (usual, named):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "00001-a.metadata.json").write_text(f'{{"table-uuid": "{OTHER_UUID}"}}')
    check_metadata_folder(context, loaded(location, usual))
    for holder, folder in ((usual, named), (named, usual)):
        with pytest.raises(Refused) as raised:
            check_metadata_folder(context, loaded(location, holder, folder))
        refused = raised.value
        assert refused.error_id == "other-table"
        assert refused.hint == "let `write.metadata.path` name a folder of the table's own"
        assert refused.message.startswith(
            f"new metadata would lie in {folder}, among files of another table: {folder}/00001-a"
        )


def test_metadata_files_are_told_by_their_names() -> None:
    named = ["/t/v1.metadata.json", "/t/metadata.json/a", "/t/.v1.metadata.json", "/t/a.avro"]
    assert metadata_files_among(named) == named[:1]
