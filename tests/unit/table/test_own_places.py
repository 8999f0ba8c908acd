"""The folders in which a command may delete files for a table."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import Capabilities, LoadedTable, TablePlace
from icectl.entries.files import FileKind, files, rows
from icectl.errors import Refused, StorageError
from icectl.format.metadata import MetadataLogEntry
from icectl.progress import SilentProgress
from icectl.storage.local.store import LocalStore
from icectl.storage.location import loosest_key
from icectl.storage.store import Store
from icectl.table import own_places as places_module
from icectl.table.context import CatalogTables
from icectl.table.own_places import (
    OtherTables,
    OwnPlaces,
    check_foreign_files,
    check_owns_metadata_folder,
    metadata_files_among,
    own_places,
)
from icectl.table.rewrite_tasks import RewriteTask
from tests.builders.checked import table
from tests.builders.expiry import context_of
from tests.builders.orphans import OTHER_UUID
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, WrappedStore
from tests.unit.commit.test_rewritten_groups import FILE, rewrite

OWN = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
NOW_MS = 1_760_000_000_000
NUMBERED = Capabilities(
    is_certain=True, publishes=True, numbers_versions=True, cleans_metadata=True
)
OF_CATALOG = replace(NUMBERED, numbers_versions=False)
UNCOMMITTED = "2f3f9d3c-6a11-4a6c-9a57-3b0d3a4e8a1c.metadata.json"


@dataclass(frozen=True)
class Told(SilentProgress):
    """Keeps warnings."""

    told: list[str] = field(default_factory=list)

    def warn(self, message: str) -> None:
        self.told.append(message)


class Closed(WrappedStore):
    """Some folders may not be listed."""

    def __init__(self, folders: Sequence[str], error_id: str) -> None:
        super().__init__(LocalStore())
        self.folders, self.error_id = folders, error_id

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if location in self.folders:
            raise StorageError(f"{location}: not for you", id=self.error_id)
        return action()


@dataclass
class World:
    """A folder with the metadata file v7 of a table in `wh/t`, and whatever tests put beside it."""

    directory: Path
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        self.location = str(self.directory / "wh/t")
        self.put("wh/t/metadata/v7.metadata.json")

    def put(
        self, place: str, uuid: str | None = OWN, *, ms: int = NOW_MS, age_ms: int = 3_600_000
    ) -> str:
        members = {"format-version": 2, "table-uuid": uuid, "last-updated-ms": ms}
        if uuid is None:
            del members["table-uuid"]
        return self.write(place, json.dumps(members).encode(), age_ms=age_ms)

    def write(self, place: str, content: bytes, *, age_ms: int = 3_600_000) -> str:
        path = self.directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        seconds = (NOW_MS - age_ms) / 1000
        os.utime(path, (seconds, seconds))
        return str(path)

    def loaded(
        self,
        capabilities: Capabilities = NUMBERED,
        log: Mapping[str, int] | None = None,
        version: int | None = 7,
    ) -> LoadedTable:
        entries = tuple(MetadataLogEntry(ms, place) for place, ms in (log or {}).items())
        metadata = replace(
            table(), location=self.location, last_updated_ms=NOW_MS, metadata_log=entries
        )
        folder = f"{self.location}/metadata"
        name = "v7.metadata.json"
        return LoadedTable(metadata, f"{folder}/{name}", version, folder, capabilities)

    def others(
        self, store: Store | None = None, catalog_tables: CatalogTables | None = None
    ) -> OtherTables:
        context = context_of(self.location, store, FixedEnv(NOW_MS), self.told)
        return OtherTables(replace(context, catalog_tables=catalog_tables))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refusal(check: Callable[[], object]) -> str:
    with pytest.raises(Refused) as raised:
        check()
    assert (raised.value.error_id, raised.value.exit_code) == ("other-table", 5)
    assert "its own location" in str(raised.value.hint)
    return raised.value.message


def test_the_files_of_the_table_itself_are_accepted(world):
    older = world.put("wh/t/metadata/v6.metadata.json", ms=NOW_MS - 5)
    logged = world.put("wh/t/metadata/v5.metadata.json")
    others = world.others()
    others.check_around(world.loaded(log={logged: 1}), [world.location], [])
    assert others.accepted == {older: NOW_MS - 5}


@pytest.mark.parametrize("uuid", [OWN, OTHER_UUID, None])
@pytest.mark.parametrize(
    "place",
    [
        "wh/t/data/v1.metadata.json", "wh/t/data/metadata/00001-a.metadata.json",
        "wh/metadata/v1.metadata.json.gz", "metadata/v1.metadata.json",
        "wh/t/data/a/metadata/v1.metadata.json", "wh/t/data/a/b/metadata/v1.metadata.json",
    ],
)  # fmt: skip
def test_metadata_at_above_and_below_a_place_are_of_another_table(world, place, uuid):
    path = world.put(place, uuid)
    data = f"{world.location}/data"

    def check() -> None:
        folders = [f"{world.directory}/none", data]
        world.others().check_around(world.loaded(), folders, [f"{data}/a/b", f"{data}/c"])

    assert refusal(check) == (
        f"{path} may be metadata of another table, whose files could be deleted: it is in another "
        "folder than the table's"
    )


@pytest.mark.parametrize("most", [1_000, 2, 1])
def test_below_a_place_the_way_to_its_files_is_looked_at(world, monkeypatch, most):
    """Every file, where there are more folders on it than are looked at one by one."""
    monkeypatch.setattr(places_module, "_MOST_FOLDERS", most)
    world.put("wh/t/data/c/metadata/v1.metadata.json")
    data = f"{world.location}/data"
    check = lambda: world.others().check_around(  # noqa: E731
        world.loaded(), [data], [f"{data}/a", f"{data}/b", f"{data}/a", "/else/where"]
    )
    if most == 1:
        refusal(check)
    else:
        check()


@pytest.mark.parametrize("name", ["_delta_log/0", ".hoodie/h", "schema/schema-12"])
@pytest.mark.parametrize("folder", ["wh/t/data", "wh/t"])
def test_tables_of_other_formats_in_the_location_are_seen(world, folder, name):
    world.write(f"{folder}/{name}", b"")
    data = f"{world.location}/data"
    refusal(lambda: world.others().check_above(world.loaded(), [data]))


@pytest.mark.parametrize("place", ["wh/_delta_log/0", "wh/t/schema/my-schema-1", "wh/t/schema/x"])
def test_tables_of_other_formats_elsewhere_do_not_share_files(world, place):
    world.write(place, b"")
    world.others().check_above(world.loaded(), [f"{world.location}/data"])


@pytest.mark.parametrize("catalog", [None, lambda: ()])
@pytest.mark.parametrize("error_id", ["access-denied", "other"])
@pytest.mark.parametrize("closed", ["wh", "wh/t"])
def test_folders_above_that_may_not_be_listed_are_left_to_a_catalog(
    world, closed, error_id, catalog
):
    store = Closed([str(world.directory / closed / "metadata")], error_id)
    others = world.others(store, catalog)
    if catalog is not None and error_id == "access-denied" and closed == "wh":
        others.check_in_and_above(world.loaded(), [world.location])
        (told,) = world.told.told
        assert told.startswith(f"{world.directory}/wh may not be listed: ")
    else:
        with pytest.raises(StorageError):
            others.check_in_and_above(world.loaded(), [world.location])
        assert world.told.told == []


@pytest.mark.parametrize("above", ["disk", "disk/u", "links", "."])
def test_folders_above_are_those_before_and_behind_a_link(world, above):
    for folder in ("disk/u", "links"):
        (world.directory / folder).mkdir(parents=True)
    (world.directory / "links/link").symlink_to(world.directory / "disk/u")
    place = f"{world.directory}/links/link/t"
    world.others().check_above(world.loaded(), [place])
    world.put(f"{above}/metadata/v1.metadata.json")
    refusal(lambda: world.others().check_above(world.loaded(), [place]))


def test_a_folder_is_listed_once_however_it_is_spelled(world):
    store = CountingStore(LocalStore())
    world.others(store).check_above(world.loaded(), [world.location, f"file:{world.location}"])
    listed = [loosest_key(place) for method, place in store.calls if method == "list_directory"]
    assert sorted(listed) == sorted(set(listed))


def in_metadata(world: World, *names: str) -> Sequence[str]:
    return [f"{world.location}/metadata/{name}" for name in names]


@pytest.mark.parametrize("capabilities", [NUMBERED, OF_CATALOG])
@pytest.mark.parametrize("is_logged", [False, True])
def test_a_file_of_another_uuid_is_of_another_table(world, capabilities, is_logged):
    """A file-system table is alone in its folder: what its log names there is its own."""
    path = world.put("wh/t/metadata/v3.metadata.json", OTHER_UUID)
    loaded = world.loaded(capabilities, {path: 1} if is_logged else {})
    if is_logged and capabilities is NUMBERED:
        world.others().check(loaded, [path])
    else:
        message = refusal(lambda: world.others().check(loaded, [path]))
        assert message.endswith(f"its table-uuid is {OTHER_UUID}, that of the table is {OWN}")


@pytest.mark.parametrize(
    ("name", "capabilities", "version", "is_own"),
    [
        ("v6.metadata.json", NUMBERED, 7, True),
        ("v7.metadata.json.gz", NUMBERED, 7, False),
        ("v8.metadata.json", NUMBERED, 7, False),
        ("v6.metadata.json", NUMBERED, None, False),
        ("v6.metadata.json", OF_CATALOG, 7, False),
        ("00006-a.metadata.json", NUMBERED, 7, False),
        ("a.metadata.json", NUMBERED, 7, False),
        (UNCOMMITTED, NUMBERED, 7, True),
        (UNCOMMITTED, OF_CATALOG, 7, False),
    ],
)
def test_a_file_without_uuid_is_own_where_it_can_be_no_other_table_s(
    world, name, capabilities, version, is_own
):
    path = world.put(f"wh/t/metadata/{name}", None, ms=5)
    loaded = world.loaded(capabilities, version=version)
    others = world.others()
    if is_own:
        others.check(loaded, [path])
        assert others.accepted == {path: 5}
    else:
        assert refusal(lambda: others.check(loaded, [path])).endswith("it has no table-uuid")


@pytest.mark.parametrize("capabilities", [NUMBERED, OF_CATALOG])
def test_a_logged_file_without_uuid_in_the_own_folder_is_own(world, capabilities):
    path = world.put("wh/t/metadata/v8.metadata.json", None)
    others = world.others()
    others.check(world.loaded(capabilities, {path: 1}), [path])
    assert others.accepted == {}
    away = world.put("wh/u/metadata/v8.metadata.json", None)
    refusal(lambda: others.check(world.loaded(capabilities, {away: 1}), [away]))
    own = world.put("wh/u/metadata/v9.metadata.json")
    others.check(world.loaded(capabilities, {own: 1}), [own])


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_a_file_that_cannot_be_read_is_own_only_where_a_commit_left_it_over(world, content):
    left_over = world.write(f"wh/t/metadata/{UNCOMMITTED}", content)
    others = world.others()
    others.check(world.loaded(), [left_over])
    assert others.accepted == {left_over: None}
    refusal(lambda: world.others().check(world.loaded(OF_CATALOG), [left_over]))
    version = world.write("wh/t/metadata/v6.metadata.json", content)
    refusal(lambda: world.others().check(world.loaded(), [version]))


def test_a_uuid_far_behind_is_found_and_a_file_that_is_gone_is_none(world):
    members = {"format-version": 2, "schemas": ["." * 9_000], "table-uuid": OWN,
               "last-updated-ms": 12}  # fmt: skip
    far = world.write("wh/t/metadata/v6.metadata.json", json.dumps(members).encode())
    others = world.others()
    gone, current = in_metadata(world, "v5.metadata.json", "v7.metadata.json")
    others.check(world.loaded(), [far, gone, current])
    assert others.accepted == {far: 12, gone: None}
    members["last-updated-ms"] = "x"
    without_time = world.write("wh/t/metadata/v4.metadata.json", json.dumps(members).encode())
    others.check(world.loaded(), [without_time])
    assert others.accepted[without_time] is None


def test_files_are_looked_at_once(world):
    own, logged = (world.put(f"wh/t/metadata/v{number}.metadata.json") for number in (5, 6))
    loaded, others = world.loaded(OF_CATALOG, {logged: 1}), world.others()
    others.check(loaded, [own, logged])
    for number in (5, 6):
        world.put(f"wh/t/metadata/v{number}.metadata.json", OTHER_UUID)
    others.check(loaded, [own, logged])


def test_a_commit_that_is_under_way_is_not_looked_at(world):
    young = world.put(f"wh/t/metadata/{UNCOMMITTED}", OTHER_UUID, age_ms=0)
    others = world.others()
    others.check(world.loaded(), [young])
    assert others.accepted == {}
    refusal(lambda: world.others().check(world.loaded(OF_CATALOG), [young]))
    version = world.put("wh/t/metadata/v6.metadata.json", OTHER_UUID, age_ms=0)
    refusal(lambda: world.others().check(world.loaded(), [version]))
    gone = young.replace("2f", "3f")
    others.check(world.loaded(), [gone])
    assert others.accepted == {}
    old = world.put(f"wh/t/metadata/{UNCOMMITTED}", OTHER_UUID)
    refusal(lambda: world.others().check(world.loaded(), [old]))


def places(*found: tuple[str, bool]) -> Callable[[], Iterable[tuple[str, TablePlace]]]:
    return lambda: [
        (f"db.t{at}", TablePlace(TableName(("db",), f"t{at}"), folder, is_named))
        for at, (folder, is_named) in enumerate(found)
    ]


@pytest.mark.parametrize(
    ("folder", "is_named", "how"),
    [
        ("s3://b/wh/t", False, "lies"), ("s3a://b/wh/t/", False, "lies"),
        ("s3://b/wh", False, "lies"), ("s3://b/wh/t/sub", False, "lies"),
        ("s3://b/wh/t2", False, None), ("s3://b/wh", True, None),
        ("s3://b/wh/t", True, "has files"), ("s3://b/wh/t/sub", True, "has files"),
    ],
)  # fmt: skip
def test_the_catalog_says_where_its_tables_lie(world, folder, is_named, how):
    catalog = places(("s3://b/else", False), (folder, is_named))
    others = world.others(catalog_tables=catalog)
    if how is None:
        others.check_catalog(["s3://b/wh/t"])
    else:
        message = refusal(lambda: others.check_catalog(["s3://b/x", "s3://b/wh/t"]))
        assert message.startswith(f"`db.t1`, another table of the catalog, {how} in {folder}")
    assert world.told.told == []


def test_the_catalog_is_asked_around_a_place(world):
    others = world.others(catalog_tables=places((f"{world.location}/data/x", False)))
    others.check_in_and_above(world.loaded(), [world.location])
    refusal(lambda: others.check_around(world.loaded(), [world.location], []))


def test_a_catalog_that_does_not_tell_is_named(world):
    def fails() -> None:
        raise StorageError("no answer")

    unknown = "the catalog does not say where its other tables are"
    world.others().check_catalog(["/t"])
    world.others(catalog_tables=lambda: ()).check_catalog(["/t"])
    assert world.told.told == []
    world.others(catalog_tables=lambda: None).check_catalog(["/t"])
    assert [one.partition(":")[0] for one in world.told.told] == [unknown]
    world.others(catalog_tables=fails).check_catalog(["/t"])
    assert [one.partition(":")[0] for one in world.told.told] == [unknown, "no answer", unknown]


UNCERTAIN = replace(OF_CATALOG, publishes=False)
PUBLISHED = OF_CATALOG


@pytest.mark.parametrize(
    ("name", "ms", "capabilities", "is_newer"),
    [
        ("v8.metadata.json", 0, NUMBERED, True),
        ("v8.metadata.json", 0, UNCERTAIN, True),
        ("v8.metadata.json", 0, PUBLISHED, False),
        ("v7.metadata.json", NOW_MS + 1, NUMBERED, False),
        ("v6.metadata.json", NOW_MS + 1, NUMBERED, False),
        ("v6.metadata.json", NOW_MS + 1, UNCERTAIN, True),
        ("v6.metadata.json", NOW_MS, UNCERTAIN, False),
        ("v6.metadata.json", None, UNCERTAIN, False),
        ("00007-a.metadata.json", NOW_MS + 1, UNCERTAIN, False),
        ("../v7.metadata.json", 0, UNCERTAIN, True),
        ("../v6.metadata.json", 0, UNCERTAIN, False),
        (UNCOMMITTED, 0, NUMBERED, False),
    ],
)
def test_a_newer_file_of_the_table_may_be_current(world, name, ms, capabilities, is_newer):
    others = world.others()
    others.accepted[f"{world.location}/metadata/{name}"] = ms
    if not is_newer:
        others.check_newest(world.loaded(capabilities))
        return
    with pytest.raises(Refused, match="is not older than") as raised:
        others.check_newest(world.loaded(capabilities))
    assert raised.value.error_id == "newer-metadata"


@pytest.mark.parametrize(("name", "is_newer"), [("v1.metadata.json", True), (UNCOMMITTED, False)])
def test_any_number_is_newer_than_none(world, name, is_newer):
    others = world.others()
    others.accepted[f"{world.location}/metadata/{name}"] = 0
    if is_newer:
        with pytest.raises(Refused):
            others.check_newest(world.loaded(version=None))
    else:
        others.check_newest(world.loaded(version=None))


def test_own_files_that_are_no_versions_are_forks_as_far_back_as_the_log_goes(world):
    others = world.others()
    others.accepted.update({"/c": 6, "/a": 7, "/b": 5, "/d": None, "/e": 1})
    assert others.forks(world.loaded(OF_CATALOG, {"/x": 9, "/y": 5})) == ["/a", "/c"]
    assert others.forks(world.loaded(OF_CATALOG)) == ["/a", "/b", "/c", "/e"]
    assert others.forks(world.loaded(NUMBERED)) == ()


NAME = "v3.metadata.json"


def loaded(location: str, holder: str, folder: str = "") -> LoadedTable:
    """A table of a catalog whose metadata file lies in `holder`, and new ones go to `folder`."""
    properties = {"write.metadata.path": folder} if folder else {}
    metadata = replace(table(), location=location, properties=properties)
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
def test_a_place_is_owned_where_the_metadata_file_lies(location, holder, folder, own):
    places = own_places(loaded(location, holder, folder))
    assert list(places.folders) == own
    assert places.location == location.rstrip("/")
    assert places.has_location is (own == [location.rstrip("/")])


def test_a_local_place_is_the_same_behind_a_link(tmp_path):
    (tmp_path / "disk/t/metadata").mkdir(parents=True)
    (tmp_path / "wh").symlink_to(tmp_path / "disk")
    location = f"{tmp_path}/wh/t"
    assert own_places(loaded(location, f"{tmp_path}/disk/t/metadata")).folders == (location,)
    assert own_places(loaded(location, f"{tmp_path}/disk/u/metadata")).folders == ()


def test_files_are_inside_of_a_folder_or_outside_of_all():
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


def test_metadata_go_among_no_files_of_another_table(tmp_path):
    """Only the usual folder, with the metadata file in it, is not searched."""
    store = CountingStore(LocalStore())
    context = context_of(tmp_path, store)
    location, named = f"{tmp_path}/t", f"{tmp_path}/m"
    usual = f"{location}/metadata"
    check_owns_metadata_folder(context, loaded(location, usual))
    assert not store.counts
    check_owns_metadata_folder(context, loaded(location, usual, named))
    assert store.counts
    for folder in (usual, named):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "00001-a.metadata.json").write_text(f'{{"table-uuid": "{OTHER_UUID}"}}')
    check_owns_metadata_folder(context, loaded(location, usual))
    for holder, folder in ((usual, named), (named, usual)):
        with pytest.raises(Refused) as raised:
            check_owns_metadata_folder(context, loaded(location, holder, folder))
        refused = raised.value
        assert refused.error_id == "other-table"
        assert refused.hint == "set `write.metadata.path` to a folder of this table alone"
        assert refused.message.startswith(
            f"new metadata would be written to {folder}, among files of another table: "
            f"{folder}/00001-a"
        )


def test_metadata_files_are_told_by_their_names():
    named = ["/t/v1.metadata.json", "/t/metadata.json/a", "/t/.v1.metadata.json", "/t/a.avro"]
    assert metadata_files_among(named) == named[:1]


def compacting(*locations: str) -> list[RewriteTask]:
    """Two tasks that read the same files, each twice."""
    inputs = tuple(replace(FILE, location=one) for one in locations)
    return [rewrite(*inputs, task_id=f"0-{number}") for number in range(2)]


def test_files_outside_the_folders_of_a_table_are_told_of():
    properties = {"write.data.path": "s3://b/data", "write.metadata.path": "s3://b/metadata"}
    inside = ["s3://b/t/data/a", "s3://b/data/b", "s3://b/metadata/c"]
    progress = Told()
    check_foreign_files("s3://b/t", properties, compacting(*inside), progress)
    assert progress.told == []
    outside = ["s3://other/t/a", "s3://b/t2/b"]
    check_foreign_files("s3://b/t", properties, compacting(*inside, *outside), progress)
    assert progress.told == [
        (
            "rows of 2 data files outside the table's folders are copied into its own files; "
            "the first is s3://other/t/a"
        )
    ]


def test_files_that_the_tables_owner_may_not_read_are_refused(monkeypatch):
    monkeypatch.setattr(places_module, "kept_from_owner", lambda files, _: {*files} & {"/secret/b"})
    progress = Told()
    check_foreign_files("/t", {}, compacting("/t/a", "/t/b"), progress)
    with pytest.raises(Refused, match="the data file /secret/b is outside") as raised:
        check_foreign_files("/t", {}, compacting("/t/a", "/secret/b"), progress)
    assert raised.value.error_id == "foreign-file"
    assert progress.told == []
