"""Finding the current metadata file of a directory, and committing the next one."""

import gzip
import json
from dataclasses import replace

import pytest

from icectl.catalog.files import (
    FILE_SYSTEM,
    NAMED_FILE,
    OF_A_CATALOG,
    FileSystemCatalog,
    NamedFileCatalog,
)
from icectl.catalog.protocol import Committed, Conflict, Unknown
from icectl.errors import CorruptTable, Refused, StorageError, TableNotFound, Unsupported
from icectl.format.snapshot import MetadataLogEntry
from icectl.format.updates import AssertRefSnapshotId, AssignUuid, SetProperties
from icectl.storage.failures import AnswerLost
from icectl.storage.local.store import LocalStore
from icectl.storage.open import PathMapStore
from tests.builders.commits import loaded_at
from tests.builders.plain_metadata import plain_members
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
OTHER_UUID = "11111111-2222-4333-8444-555555555555"
CREATES = frozenset({"create"})


def members(directory, number, **more):
    """A version 2 table without snapshots, by hand; `number` shows in last-updated-ms."""
    said = {"table_uuid": UUID, "location": str(directory), "last_updated_ms": 1000 + number}
    return plain_members(**said) | more


def put(table, name, number, *, folder="metadata", compressed=None, **more):
    text = json.dumps(members(table, number, **more)).encode()
    compressed = ".gz" in name if compressed is None else compressed
    (table / folder).mkdir(parents=True, exist_ok=True)
    (table / folder / name).write_bytes(gzip.compress(text) if compressed else text)


@pytest.fixture
def table(tmp_path):
    """A file-system table of three versions."""
    for number in (1, 2, 3):
        put(tmp_path / "t", f"v{number}.metadata.json", number)
    return tmp_path / "t"


def catalog(table, env, store=None, metadata_file=None):
    store = store or LocalStore()
    if metadata_file is None:
        return FileSystemCatalog(store, str(table), env)
    return NamedFileCatalog(store, str(table), env, metadata_file)


def hint(table, content):
    (table / "metadata/version-hint.text").write_bytes(content)


HINTS = [None, b"3", b"3\n", b"1", b"", b"\n", b"v3", b"\xff\xfe", b"-1", b"00003-abc", b"0" * 99]


@pytest.mark.parametrize("content", [*HINTS, b"100000000000"])
def test_r163_the_highest_version_is_current_whatever_the_hint(table, fixed_env, content):
    if content is not None:
        hint(table, content)
    loaded = catalog(table, fixed_env).load()
    assert loaded.metadata_location == f"{table}/metadata/v3.metadata.json"
    assert (loaded.version, loaded.capabilities) == (3, FILE_SYSTEM)
    assert loaded.metadata.last_updated_ms == 1003


def test_versions_are_numbers_and_may_exceed_32_bits(table, fixed_env):
    put(table, "v10.metadata.json", 10)
    assert catalog(table, fixed_env).load().version == 10
    put(table, "v100000000000.metadata.json", 11)
    assert catalog(table, fixed_env).load().version == 100_000_000_000


@pytest.mark.parametrize("name", ["v4.gz.metadata.json", "v4.metadata.json.gz"])
def test_r006_compressed_metadata_is_read_under_both_names(table, fixed_env, name):
    put(table, name, 4)
    loaded = catalog(table, fixed_env).load()
    assert (loaded.version, loaded.capabilities) == (4, FILE_SYSTEM)
    assert loaded.metadata.last_updated_ms == 1004


@pytest.mark.parametrize(
    "name",
    [
        ".v9.metadata.json.crc", ".v9.metadata.json", "v9.metadata.json.crc",
        "v9.metadata.json.tmp", "snap-9-1-x.avro", "version-hint.text",
    ],
)  # fmt: skip
def test_other_files_are_no_metadata_files(table, fixed_env, name):
    (table / "metadata" / name).write_bytes(b"")
    loaded = catalog(table, fixed_env).load()
    assert (loaded.version, loaded.capabilities) == (3, FILE_SYSTEM)


def test_r160_of_a_catalogs_files_the_highest_number_is_taken(tmp_path, fixed_env):
    for number in (1, 2, 12):
        put(tmp_path, f"{number:05}-{UUID}.metadata.json", number)
    put(tmp_path, f"00009-{OTHER_UUID}.metadata.json", 99)
    loaded = catalog(tmp_path, fixed_env).load()
    assert loaded.metadata_location == f"{tmp_path}/metadata/00012-{UUID}.metadata.json"
    assert (loaded.version, loaded.capabilities) == (12, OF_A_CATALOG)


def test_of_two_files_of_one_number_the_one_updated_last_is_read(tmp_path, fixed_env):
    put(tmp_path, f"00002-{UUID}.metadata.json", 7)
    put(tmp_path, f"00002-{OTHER_UUID}.metadata.json", 5)
    assert catalog(tmp_path, fixed_env).load().metadata.last_updated_ms == 1007


def test_only_files_of_the_highest_number_are_read(tmp_path, fixed_env):
    for number in range(5):
        put(tmp_path, f"{number:05}-{UUID}.metadata.json", number)
    store = CountingStore(LocalStore())
    catalog(tmp_path, fixed_env, store).load()
    assert store.calls == [
        ("list_directory", f"{tmp_path}/metadata"),
        ("read", f"{tmp_path}/metadata/00004-{UUID}.metadata.json"),
    ]


@pytest.mark.parametrize(
    "name",
    ["v3.copy.metadata.json", "v3.1.metadata.json", f"{UUID}.x.metadata.json", "x.metadata.json"],
)
def test_an_odd_name_beside_versions_makes_the_table_a_catalogs(table, fixed_env, name):
    put(table, name, 99)
    loaded = catalog(table, fixed_env).load()
    assert loaded.metadata_location == f"{table}/metadata/v3.metadata.json"
    assert loaded.capabilities == OF_A_CATALOG


def test_a_uuid_of_digits_is_no_version(table, fixed_env):
    put(table, "12345678-1234-4123-8123-123456789012.metadata.json", 99)
    assert catalog(table, fixed_env).load().version == 3


def test_an_odd_name_alone_is_read(tmp_path, fixed_env):
    put(tmp_path, "latest.metadata.json", 1)
    loaded = catalog(tmp_path, fixed_env).load()
    assert (loaded.version, loaded.capabilities) == (None, OF_A_CATALOG)


@pytest.mark.parametrize("form", ["absolute", "relative"])
def test_r161_newer_metadata_under_write_metadata_path_is_taken(tmp_path, fixed_env, form):
    path = {"absolute": f"{tmp_path}/t/else", "relative": "else"}[form]
    properties = {"write.metadata.path": path}
    put(tmp_path / "t", f"00001-{UUID}.metadata.json", 1, properties=properties)
    put(tmp_path / "t", f"00002-{UUID}.metadata.json", 2, folder="else", properties=properties)
    loaded = catalog(tmp_path / "t", fixed_env).load()
    assert loaded.metadata_location == f"{tmp_path}/t/else/00002-{UUID}.metadata.json"
    assert loaded.capabilities == OF_A_CATALOG


def test_a_missing_directory_is_no_table(tmp_path, fixed_env):
    with pytest.raises(TableNotFound) as caught:
        catalog(tmp_path / "missing", fixed_env).load()
    assert caught.value.message == f"there is no directory {tmp_path}/missing"


def test_a_directory_without_metadata_is_no_table(tmp_path, fixed_env):
    (tmp_path / "data.parquet").write_bytes(b"")
    with pytest.raises(TableNotFound, match="no Iceberg table at") as caught:
        catalog(tmp_path, fixed_env).load()
    assert "metadata/*.metadata.json" in caught.value.hint


def test_the_metadata_directory_is_not_the_table(table, fixed_env):
    with pytest.raises(TableNotFound) as caught:
        catalog(table / "metadata", fixed_env).load()
    assert caught.value.hint == (
        "its metadata files are in the directory itself: name its parent, or one of them"
    )


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"{", "R-005"), (b"[]", "R-005"), (b"", "R-005"), (b"\x1f\x8bxx", "R-006")],
)
def test_unusable_metadata_is_corrupt_and_the_file_named(table, fixed_env, content, rule):
    (table / "metadata/v4.metadata.json").write_bytes(content)
    with pytest.raises(CorruptTable) as caught:
        catalog(table, fixed_env).load()
    assert caught.value.rule == rule
    assert caught.value.message.startswith(f"{table}/metadata/v4.metadata.json: ")
    assert caught.value.message.count(rule) == 1


def test_r001_a_newer_format_version_is_unsupported(table, fixed_env):
    put(table, "v4.metadata.json", 4, **{"format-version": 5})
    with pytest.raises(Unsupported):
        catalog(table, fixed_env).load()


def test_the_file_is_spelled_as_the_table_is(tmp_path, fixed_env):
    put(tmp_path / "t", "v1.metadata.json", 1, location=f"file:{tmp_path}/t/")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    loaded = catalog(tmp_path / "link", fixed_env).load()
    assert loaded.metadata_location == f"file:{tmp_path}/t/metadata/v1.metadata.json"


def test_a_file_system_table_may_be_written_to(table, fixed_env):
    hint(table, b"3")
    files = catalog(table, fixed_env)
    files.check_writable(files.load())


def refusal(files):
    with pytest.raises(Refused) as caught:
        files.check_writable(files.load())
    assert caught.value.hint
    return caught.value


def test_a_catalogs_table_is_refused_with_the_way_out(tmp_path, fixed_env):
    put(tmp_path, f"00001-{UUID}.metadata.json", 1)
    error = refusal(catalog(tmp_path, fixed_env))
    assert error.message.startswith(
        f"this table belongs to a catalog, as 00001-{UUID}.metadata.json"
    )
    assert "--metadata-file FILE" in error.hint


def test_the_left_over_file_of_a_failed_commit_is_named(table, fixed_env):
    put(table, f"00004-{UUID}.metadata.json", 3)
    assert f"if 00004-{UUID}.metadata.json is left over" in refusal(catalog(table, fixed_env)).hint


@pytest.mark.parametrize("number", [1, 3])
def test_two_files_of_one_version_are_refused(table, fixed_env, number):
    put(table, f"v{number}.gz.metadata.json", number)
    error = refusal(catalog(table, fixed_env))
    assert error.message.startswith(f"v{number}.gz.metadata.json and v{number}.metadata.json in ")


def test_a_hint_beyond_the_newest_version_is_refused(table, fixed_env):
    hint(table, b"5")
    error = refusal(catalog(table, fixed_env))
    assert error.message == (
        "version-hint.text says version 5, the newest metadata file has version 3: newer ones "
        "are missing"
    )


def test_a_moved_metadata_directory_is_refused(table, fixed_env):
    put(table, "v4.metadata.json", 4, properties={"write.metadata.path": f"{table}/else"})
    assert refusal(catalog(table, fixed_env)).message.startswith(
        "the table property write.metadata.path moves"
    )


@pytest.mark.parametrize(
    "path", ["metadata", "metadata/", "{table}/metadata", "file://{table}/metadata"]
)
def test_the_usual_metadata_directory_may_be_spelled_out(table, fixed_env, path):
    path = path.format(table=table)
    put(table, "v4.metadata.json", 4, properties={"write.metadata.path": path})
    files = catalog(table, fixed_env)
    files.check_writable(files.load())


def test_a_copy_is_refused(table, fixed_env):
    table.rename(f"{table}2")
    error = refusal(catalog(f"{table}2", fixed_env))
    assert (
        f"the table in {table}2 says that it is in {table}: it was copied or moved" in error.message
    )


def test_a_link_to_the_table_is_no_copy(table, fixed_env):
    (table.parent / "link").symlink_to(table)
    files = catalog(table.parent / "link", fixed_env)
    files.check_writable(files.load())


def test_under_a_path_map_planning_may_go_on(table, fixed_env):
    put(table, "v4.metadata.json", 4, location="s3://b/t")
    files = catalog(table, fixed_env, PathMapStore(LocalStore(), (("s3://b/t", str(table)),)))
    files.check_writable(files.load())
    with pytest.raises(Refused, match="`--path-map` is only for reading"):
        files.commit(files.load(), (), OWNED)


def test_storage_that_nothing_is_known_of_is_refused_before_anything_is_done(table, fixed_env):
    put(table, "v4.metadata.json", 4)
    loaded = replace(catalog(table, fixed_env).load(), capabilities=FILE_SYSTEM)
    elsewhere = FileSystemCatalog(LocalStore(), "oss://b/t", fixed_env)
    with pytest.raises(Refused, match="cannot commit to oss: storage"):
        elsewhere.check_writable(loaded)


class HintAfterListing(WrappedStore):
    """Another writer commits version 4 between the reading of the hint and the listing."""

    def __init__(self, store, table):
        super().__init__(store)
        self.table = table

    def list_directory(self, location):
        if not (self.table / "metadata/v4.metadata.json").exists():
            put(self.table, "v4.metadata.json", 4)
            hint(self.table, b"4")
        return super().list_directory(location)


def test_a_commit_meanwhile_is_no_missing_version(table, fixed_env):
    loaded = catalog(table, fixed_env).load()
    catalog(table, fixed_env, HintAfterListing(LocalStore(), table)).check_writable(loaded)


OWNED = [SetProperties({"owner": "ops"})]


def next_table(loaded, env, location):
    """The table after OWNED, by hand."""
    log = (*loaded.metadata.metadata_log,
           MetadataLogEntry(loaded.metadata.last_updated_ms, loaded.metadata_location))  # fmt: skip
    changed = replace(loaded.metadata, properties={"owner": "ops"}, metadata_log=log,
                      last_updated_ms=env.now_ms())  # fmt: skip
    return loaded_at(location, changed, loaded.capabilities)


def commit(files):
    return files.commit(files.load(), (), OWNED)


def names(table):
    return sorted(file.name for file in (table / "metadata").iterdir())


def test_r150_a_commit_writes_the_next_version_and_the_hint(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    outcome = files.commit(loaded, (), OWNED)
    landed = next_table(loaded, fixed_env, f"{table}/metadata/v4.metadata.json")
    assert outcome == Committed(landed)
    assert names(table) == [*(f"v{n}.metadata.json" for n in (1, 2, 3, 4)), "version-hint.text"]
    assert (table / "metadata/version-hint.text").read_bytes() == b"4"
    written = json.loads((table / "metadata/v4.metadata.json").read_bytes())
    assert written["last-updated-ms"] == fixed_env.now_ms()
    assert files.load() == landed


@pytest.mark.parametrize(
    ("base", "written", "compressed"),
    [
        ("v4.gz.metadata.json", "v5.gz.metadata.json", True),
        ("v4.metadata.json.gz", "v5.metadata.json.gz", True),
        ("v4.metadata.json", "v5.metadata.json", False),
    ],
)
def test_r006_the_next_version_has_the_form_of_the_last(
    table, fixed_env, base, written, compressed
):
    put(table, base, 4)
    assert (
        commit(catalog(table, fixed_env)).table.metadata_location == f"{table}/metadata/{written}"
    )
    assert (table / "metadata" / written).read_bytes().startswith(b"\x1f\x8b") is compressed


@pytest.mark.parametrize(
    ("codec", "base", "written", "compressed"),
    [
        ("gzip", "v4.metadata.json", "v5.gz.metadata.json", True),
        ("GZIP", "v4.metadata.json.gz", "v5.gz.metadata.json", True),
        ("none", "v4.gz.metadata.json", "v5.metadata.json", False),
    ],
)
def test_r006_the_table_may_say_how_metadata_is_compressed(
    table, fixed_env, codec, base, written, compressed
):
    put(table, base, 4, properties={"write.metadata.compression-codec": codec})
    landed = commit(catalog(table, fixed_env)).table
    assert landed.metadata_location == f"{table}/metadata/{written}"
    assert (table / "metadata" / written).read_bytes().startswith(b"\x1f\x8b") is compressed
    assert catalog(table, fixed_env).load().metadata == landed.metadata


def test_r006_a_given_file_of_a_compressed_table_is_followed_by_a_compressed_one(
    tmp_path, fixed_env
):
    given = f"00007-{UUID}.metadata.json"
    put(tmp_path, given, 7, properties={"write.metadata.compression-codec": "gzip"})
    files = catalog(tmp_path, fixed_env, metadata_file=f"{tmp_path}/metadata/{given}")
    landed = commit(files).table
    assert landed.metadata_location.endswith(".gz.metadata.json")
    assert (tmp_path / "metadata" / landed.metadata_location.rpartition("/")[2]).read_bytes()[
        :2
    ] == b"\x1f\x8b"


def test_r006_content_compressed_under_a_plain_name_stays_so(table, fixed_env):
    put(table, "v4.metadata.json", 4, compressed=True)
    commit(catalog(table, fixed_env))
    assert (table / "metadata/v5.metadata.json").read_bytes().startswith(b"\x1f\x8b")


def test_stale_check_sums_go(table, fixed_env):
    hint(table, b"3")
    for name in (".version-hint.text.crc", ".v4.metadata.json.crc", ".v3.metadata.json.crc"):
        (table / "metadata" / name).write_bytes(b"crc")
    commit(catalog(table, fixed_env))
    assert [name for name in names(table) if name.startswith(".")] == [".v3.metadata.json.crc"]


def test_a_version_that_came_before_the_commit_is_a_conflict(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    put(table, "v4.metadata.json", 4)
    hint(table, b"4")
    before = names(table)
    outcome = files.commit(loaded, (), OWNED)
    assert outcome == Conflict("v4.metadata.json was committed by another writer")
    assert names(table) == before


class Rival(WrappedStore):
    """Another writer creates the same file a moment before."""

    content = b"another writer's"

    def create(self, location, content):
        self.store.create(location, self.content)
        self.store.create(location, content)


def test_a_version_that_comes_during_the_commit_is_a_conflict(table, fixed_env):
    outcome = commit(catalog(table, fixed_env, Rival(LocalStore())))
    assert outcome == Conflict("v4.metadata.json was committed by another writer")
    assert (table / "metadata/v4.metadata.json").read_bytes() == Rival.content
    assert "version-hint.text" not in names(table)


class Repeating(WrappedStore):
    """Sends a create twice, as a client does that retries on its own."""

    def create(self, location, content):
        self.store.create(location, content)
        self.store.create(location, content)


def test_r156_an_own_commit_is_recognised(table, fixed_env):
    files = catalog(table, fixed_env, Repeating(LocalStore()))
    loaded = files.load()
    landed = next_table(loaded, fixed_env, f"{table}/metadata/v4.metadata.json")
    assert files.commit(loaded, (), OWNED) == Committed(landed)


@pytest.mark.parametrize("failure", ["after", "lost"])
def test_r156_a_commit_whose_answer_is_lost_is_looked_up(table, fixed_env, failure):
    store = FaultyStore(LocalStore(), 1, failure, CREATES)
    outcome = commit(catalog(table, fixed_env, store))
    assert store.failed
    assert isinstance(outcome, Committed)
    assert (table / "metadata/version-hint.text").read_bytes() == b"4"


def test_a_write_that_was_refused_is_a_storage_error(table, fixed_env):
    before = names(table)
    with pytest.raises(StorageError, match="fails before"):
        commit(catalog(table, fixed_env, FaultyStore(LocalStore(), 1, "before", CREATES)))
    assert names(table) == before


class Silent(WrappedStore):
    """No answer to a create, and the file is not there, or nothing can be read any more."""

    def __init__(self, store, *, readable):
        super().__init__(store)
        self.readable, self.sent = readable, False

    def create(self, location, content):
        self.sent = True
        raise AnswerLost("no answer")

    def read(self, location):
        if self.sent and not self.readable:
            raise StorageError("unreachable")
        return super().read(location)


@pytest.mark.parametrize("readable", [True, False])
def test_r156_a_commit_that_cannot_be_looked_up_is_unknown(table, fixed_env, readable):
    before = names(table)
    outcome = commit(catalog(table, fixed_env, Silent(LocalStore(), readable=readable)))
    assert outcome == Unknown(f"{table}/metadata/v4.metadata.json", "no answer")
    assert names(table) == before


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("failure", ["before", "after", "lost"])
def test_a_hint_that_cannot_be_written_does_not_matter(table, fixed_env, nth, failure):
    store = FaultyStore(LocalStore(), nth, failure, frozenset({"replace", "remove"}))
    files = catalog(table, fixed_env, store)
    assert isinstance(commit(files), Committed)
    assert store.failed
    assert files.load().version == 4


def test_r002_another_table_in_the_place_is_refused(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    put(table, "v3.metadata.json", 3, **{"table-uuid": OTHER_UUID})
    with pytest.raises(Refused) as caught:
        files.commit(loaded, (), OWNED)
    assert OTHER_UUID in caught.value.message
    assert UUID in caught.value.message


def test_r002_an_update_that_changes_the_uuid_is_refused(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    with pytest.raises(Refused):
        files.commit(loaded, (), [AssignUuid(OTHER_UUID)])
    assert len(names(table)) == 3


def test_a_file_written_anew_under_its_name_is_a_conflict(table, fixed_env):
    files = catalog(table, fixed_env)
    loaded = files.load()
    put(table, "v3.metadata.json", 77)
    message = "v3.metadata.json was rewritten by another writer"
    assert files.commit(loaded, (), OWNED) == Conflict(message)


def test_r017_the_time_of_a_commit_is_not_before_that_of_its_base(table, fixed_env):
    put(table, "v4.metadata.json", 4, **{"last-updated-ms": fixed_env.now_ms() + 30_000})
    landed = commit(catalog(table, fixed_env)).table
    assert landed.metadata.last_updated_ms == fixed_env.now_ms() + 30_000


def test_a_requirement_that_does_not_hold_is_a_conflict(table, fixed_env):
    files = catalog(table, fixed_env)
    outcome = files.commit(files.load(), [AssertRefSnapshotId("audit", 7)], OWNED)
    assert outcome == Conflict("ref `audit` is at no snapshot, not 7")
    assert len(names(table)) == 3


def test_every_commit_refuses_what_may_not_be_written_to(tmp_path, fixed_env):
    put(tmp_path, f"00001-{UUID}.metadata.json", 1)
    with pytest.raises(Refused, match="this table belongs to a catalog"):
        commit(catalog(tmp_path, fixed_env))
    assert names(tmp_path) == [f"00001-{UUID}.metadata.json"]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (f"00007-{UUID}.metadata.json", "00008-{uuid}.metadata.json"),
        (f"00007-{UUID}.gz.metadata.json", "00008-{uuid}.gz.metadata.json"),
        ("v7.metadata.json", "00008-{uuid}.metadata.json"),
    ],
)
def test_r160_the_next_file_is_written_beside_the_given_one(tmp_path, fixed_env, name, written):
    put(tmp_path, f"00003-{UUID}.metadata.json", 3)
    put(tmp_path, name, 7)
    files = catalog(tmp_path, fixed_env, metadata_file=f"{tmp_path}/metadata/{name}")
    loaded = files.load()
    assert (loaded.version, loaded.capabilities) == (7, NAMED_FILE)
    outcome = files.commit(loaded, (), OWNED)
    expected = written.format(uuid="00000000-0000-4000-8000-000000000001")
    assert outcome == Committed(next_table(loaded, fixed_env, f"{tmp_path}/metadata/{expected}"))
    assert names(tmp_path) == sorted([f"00003-{UUID}.metadata.json", name, expected])


@pytest.mark.parametrize("newer", [f"00008-{UUID}.metadata.json", f"00021-{UUID}.metadata.json"])
def test_a_newer_file_beside_the_given_one_is_refused(tmp_path, fixed_env, newer):
    given = f"00007-{UUID}.metadata.json"
    put(tmp_path, given, 7)
    put(tmp_path, newer, 8)
    files = catalog(tmp_path, fixed_env, metadata_file=f"{tmp_path}/metadata/{given}")
    assert refusal(files).message == f"{newer} is newer, and is next to {given}"
    with pytest.raises(Refused):
        commit(files)
    assert len(names(tmp_path)) == 2


def test_a_given_file_of_the_same_version_is_no_obstacle(tmp_path, fixed_env):
    given = f"00007-{UUID}.metadata.json"
    put(tmp_path, given, 7)
    put(tmp_path, f"00007-{OTHER_UUID}.metadata.json", 8)
    files = catalog(tmp_path, fixed_env, metadata_file=f"{tmp_path}/metadata/{given}")
    assert isinstance(commit(files), Committed)


def test_a_given_file_without_a_number_is_refused(tmp_path, fixed_env):
    put(tmp_path, "latest.metadata.json", 1)
    files = catalog(tmp_path, fixed_env, metadata_file=f"{tmp_path}/metadata/latest.metadata.json")
    assert "has no version number" in refusal(files).message


def test_a_given_file_that_is_missing_is_no_table(table, fixed_env):
    files = catalog(table, fixed_env, metadata_file=f"{table}/metadata/v9.metadata.json")
    with pytest.raises(TableNotFound) as caught:
        files.load()
    assert caught.value.message == f"no metadata file {table}/metadata/v9.metadata.json"
