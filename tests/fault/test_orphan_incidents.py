"""What other tools have deleted as orphans, and what icectl does in the same place."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.commit.transaction import outputs_of
from icectl.storage.local.store import LocalStore
from icectl.storage.store import FailedRemoval, Store
from tests.builders.expiry import NOW_MS, Clock, aged_table, expire, reachable
from tests.builders.folders import files_of
from tests.builders.orphans import OTHER_UUID, age, edit_metadata, name_statistics, stray
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run
from tests.stores.wrapped import WrappedStore

ALL_AT_ONCE = ("--max-fraction", "1", "--yes")


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Two snapshots, all files a week old."""
    built = filled_table(tmp_path / "wh" / "t", range(6), partitioning="identity")
    built.delete_rows([1])
    age(built.directory, 7)
    return built


def remove(
    table: TableBuilder, *options: str, store: Store | None = None
) -> tuple[int, dict[str, Any]]:
    return run(["remove-orphans", table.location, *options, "--json"], store)


def refused(table: TableBuilder, *options: str, store: Store | None = None) -> str:
    """The id of the refusal; nothing has changed."""
    before = files_of(table.directory)
    code, document = remove(table, *options, *ALL_AT_ONCE, store=store)
    assert code == 5, document
    assert files_of(table.directory) == before
    found: str = document["error"]["id"]
    return found


def check_whole(table: TableBuilder) -> None:
    """Every snapshot shows its rows, and no file that it needs is gone."""
    metadata = read_metadata(current_metadata(table.directory))
    for id_, ids in table.ids_of.items():
        assert sorted(dict(row)["id"] for row in read_rows(metadata, id_)) == sorted(ids)
    assert reachable(table.directory) <= files_of(table.directory)


class HookedStore(WrappedStore):
    """Does something once, when a call of some kind has come to its end."""

    def __init__(self, method: str, hook: Callable[[], object]) -> None:
        super().__init__(LocalStore())
        self.method, self.hook = method, hook

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        done = action()
        if method != self.method:
            return done
        whole = list(done) if isinstance(done, Iterator) else done
        self.method = ""
        self.hook()
        return iter(whole) if isinstance(whole, list) and method == "list" else whole


@pytest.fixture
def uncommitted(table: TableBuilder, tmp_path: Path) -> Callable[[], None]:
    """Files that were written a week ago; the commit that refers to them is yet to come."""
    before = {path.name for path in (table.directory / "metadata").glob("*.metadata.json")}
    table.append(range(6, 12))
    age(table.directory, 7)
    folder = table.directory / "metadata"
    (new,) = {path.name for path in folder.glob("*.metadata.json")} - before
    shutil.move(folder / new, tmp_path / new)
    (folder / "version-hint.text").unlink()
    return lambda: shutil.copy2(tmp_path / new, folder / new)


def test_r157_files_of_a_commit_that_never_came_are_orphans(table, uncommitted):
    assert remove(table, "--check")[0] == 4


def test_rule_37_a_commit_that_lands_during_the_listing_keeps_its_files(table, uncommitted):
    code, document = remove(table, *ALL_AT_ONCE, store=HookedStore("list", uncommitted))
    assert (code, document["result"]["orphans"]) == (0, [])
    check_whole(table)


@pytest.mark.parametrize("quarantine", [False, True])
def test_rule_37_and_incident_16_a_commit_before_the_deletion_keeps_its_files(
    table, uncommitted, tmp_path, quarantine
):
    """The plan holds them; they are found to be referred to just before their batch."""
    lost = stray(table.directory, "data/lost.parquet")
    words = ("--quarantine", str(tmp_path / "away")) if quarantine else ()
    hooked = HookedStore("stat", uncommitted)
    code, document = remove(table, *words, *ALL_AT_ONCE, store=hooked)
    found = document["result"]
    assert (code, hooked.method) == (0, "")
    assert found["left_alone"]["referenced"] == len(found["orphans"]) - 1 > 3
    assert found["removed"] + found["quarantined"] == 1
    assert not lost.exists()
    check_whole(table)


def test_rule_37_a_table_that_is_another_one_by_now_ends_the_run(table):
    stray(table.directory, "data/lost.parquet")
    hook = lambda: edit_metadata(table.directory, table_uuid=OTHER_UUID)  # noqa: E731
    assert refused(table, store=HookedStore("list", hook)) == "refused"


def test_rule_37_a_table_whose_files_are_shared_by_now_ends_the_run(table):
    stray(table.directory, "data/lost.parquet")
    hook = lambda: edit_metadata(table.directory, properties={"gc.enabled": "false"})  # noqa: E731
    assert refused(table, store=HookedStore("stat", hook)) == "gc-disabled"


def test_r193_tables_that_share_files_are_refused(table):
    edit_metadata(table.directory, properties={"gc.enabled": "false"})
    assert refused(table) == "gc-disabled"


def test_rule_38_and_incident_6_files_of_a_long_write_are_left_alone(table, uncommitted):
    """What is younger than three days stays; an age under a day has to be insisted on."""
    for folder in [table.directory / "data", table.directory / "metadata"]:
        age(folder, 2.9)
    code, document = remove(table, *ALL_AT_ONCE)
    assert (code, document["result"]["orphans"]) == (0, [])
    assert document["result"]["left_alone"]["recent"] > 3
    for age_limit in ("0s", "23h59m", "2025-06-16T00:00:00Z"):
        assert refused(table, "--older-than", age_limit) == "too-recent"
    assert remove(table, "--older-than", "24h", "--check")[0] == 4
    assert remove(table, "--older-than", "0s", "--allow-recent", "--check")[0] == 4
    uncommitted()
    check_whole(table)


@pytest.mark.parametrize(
    "place",
    [
        "t/sub/t2/metadata/v1.metadata.json",
        "t/sub/t2/metadata/v1.metadata.json.gz",
        "t/data/metadata/00007-x.metadata.json",
        "t/_backup/metadata/v1.metadata.json",
        "metadata/v1.metadata.json",
        "../metadata/00000-x.gz.metadata.json",
    ],
)
def test_rule_39_and_incident_1_another_table_at_above_or_below_is_refused(table, place):
    """With whatever uuid: it may be a copy that names the same files."""
    stray(table.directory, "data/lost.parquet")
    assert remove(table, "--check")[0] == 4
    path = table.directory.parent / place
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(current_metadata(table.directory), path)
    age(path, 7)
    assert refused(table) == "other-table"
    is_below_data = place.startswith(("t/sub", "t/_backup"))
    code, _ = remove(table, "--location", f"{table.location}/data", "--check")
    assert code == (4 if is_below_data else 5)


@pytest.mark.parametrize(
    "place",
    ["t/_delta_log/00000000000000000000.json", "t/.hoodie/hoodie.properties", "t/schema/schema-0"],
)
def test_rule_39_a_table_of_another_format_that_shares_the_files_is_refused(table, place):
    """Its deletion vectors and former files are known to its own log only."""
    stray(table.directory, "deletion_vector_1.bin")
    log = stray(table.directory.parent, place)
    assert refused(table) == "other-table"
    assert refused(table, "--location", f"{table.location}/data") == "other-table"
    log.unlink()
    assert remove(table, "--check")[0] == 4


@pytest.mark.parametrize("uuid", [OTHER_UUID, None])
def test_rule_39_metadata_of_another_table_among_the_tables_own_is_refused(table, uuid):
    """Two tables of a catalog have one location; which file is current is the caller's word."""
    stray(table.directory, "data/lost.parquet")
    folder = table.directory / "metadata"
    own = current_metadata(table.directory)
    members = {**read_metadata(own), "table-uuid": uuid}
    other = folder / "00009-other.metadata.json"
    other.write_text(json.dumps({name: value for name, value in members.items() if value}))
    own.rename(folder / "00009-own.metadata.json")
    (folder / "version-hint.text").unlink()
    assert refused(table, "--metadata-file", "00009-own.metadata.json") == "other-table"
    words = ("--metadata-file", "00009-own.metadata.json", "--location", f"{table.location}/data")
    assert refused(table, *words) == "other-table"
    other.unlink()
    assert remove(table, "--metadata-file", "00009-own.metadata.json", "--check")[0] == 4


def test_metadata_files_that_left_the_log_are_orphans(table):
    """The table's own, by uuid; cut off and without one, by their number."""
    folder = table.directory / "metadata"
    current = current_metadata(table.directory)
    edit_metadata(table.directory, metadata_log=[])
    first = folder / "v1.metadata.json"
    members = read_metadata(first)
    members.pop("table-uuid")
    first.write_text(json.dumps(members))
    second = folder / "v2.metadata.json"
    second.write_text(second.read_text()[:200])
    age(folder, 7)
    assert current.name == "v3.metadata.json"
    code, document = remove(table, *ALL_AT_ONCE)
    assert code == 0, document
    assert {item["path"] for item in document["result"]["orphans"]} == {str(first), str(second)}
    check_whole(table)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format-version": 2'])
def test_a_metadata_file_that_cannot_be_read_is_refused(table, content):
    edit_metadata(table.directory, metadata_log=[])
    (table.directory / "metadata/v1.metadata.json").write_bytes(content)
    assert refused(table) == "other-table"


def test_rule_40_more_than_half_of_the_bytes_is_refused(table):
    size = sum(path.stat().st_size for path in table.directory.rglob("*") if path.is_file())
    lost = stray(table.directory, "data/lost.parquet", size=size + 1)
    code, document = remove(table, "--yes")
    assert (code, document["error"]["id"], lost.exists()) == (5, "too-much", True)
    stray(table.directory, "data/lost.parquet", size=size)
    code, document = remove(table, "--yes")
    assert (code, document["status"], lost.exists()) == (0, "done", False)


@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "file://localhost{}", "file:///./{}"])
def test_incident_7_a_table_may_name_its_files_in_another_spelling(table, spelling):
    named = stray(table.directory, "metadata/a.puffin")
    name_statistics(table.directory, spelling.format(named))
    code, document = remove(table, *ALL_AT_ONCE)
    assert (code, document["result"]["orphans"]) == (0, [])


@pytest.mark.parametrize(
    "name",
    ["hdfs://old-name-node{}", "s3://bucket{}", "file://other-host{}", "metadata/a.puffin"],
    ids=["hdfs", "s3", "file", "relative"],
)
def test_incident_7_a_path_whose_store_or_folder_cannot_be_told_is_refused(table, name):
    """It is kept in any case; but what else may be named so that it looks like an orphan?"""
    named = stray(table.directory, "metadata/a.puffin")
    lost = stray(table.directory, "data/lost.parquet")
    name_statistics(table.directory, name.format(named))
    assert refused(table) == "prefix-mismatch"
    code, document = remove(table, *ALL_AT_ONCE, "--prefix-mismatch", "ignore")
    assert [item["path"] for item in document["result"]["orphans"]] == [str(lost)]
    assert (code, named.exists(), lost.exists()) == (0, True, False)


def test_incident_7_a_scheme_or_authority_that_is_vouched_for_is_the_same(table):
    named = stray(table.directory, "metadata/a.puffin")
    name_statistics(table.directory, f"nfs://filer{named}")
    assert refused(table, "--equal-authority", "filer=localhost") == "prefix-mismatch"
    words = ("--equal-scheme", "nfs=file", "--equal-authority", "filer=localhost")
    code, document = remove(table, *ALL_AT_ONCE, *words)
    assert (code, document["result"]["orphans"]) == (0, [])


def test_incident_7_what_a_link_leads_to_stays_where_the_table_is_behind_a_link(tmp_path):
    """`/wh` is a link, and a data file of `/wh/t` one to another name beside it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "wh").symlink_to(tmp_path / "disk", target_is_directory=True)
    table = filled_table(tmp_path / "wh" / "t", range(6), partitioning="identity")
    path = min((table.directory / "data").rglob("*.parquet"))
    named = path.rename(path.with_name("named.parquet"))
    path.symlink_to(named)
    age(table.directory, 7)
    lost = stray(table.directory, "data/lost.parquet")
    code, document = remove(table, *ALL_AT_ONCE)
    assert [item["path"] for item in document["result"]["orphans"]] == [str(lost)]
    assert (code, named.exists()) == (0, True)
    check_whole(table)


@pytest.mark.parametrize("folder", ["away", "away/metadata"])
def test_incident_10_a_metadata_file_from_elsewhere_that_is_not_current_is_refused(
    table, tmp_path, folder
):
    """A backup: beside it there is nothing newer, but in the table's folder there is."""
    current = current_metadata(table.directory)
    backup = tmp_path / folder / current.name
    backup.parent.mkdir(parents=True)
    shutil.copy2(current, backup)
    assert refused(table, "--metadata-file", str(backup)) == "location-not-own"
    table.append(range(6, 12))
    age(table.directory, 7)
    assert refused(table, "--metadata-file", str(backup)) == "location-not-own"


@pytest.mark.parametrize("hint", ["1", "v1", "nonsense", None])
def test_incident_10_a_stale_hint_takes_no_snapshot_along(table, hint):
    path = table.directory / "metadata/version-hint.text"
    path.unlink() if hint is None else path.write_text(hint)
    age(table.directory, 7)
    lost = stray(table.directory, "data/lost.parquet")
    code, document = remove(table, *ALL_AT_ONCE)
    assert [item["path"] for item in document["result"]["orphans"]] == [str(lost)]
    assert code == 0
    check_whole(table)


def test_r163_a_hint_that_is_behind_keeps_the_versions_from_its_own_on(tmp_path):
    """Java's reader begins there, goes on while there is a next one, and takes the last."""
    table = TableBuilder(tmp_path / "t", properties={"write.metadata.previous-versions-max": "1"})
    for start in range(4):
        table.append([start])
    folder = table.directory / "metadata"
    (folder / "version-hint.text").write_text("2")
    age(table.directory, 7)
    code, document = remove(table, *ALL_AT_ONCE)
    assert code == 0, document
    assert [Path(item["path"]).name for item in document["result"]["orphans"]] == [
        "v1.metadata.json"
    ]
    (warning,) = document["warnings"]
    assert f"`icectl repair {table.location}` corrects it" in warning
    assert run(["repair", table.location, "--yes"])[0] == 0
    _, document = remove(table, *ALL_AT_ONCE)
    assert (len(document["result"]["orphans"]), document["warnings"]) == (2, [])


class ExpiringStore(WrappedStore):
    """Another writer expires snapshots before the first manifest list is read."""

    def __init__(self, table: TableBuilder) -> None:
        super().__init__(LocalStore())
        self.table: TableBuilder | None = table

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        table, self.table = (None, self.table) if "-snap-" not in location else (self.table, None)
        if table is not None:
            expire(table.location)
        return action()


EXPIRE = ("expire-snapshots", "--retain-last", "5", "--older-than", "0s")


@pytest.mark.parametrize("words", [("remove-orphans", "--max-fraction", "1"), EXPIRE])
def test_rule_37_snapshots_that_another_writer_expires_meanwhile_are_a_conflict(tmp_path, words):
    """And not a table that is corrupt."""
    aged = aged_table(tmp_path)
    age(aged.directory, 7)
    command, *options = words
    store = ExpiringStore(aged.table)
    code, document = run([command, aged.table.location, *options, "--yes", "--json"], store)
    assert (code, document["error"]["id"]) == (11, "commit-conflict"), document
    assert "another commit has removed" in document["error"]["message"]
    aged.check_readable()
    assert reachable(aged.directory) <= aged.files()


class TimelessStore(WrappedStore):
    """Its listings have no times, as some drivers' have not."""

    def __init__(self) -> None:
        super().__init__(LocalStore())

    def list(self, location: str) -> Iterator[pa.RecordBatch]:
        for batch in super().list(location):
            times = pa.array([None] * batch.num_rows, pa.int64())
            yield batch.set_column(2, batch.schema.field(2), times)


def test_incident_14_a_file_without_a_time_is_never_old(table):
    lost = stray(table.directory, "data/lost.parquet")
    code, document = remove(table, *ALL_AT_ONCE, store=TimelessStore())
    assert (code, document["result"]["orphans"], lost.exists()) == (0, [], True)


class SkewedStore(WrappedStore):
    """Its clock is a week behind this machine's."""

    def clock_ms(self, location: str) -> int | None:

        return NOW_MS - 7 * 86_400_000


def test_incident_14_files_are_aged_by_the_clock_that_dates_them(table):
    stray(table.directory, "data/lost.parquet", days=9.9)
    skewed = SkewedStore(LocalStore())
    assert remove(table, "--check", store=skewed)[0] == 0
    stray(table.directory, "data/lost.parquet", days=10.1)
    assert remove(table, "--check", store=skewed)[0] == 4


def test_incident_14_an_answer_from_the_future_makes_no_file_old(table, monkeypatch):
    """A proxy dates the storage's answers by a clock that is weeks ahead."""
    lost = stray(table.directory, "data/lost.parquet", days=1)
    ahead = SkewedStore(LocalStore())
    monkeypatch.setattr(SkewedStore, "clock_ms", lambda *_: NOW_MS + 14 * 86_400_000)
    code, document = remove(table, "--yes", store=ahead)
    assert (code, document["result"]["orphans"], lost.exists()) == (0, [], True), document


class DenyingStore(WrappedStore):
    """No file can be deleted."""

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        return [FailedRemoval(place, "403 Forbidden") for place in removed]


def test_rule_35_deletions_that_fail_are_told_and_done_later(table):
    lost = stray(table.directory, "data/lost.parquet")
    code, document = remove(table, *ALL_AT_ONCE, store=DenyingStore(LocalStore()))
    found = document["result"]
    assert (code, document["status"], found["removed"]) == (3, "incomplete", 0)
    assert found["failed"] == [{"path": str(lost), "error": "403 Forbidden"}]
    assert remove(table, *ALL_AT_ONCE)[0] == 0
    assert not lost.exists()


OVER, OWN = 2**30, os.getpid()
"""No process has the first number, which is beyond what systems count to."""


@pytest.mark.parametrize(
    ("members", "stays"),
    [
        ({"pid": OWN}, True), ({"pid": OWN, "created-ms": 0}, True),
        ({"pid": OVER, "host": "another"}, True), ({"pid": OVER}, False),
        ({"pid": OWN, "abandoned": True}, False), ({"icectl-journal": 2}, True),
    ],
)  # fmt: skip
def test_rule_38_files_of_a_run_of_icectl_that_may_still_commit_stay(table, members, stays):
    """However long it has been at work: what it wrote first is older than any age."""
    loaded = FileSystemCatalog(LocalStore(), table.location, Clock(NOW_MS)).load()
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded, "rewrite-manifests")
    written = Path(outputs.manifest())
    journal = next(written.parent.glob("icectl-*.json"))
    journal.write_text(json.dumps(json.loads(journal.read_text()) | members))
    data = f"data/00000-{outputs.journal.uuid}.parquet"
    files = [stray(table.directory, f"metadata/{written.name}"), stray(table.directory, data)]
    lost = stray(table.directory, "data/lost.parquet")
    code, document = remove(table, *ALL_AT_ONCE)
    assert (code, lost.exists()) == (0, False)
    assert [file.exists() for file in files] == [stays, stays]
    assert document["result"]["left_alone"]["running"] == (2 if stays else 0)
    assert journal.exists()
