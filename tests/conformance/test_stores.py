"""What every Store promises, on local files, in memory and on S3."""

import itertools
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from icectl.errors import Refused
from icectl.storage import s3fs as s3_upload
from icectl.storage.buckets import store as native
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import check_creatable
from tests.stores.s3_servers import BY_S3FS

NUMBERS = itertools.count()


class Place:
    """A store, an empty location in it, and a way to put files there past the store."""

    def __init__(self, store, base, put):
        self.store, self.base, self.put = store, base, put

    def put_all(self, paths):
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda path: self.put(path, b"1"), paths))

    def at(self, path):
        return f"{self.base}/{path}"


def local_place(prefix, directory, env):
    def put(path, content):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    return Place(LocalStore(), f"{prefix}{directory}", put)


def memory_place(env):
    import fsspec

    base = f"memory://conformance-{next(NUMBERS)}/t"
    memory = fsspec.filesystem("memory")
    return Place(
        open_store(StorageOptions(home=base), env),
        base,
        lambda path, content: memory.pipe_file(f"{base}/{path}", content),
    )


def s3_place(scheme, server, env, **more):
    bucket = f"conformance-{next(NUMBERS)}"
    server.client.create_bucket(Bucket=bucket)
    return Place(
        open_store(StorageOptions(server.options | more, concurrency=2), env),
        f"{scheme}://{bucket}/wh/t",
        lambda path, content: server.client.put_object(
            Bucket=bucket, Key=f"wh/t/{path}", Body=content
        ),
    )


def azure_place(server, env):
    """Files are put there by another client, obstore's own being under test."""
    container = f"conformance-{next(NUMBERS)}"
    server.create_container(container)
    return Place(
        open_store(StorageOptions(server.options, concurrency=2), env),
        f"abfss://{container}@{server.account}.dfs.core.windows.net/wh/t",
        lambda path, content: server.put(container, f"wh/t/{path}", content),
    )


def gcs_place(server, env):
    bucket = f"conformance-{next(NUMBERS)}"
    server.create_bucket(bucket)
    return Place(
        open_store(StorageOptions(server.options, concurrency=2), env),
        f"gs://{bucket}/wh/t",
        lambda path, content: server.put(bucket, f"wh/t/{path}", content),
    )


def hdfs_place(server, env):
    directory = f"/conformance-{next(NUMBERS)}/wh/t"
    return Place(
        open_store(StorageOptions(concurrency=2), env),
        f"{server.root}{directory}",
        lambda path, content: server.put(f"{directory}/{path}", content),
    )


@pytest.fixture(
    params=[
        "path",
        "file",
        "memory",
        pytest.param("s3", marks=pytest.mark.s3),
        pytest.param("s3a", marks=pytest.mark.s3),
        pytest.param("s3fs", marks=pytest.mark.s3),
        pytest.param("versitygw", marks=pytest.mark.s3),
        pytest.param("azurite", marks=pytest.mark.xdist_group("azurite")),
        "fake-gcs",
        pytest.param("hdfs", marks=pytest.mark.xdist_group("hdfs")),
    ]
)
def place(request, tmp_path, fixed_env):
    if request.param == "path":
        return local_place("", tmp_path, fixed_env)
    if request.param == "file":
        return local_place("file://", tmp_path, fixed_env)
    if request.param == "memory":
        return memory_place(fixed_env)
    if request.param == "s3fs":
        return s3_place("s3", request.getfixturevalue("s3_server"), fixed_env, **BY_S3FS)
    if request.param == "azurite":
        return azure_place(request.getfixturevalue("azurite"), fixed_env)
    if request.param == "fake-gcs":
        return gcs_place(request.getfixturevalue("fake_gcs"), fixed_env)
    if request.param == "hdfs":
        return hdfs_place(request.getfixturevalue("hdfs"), fixed_env)
    if request.param == "versitygw":
        return s3_place("s3", request.getfixturevalue("versitygw_server"), fixed_env)
    server = "moto_server" if request.param == "s3" else "s3_server"
    return s3_place(request.param, request.getfixturevalue(server), fixed_env)


def rows(store, location):
    return sorted(row["location"] for batch in store.list(location) for row in batch.to_pylist())


def test_read_gives_all_bytes(place):
    place.put("a", bytes(range(256)) * 1000)
    assert place.store.read(place.at("a")) == bytes(range(256)) * 1000


def test_an_empty_file_is_read_as_nothing(place):
    place.put("a", b"")
    assert place.store.read(place.at("a")) == b""
    assert place.store.read_range(place.at("a"), 0, 10) == b""
    with place.store.open(place.at("a")) as file:
        assert file.read() == b""


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    ("offset", "length", "content"),
    [
        (0, 3, b"012"), (4, 3, b"456"), (8, 10, b"89"), (0, 4_096, b"0123456789"), (10, 5, b""),
        (20, 5, b""), (3, 0, b""), (-3, 3, b"789"), (-3, 2, b"78"), (-20, 4, b"0123"),
    ],
)  # fmt: skip
def test_read_range_stops_at_the_end(place, offset, length, content):
    place.put("a", b"0123456789")
    assert place.store.read_range(place.at("a"), offset, length) == content


def test_open_gives_a_seekable_reader(place):
    place.put("a", b"0123456789")
    with place.store.open(place.at("a")) as file:
        assert file.seek(-4, 2) == 6
        assert file.read(2) == b"67"
        assert file.tell() == 8
        assert file.seek(1) == 1
        assert file.seek(1, 1) == 2
        assert file.read() == b"23456789"
        assert file.read() == b""


def test_parquet_is_read_through_open(place):
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"n": list(range(100_000))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=10_000)
    place.put("a.parquet", buffer.getvalue())
    with place.store.open(place.at("a.parquet")) as file:
        assert pq.ParquetFile(file).read_row_group(9)["n"].to_pylist() == list(
            range(90_000, 100_000)
        )


def test_stat_gives_size_and_time(place):
    place.put("a", b"12345")
    status = place.store.stat(place.at("a"))
    assert (status.location, status.size_bytes) == (place.at("a"), 5)
    listed = next(iter(place.store.list(place.base))).to_pylist()[0]
    assert abs(listed["modified_ms"] - status.modified_ms) < 1000
    assert 1_600_000_000_000 < status.modified_ms < 4_000_000_000_000


@pytest.mark.parametrize("path", ["missing", "missing/a", "d"])
def test_what_is_missing_is_told_apart_from_failures(place, path):
    place.put("d/a", b"1")
    assert place.store.stat(place.at(path)) is None
    if path != "d":
        with pytest.raises(FileNotFoundError):
            place.store.read(place.at(path))
        with pytest.raises(FileNotFoundError):
            place.store.read_range(place.at(path), 0, 1)
        with pytest.raises(FileNotFoundError):
            place.store.read_range(place.at(path), -1, 1)
        with pytest.raises(FileNotFoundError):
            place.store.open(place.at(path))


NAMES = ["a b", "a+b", "a%20b", "dt=2024-01-01 12:00:00", "ünï", "#hash", "[x]", "*star", ".hidden"]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", [*NAMES, "question?mark"])
def test_names_are_taken_literally(place, name):
    if place.base.startswith("hdfs:") and ":" in name:
        pytest.skip("Hadoop's file system has no names with a colon")
    place.put(f"{name}/x", b"1")
    assert place.store.read(place.at(f"{name}/x")) == b"1"
    assert place.store.stat(place.at(f"{name}/x")).size_bytes == 1
    assert rows(place.store, place.base) == [place.at(f"{name}/x")]


def test_a_copy_has_the_bytes_and_the_source_stays(place):
    for name in ["a", *NAMES]:
        if place.base.startswith("hdfs:") and ":" in name:
            continue
        place.put(f"d/{name}", name.encode() * 1000)
        place.store.copy(place.at(f"d/{name}"), place.at(f"new/{name}/x"))
        assert place.store.read(place.at(f"new/{name}/x")) == name.encode() * 1000
        assert place.store.read(place.at(f"d/{name}")) == name.encode() * 1000


def test_what_is_missing_cannot_be_copied(place):
    with pytest.raises(FileNotFoundError):
        place.store.copy(place.at("missing"), place.at("new"))
    assert place.store.stat(place.at("new")) is None


def test_files_are_dated_by_the_clock_that_is_told(place):
    """A server's clock goes in whole seconds; None is this machine's clock."""
    told = place.store.clock_ms(place.base)
    before_ms = time.time_ns() // 1_000_000 if told is None else told
    place.put("a", b"1")
    assert -1000 <= place.store.stat(place.at("a")).modified_ms - before_ms < 5000
    assert (told is None) == (not place.base.startswith(("s3", "abfss", "gs")))


def test_list_gives_all_files_below_and_no_directories(place):
    paths = ["a", "d/b", "d/e/c", ".hidden", "d/_hidden/x"]
    for path in paths:
        place.put(path, path.encode())
    batches = list(place.store.list(place.base))
    assert all(batch.schema == LISTING_SCHEMA for batch in batches)
    found = {row["location"]: row["size_bytes"] for batch in batches for row in batch.to_pylist()}
    assert found == {place.at(path): len(path) for path in paths}
    assert rows(place.store, place.at("d/")) == [
        place.at(path) for path in ["d/_hidden/x", "d/b", "d/e/c"]
    ]


def test_list_stays_within_its_location(place):
    place.put("t/a", b"1")
    place.put("t2/a", b"1")
    assert rows(place.store, place.at("t")) == [place.at("t/a")]


def test_list_of_nothing_yields_nothing(place):
    assert list(place.store.list(place.at("missing"))) == []
    assert list(place.store.list_directory(place.at("missing"))) == []


def test_list_directory_gives_files_in_order_of_their_names(place):
    for path in ["m/v2", "m/v1", "m/.hidden", "m/d/x"]:
        place.put(path, path.encode())
    found = place.store.list_directory(place.at("m"))
    assert [(file.location, file.size_bytes) for file in found] == [
        (place.at("m/.hidden"), 9),
        (place.at("m/v1"), 4),
        (place.at("m/v2"), 4),
    ]


def test_many_directories_are_listed_completely(place):
    paths = [f"data/p={n % 8}/{n % 3}/f{n}" for n in range(48)]
    place.put_all(paths)
    assert rows(place.store, place.base) == sorted(place.at(path) for path in paths)


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_a_split_and_its_parts_together_are_a_listing(place, count):
    paths = [f"data/p={n % 8}/{n % 3}/f{n}" for n in range(48)] + ["a", "data/b"]
    place.put_all(paths)
    begun = place.store.split(place.base, count)
    parts = pickle.loads(pickle.dumps(begun.parts))
    bundles = [parts[start::2] for start in range(min(2, len(parts)))]
    batches = [*begun.batches, *(b for some in bundles for b in place.store.list_parts(some))]
    found = [row["location"] for batch in batches for row in batch.to_pylist()]
    assert sorted(found) == sorted(place.at(path) for path in paths)


def test_a_split_of_nothing_is_empty(place):
    begun = place.store.split(place.at("missing"), 10)
    assert (list(begun.batches), list(begun.parts)) == ([], [])


def test_create_writes_a_file_once(place):
    place.store.create(place.at("m/a"), b"first")
    with pytest.raises(FileExistsError):
        place.store.create(place.at("m/a"), b"second")
    assert place.store.read(place.at("m/a")) == b"first"
    assert rows(place.store, place.base) == [place.at("m/a")]


def test_one_of_many_creators_wins(place):
    barrier, winners = threading.Barrier(8), []

    def create(number):
        barrier.wait()
        try:
            place.store.create(place.at("a"), str(number).encode() * 100_000)
        except FileExistsError:
            return
        winners.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert place.store.read(place.at("a")) == str(winners[0]).encode() * 100_000


def test_replace_writes_and_overwrites(place):
    place.store.replace(place.at("m/hint"), b"1")
    place.store.replace(place.at("m/hint"), b"22")
    assert place.store.read(place.at("m/hint")) == b"22"
    assert rows(place.store, place.base) == [place.at("m/hint")]


def test_remove_takes_files_and_forgives_missing_ones(place):
    place.put("a", b"1")
    place.put("b", b"1")
    assert list(place.store.remove([place.at("a"), place.at("missing")])) == []
    assert rows(place.store, place.base) == [place.at("b")]


def test_a_driver_that_may_overwrite_is_not_written_through(fixed_env):
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    options = StorageOptions({"account_name": "a", "account_key": "a2V5", "version_aware": "true"})
    store = open_store(options, fixed_env)
    for write in (
        lambda: store.create("abfss://c@a.dfs.core.windows.net/t/a", b""),
        lambda: store.replace("abfss://c@a.dfs.core.windows.net/t/a", b""),
        lambda: store.remove(["abfss://c@a.dfs.core.windows.net/t/a"]),
    ):
        with pytest.raises(Refused, match="does not write through the fsspec driver"):
            write()


def test_other_object_storage_is_not_written_to():
    for scheme in ("cos", "oss"):
        with pytest.raises(Refused, match=f"cannot commit to {scheme}: storage"):
            check_creatable(f"{scheme}://bucket/t/a")


@pytest.fixture
def small_parts(monkeypatch):
    for module in (native, s3_upload):
        monkeypatch.setattr(module, "_PART_BYTES", 5 << 20)  # the least that S3 takes


@pytest.mark.parametrize("size", [0, 10, 5 << 20, 11 << 20])
def test_a_new_file_has_all_that_was_written(place, size, small_parts):
    content = bytes(range(256)) * (size // 256) + b"e" * (size % 256)
    with place.store.open_new(place.at("d/a")) as file:
        for start in range(0, size, 3_000_000):
            file.write(content[start : start + 3_000_000])
        assert place.store.stat(place.at("d/a")) is None
    assert place.store.read(place.at("d/a")) == content
    assert rows(place.store, place.at("d")) == [place.at("d/a")]


def test_a_new_file_that_fails_leaves_nothing(place, small_parts):
    broken = itertools.chain([bytes(11 << 20)], (None,))
    with pytest.raises(TypeError), place.store.open_new(place.at("d/a")) as file:
        file.writelines(broken)
    assert place.store.stat(place.at("d/a")) is None
    assert rows(place.store, place.at("d")) == []


def test_a_new_file_does_not_take_the_place_of_another(place):
    place.put("a", b"there")
    with pytest.raises(FileExistsError), place.store.open_new(place.at("a")) as file:
        file.write(b"new")
    assert place.store.read(place.at("a")) == b"there"
