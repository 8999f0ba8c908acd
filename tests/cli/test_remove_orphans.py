"""`icectl remove-orphans` from the command line: plans, refusals, quarantine, inventories, ends."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app, session
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.expiry import NOW_MS, Aged, Clock, aged_table, reachable
from tests.builders.folders import files_of
from tests.builders.orphans import OTHER_UUID, age, edit_metadata, stray
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.cli.conftest import Ended, checked_document
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, ReadOnlyStore

KEYS = [
    "engine", "older_than", "listed", "listed_bytes", "referenced", "orphans", "orphan_bytes",
    "outside", "left_alone", "removed", "removed_bytes", "quarantined", "quarantined_bytes",
    "quarantine", "purge", "purged", "purged_bytes", "failed",
]  # fmt: skip
STRAYS = {"data/lost.parquet", "data/category=c0/lost.parquet", "metadata/lost-m0.avro"}

Remove = Callable[..., Ended]


@pytest.fixture
def icectl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Remove:
    """Run `icectl remove-orphans`, a day after the builder's tables begin."""

    def run(*arguments: object, env: FixedEnv | None = None, store: Store | None = None) -> Ended:
        with monkeypatch.context() as patch:
            if store is not None:
                patch.setattr(session, "open_store", lambda *_: store)
            code = app.main(["remove-orphans", *map(str, arguments)], env=env or Clock(NOW_MS))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture
def littered(tmp_path: Path) -> Aged:
    """A table of seven snapshots whose files are a week old, and three strays of 100 bytes."""
    aged = aged_table(tmp_path, properties={"note": "littered"})
    for path in aged.directory.rglob("metadata/*"):  # manifests that its builder merged away
        if str(path.relative_to(aged.directory)) not in known(aged.directory):
            path.unlink()
    age(aged.directory, 7)
    for name in STRAYS:
        stray(aged.directory, name)
    return aged


def known(directory: Path) -> set[str]:
    """What the table refers to, found without icectl."""
    names = {name for name in files_of(directory) if name.endswith(".metadata.json")}
    return reachable(directory) | names | {"metadata/version-hint.text"}


def result(ended: Ended) -> dict[str, Any]:
    """The result in a document that keeps to its schema."""
    found: dict[str, Any] = checked_document(ended)["result"]
    assert list(found) == KEYS
    return found


def error(ended: Ended) -> tuple[int, str]:
    """Exit code and id of a failure."""
    return ended.code, checked_document(ended)["error"]["id"]


def orphans(aged: Aged, found: dict[str, Any]) -> set[str]:
    return {str(Path(item["path"]).relative_to(aged.directory)) for item in found["orphans"]}


def test_what_nothing_refers_to_goes_and_all_else_stays(icectl, littered):
    before = files_of(littered.directory)
    found = result(icectl(littered.directory, "--yes", "--json"))
    assert orphans(littered, found) == STRAYS
    assert (found["removed"], found["removed_bytes"], found["failed"]) == (3, 300, [])
    assert (found["listed"], found["orphan_bytes"]) == (len(before), 300)
    assert found["listed_bytes"] == 300 + sum(
        (littered.directory / name).stat().st_size for name in before - STRAYS
    )
    assert files_of(littered.directory) == before - STRAYS
    littered.check_readable()

    stray(littered.directory, "data/young.parquet", days=1)
    ended = icectl(littered.directory, "--yes")
    assert (ended.code, ended.out.splitlines()[-2:]) == (
        0,
        [
            "kept 1 file: modified too recently",
            f"nothing to do: no orphans among {len(before) - 2} files",
        ],
    )


def test_a_dry_run_lists_each_file_with_bytes_and_time(icectl, littered):
    stray(littered.directory, "data/young.parquet", days=2)
    stray(littered.directory, "_tmp/x")
    before = littered.content()
    ended = icectl(littered.directory, "-n", store=ReadOnlyStore(LocalStore()))
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].split() == ["bytes", "modified", "file"]
    assert [line.split() for line in lines[1:4]] == [
        ["100", "2025-06-09T15:06:40Z", name] for name in sorted(STRAYS)
    ]
    assert lines[5:8] == [
        "kept 1 file: modified too recently",
        "kept 1 file: on a hidden path (a name that begins with `_` or `.`)",
        "engine: local",
    ]
    assert lines[8].startswith(f"3 files of {len(before)}, 300 B of ")
    assert lines[8].endswith(
        "would be deleted: not referred to, and older than 2025-06-13T15:06:40Z"
    )
    found = result(icectl(littered.directory, "-n", "--json"))
    assert found["orphans"][0] == {
        "path": f"{littered.directory}/data/category=c0/lost.parquet",
        "size_bytes": 100,
        "modified": "2025-06-09T15:06:40Z",
    }
    assert found["older_than"] == "2025-06-13T15:06:40Z"
    assert found["left_alone"]["recent"] == found["left_alone"]["hidden"] == 1
    assert littered.content() == before


def test_the_table_is_listed_once(icectl, littered):
    store = CountingStore(LocalStore())
    assert icectl(littered.directory, "--yes", store=store).code == 0
    assert store.counts["list"] == 1
    names = [method for method, _ in store.calls]
    last_read_of_metadata = max(
        number
        for number, (method, location) in enumerate(store.calls)
        if method == "read" and location.endswith(".avro")
    )
    assert names.index("list") < last_read_of_metadata


def test_what_log_and_statistics_name_stays(icectl, littered):
    """Also where the snapshot that they describe is long gone."""
    place = littered.directory / "metadata"
    named = [stray(littered.directory, f"metadata/{n}.puffin") for n in ("a", "b", "unnamed")]
    logged = stray(littered.directory, "metadata/from-the-log.json")
    edit_metadata(
        littered.directory,
        statistics=[
            {
                "snapshot-id": 1, "statistics-path": str(named[0]), "file-size-in-bytes": 100,
                "file-footer-size-in-bytes": 10, "blob-metadata": [],
            }
        ],
        partition_statistics=[
            {"snapshot-id": 1, "statistics-path": str(named[1]), "file-size-in-bytes": 100}
        ],
        metadata_log=[{"timestamp-ms": NOW_MS - 1, "metadata-file": str(logged)}],
    )  # fmt: skip
    version = current_metadata(littered.directory).name
    former = {file.name for file in place.glob("v*.metadata.json")} - {version}
    found = result(icectl(littered.directory, "--yes", "--json"))
    assert orphans(littered, found) == STRAYS | {"metadata/unnamed.puffin"} | {
        f"metadata/{name}" for name in former
    }
    assert {"a.puffin", "b.puffin", "from-the-log.json", version, "version-hint.text"} <= {
        file.name for file in place.iterdir()
    }


def test_files_of_deleted_entries_and_of_snapshots_that_no_ref_names_stay(icectl, tmp_path):
    """The newest snapshot's manifests name files that went; a snapshot is in no branch."""
    table = filled_table(tmp_path / "t", range(3))
    table.append(range(3, 6), branch="staged")
    table.remove_data_files(1)
    metadata = read_metadata(current_metadata(table.directory))
    refs = {name: ref for name, ref in metadata["refs"].items() if name != "staged"}
    first = table.metadata.snapshots[0].snapshot_id
    kept = [item for item in metadata["snapshots"] if item["snapshot-id"] != first]
    log = [item for item in metadata["snapshot-log"] if item["snapshot-id"] != first]
    edit_metadata(table.directory, refs=refs, snapshots=kept, **{"snapshot-log": log})
    age(table.directory, 7)
    found = result(icectl(table.directory, "--yes", "--json"))
    gone = [Path(item["path"]) for item in found["orphans"]]
    assert [path.parent.name for path in gone] == ["metadata"] * len(gone)
    assert {path.suffix for path in gone} == {".avro"}
    assert len(list((table.directory / "data").rglob("*.parquet"))) == 2


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version_keeps_what_it_reaches(icectl, tmp_path, version):
    aged = aged_table(tmp_path, format_version=version)
    age(aged.directory, 7)
    stray(aged.directory, "data/lost.parquet")
    needed = known(aged.directory)
    assert icectl(aged.directory, "--yes").code == 0
    assert files_of(aged.directory) == needed
    aged.check_readable()


def test_check_sums_go_with_their_files(icectl, littered):
    kept = min((littered.directory / "data").rglob("*.parquet"))
    names = [
        f"{kept.parent.relative_to(littered.directory)}/.{kept.name}.crc",
        "metadata/.version-hint.text.crc",
        "data/.young.parquet.crc",
    ]
    for name in [*names, "data/.lost.parquet.crc", "data/.gone.parquet.crc"]:
        stray(littered.directory, name)
    stray(littered.directory, "data/young.parquet", days=1)
    if kept.name == "lost.parquet":
        kept = littered.directory / "data/none"
    found = result(icectl(littered.directory, "--yes", "--json"))
    assert orphans(littered, found) >= STRAYS | {"data/.lost.parquet.crc", "data/.gone.parquet.crc"}
    assert set(names[1:]) <= files_of(littered.directory)
    assert found["left_alone"]["recent"] == 2


def test_a_location_below_the_table_is_all_that_is_looked_at(icectl, littered):
    place = f"file://{littered.directory}/data"
    deeper = littered.directory / "data" / "category=c0"
    words = ["--location", place, "--location", deeper, "--location", place]
    found = result(icectl(littered.directory, *words, "--yes", "--json"))
    assert orphans(littered, found) == {name for name in STRAYS if name.startswith("data/")}
    assert found["removed"] == 2
    assert "metadata/lost-m0.avro" in files_of(littered.directory)


@pytest.mark.parametrize("place", ["..", "../t2", "", "data/../../x"])
def test_a_location_elsewhere_is_refused(icectl, littered, place):
    location = "/" if not place else littered.directory / place
    ended = icectl(littered.directory, "--location", location, "--yes", "--json")
    assert error(ended) == (5, "location-outside")


def test_orphans_in_a_data_folder_elsewhere_go_only_when_asked(icectl, littered, tmp_path):
    shared = tmp_path / "shared"
    edit_metadata(littered.directory, properties={"write.data.path": str(shared)})
    away = stray(shared, "a/lost.parquet")
    ended = icectl(littered.directory, "--yes", "--json")
    [told] = [one for one in ended.document["warnings"] if "write.data.path" in one]
    assert (ended.code, str(shared) in told, "`--location`" in told) == (0, True, True)
    assert away.exists()
    words = ["--location", shared / "a", "--max-fraction", "1", "--yes"]
    ended = icectl(littered.directory, *words, "--json")
    found = result(ended)
    assert ended.document["status"] == "nothing-to-do"
    assert (found["orphans"], [item["path"] for item in found["outside"]]) == ([], [str(away)])
    assert away.exists()
    found = result(icectl(littered.directory, *words, "--delete-outside", "--json"))
    assert (found["removed"], away.exists()) == (1, False)


def test_a_large_share_of_the_bytes_is_refused(icectl, littered):
    stray(littered.directory, "data/large.parquet", size=10_000_000)
    ended = icectl(littered.directory, "--yes", "--json")
    assert error(ended) == (5, "too-much")
    assert "99% of the listed bytes" in ended.document["error"]["message"]
    ended = icectl(littered.directory, "-n", "--json")
    assert (ended.code, ended.document["status"], len(result(ended)["orphans"])) == (
        5, "refused", 4,
    )  # fmt: skip
    assert len(ended.document["warnings"]) == 1
    assert icectl(littered.directory, "--max-fraction", "99.99%", "--yes").code == 0


def test_the_deleted_list_names_what_went(icectl, littered, tmp_path):
    listed = tmp_path / "deleted.txt"
    assert icectl(littered.directory, "--yes", "--deleted-list", listed).code == 0
    assert set(listed.read_text().splitlines()) == {
        str(littered.directory / name) for name in STRAYS
    }


def test_a_list_that_cannot_be_written_ends_the_run_before_anything_goes(
    icectl, littered, tmp_path
):
    before = littered.content()
    words = ["--yes", "--json", "--deleted-list", tmp_path / "missing" / "list"]
    assert error(icectl(littered.directory, *words)) == (13, "storage")
    assert littered.content() == before


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_quarantine_holds_everything_for_putting_it_back(icectl, littered, tmp_path, prefix):
    before = littered.content()
    away = tmp_path / "away"
    words = ["--quarantine", f"{prefix}{away}", "--yes", "--json"]
    found = result(icectl(littered.directory, *words))
    assert (found["removed"], found["quarantined"], found["quarantined_bytes"]) == (0, 3, 300)
    assert files_of(littered.directory) == before.keys() - STRAYS
    (run,) = away.iterdir()
    assert found["quarantine"] == {
        "location": f"{prefix}{run}", "lists": [f"{prefix}{run}/moved-00001.jsonl"],
    }  # fmt: skip
    assert files_of(run / "files") == STRAYS
    lines = [json.loads(line) for line in (run / "moved-00001.jsonl").read_text().splitlines()]
    assert lines[0] == {
        "from": str(littered.directory / "data/category=c0/lost.parquet"),
        "to": str(run / "files/data/category=c0/lost.parquet"),
        "size_bytes": 100,
        "modified": "2025-06-09T15:06:40Z",
    }
    for line in lines:
        shutil.move(line["to"], line["from"])
    assert littered.content() == before


def test_the_manual_says_how_to_put_everything_back(icectl, littered, tmp_path):
    if shutil.which("jq") is None:
        pytest.skip("the line in the manual needs jq")
    stray(littered.directory, 'data/it\'s a $(file) "here".parquet')
    before = littered.content()
    assert icectl(littered.directory, "--quarantine", tmp_path / "a way", "--yes").code == 0
    assert len(littered.content()) == len(before) - 4
    help_text = app.load_command("remove-orphans").help
    (line,) = (part.strip("`") for part in help_text.split("\n\n") if part.startswith("`cat RUN/"))
    (run,) = (tmp_path / "a way").iterdir()
    environment = {**os.environ, "RUN": str(run)}
    shell = line.replace("RUN/", '"$RUN"/')
    subprocess.run(["/bin/sh", "-c", shell], env=environment, check=True)
    assert littered.content() == before


@pytest.mark.parametrize("place", ["", "away", "metadata", "..", "../t/../t/away", "link/away"])
def test_a_quarantine_lies_outside_the_table(icectl, littered, tmp_path, place):
    (tmp_path / "link").symlink_to(littered.directory)
    where = tmp_path / place if place.startswith("link") else littered.directory / place
    ended = icectl(littered.directory, "--quarantine", where, "--yes", "--json")
    assert error(ended) == (5, "quarantine-place")
    ended = icectl(littered.directory, "--quarantine", "s3://away/x", "--yes", "--json")
    assert error(ended) == (5, "quarantine-place")


def test_a_quarantine_lies_outside_every_other_table(icectl, littered, tmp_path):
    other = filled_table(tmp_path / "other", range(3))
    before = littered.content()
    for where in (other.directory, other.directory / "data"):
        ended = icectl(littered.directory, "--quarantine", where, "--yes", "--json")
        assert error(ended) == (5, "other-table")
    assert littered.content() == before


def write_inventory(path: Path, directory: Path) -> Path:
    """A plain list of the files, with the sizes and times that they have."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["location", "size", "last_modified"])
        for name in sorted(files_of(directory)):
            status = (directory / name).stat()
            modified = f"2025-06-09T15:06:40.{status.st_mtime_ns // 1_000_000 % 1000:03}Z"
            writer.writerow([f"file://{directory / name}", status.st_size, modified])
    return path


def test_an_inventory_takes_the_place_of_a_listing(icectl, littered, tmp_path):
    inventory = write_inventory(tmp_path / "files.csv", littered.directory)
    gone = littered.directory / "data/lost.parquet"
    gone.unlink()
    rewritten = littered.directory / "metadata/lost-m0.avro"
    rewritten.write_bytes(b"." * 100)
    store = CountingStore(LocalStore())
    words = ["--inventory", inventory, "--yes", "--json"]
    found = result(icectl(littered.directory, *words, store=store))
    assert store.counts["list"] == 0
    assert orphans(littered, found) == STRAYS
    assert found["removed"] == 1
    assert (found["left_alone"]["gone"], found["left_alone"]["changed"]) == (1, 1)
    assert rewritten.exists()


def test_an_inventory_of_other_sizes_is_refused_where_looking_up_is_listing(
    icectl, littered, tmp_path, monkeypatch
):
    inventory = write_inventory(tmp_path / "files.csv", littered.directory)
    inventory.write_text(re.sub(r"parquet,[0-9]+,", "parquet,7,", inventory.read_text()))
    monkeypatch.setattr("icectl.table.live_file_check._MOST_UNLIKE", 1)
    before = littered.content()
    ended = icectl(littered.directory, "--inventory", inventory, "--yes", "--json")
    assert error(ended) == (5, "unlike-listing")
    assert littered.content() == before


def test_an_inventory_of_elsewhere_is_wrong_usage(icectl, littered, tmp_path):
    other = filled_table(tmp_path / "t2", range(3))
    inventory = write_inventory(tmp_path / "files.csv", other.directory)
    ended = icectl(littered.directory, "--inventory", inventory, "--yes", "--json")
    assert error(ended) == (2, "usage")


def named_by_a_catalog(directory: Path) -> str:
    """Give the metadata files the names that a catalog gives them; the newest one's name."""
    names = {
        path: path.with_name(f"{int(path.name[1:].split('.')[0]):05}-{OTHER_UUID}.metadata.json")
        for path in (directory / "metadata").glob("v*.metadata.json")
    }
    log = read_metadata(current_metadata(directory))["metadata-log"]
    for entry in log:
        entry["metadata-file"] = str(names[Path(entry["metadata-file"])])
    edit_metadata(directory, metadata_log=log)
    newest = names[current_metadata(directory)].name
    for path, renamed in names.items():
        path.rename(renamed)
    (directory / "metadata/version-hint.text").unlink()
    return newest


def test_a_table_of_a_catalog_is_cleaned_by_the_callers_word(icectl, littered):
    newest = named_by_a_catalog(littered.directory)
    ended = icectl(littered.directory, "--yes", "--json")
    assert (ended.code, ended.document["status"]) == (5, "refused")
    former = f"{int(newest[:5]) - 1:05}{newest[5:]}"
    ended = icectl(littered.directory, "--metadata-file", former, "--yes", "--json")
    assert (ended.code, ended.document["status"]) == (5, "refused")
    found = result(icectl(littered.directory, "--metadata-file", newest, "--yes", "--json"))
    assert orphans(littered, found) == STRAYS
    assert found["removed"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--older-than", "1"),
        ("--older-than", "2099-01-01T00:00:00Z"),
        ("--max-fraction", "2"),
        ("--prefix-mismatch", "delete"),
        ("--engine", "flink"),
        ("--master", "local[2]"),
        ("--spark-conf", "spark.driver.memory=2g"),
        ("--engine", "spark", "--spark-conf", "spark.driver.memory"),
        ("--engine", "spark", "--inventory", "listed.csv"),
        ("--equal-scheme", "s3a"),
        ("--equal-authority", "=b"),
    ],
)
def test_wrong_usage_ends_with_2(icectl, littered, words):
    assert error(icectl(littered.directory, *words, "--yes", "--json")) == (2, "usage")


def test_without_pyspark_the_engine_ends_with_16(icectl, littered, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    before = littered.content()
    ended = icectl(littered.directory, "--engine", "spark", "--yes", "--json")
    assert error(ended) == (16, "engine")
    assert ended.document["error"]["message"] == "PySpark is not installed"
    assert "`pip install 'icectl[spark]'`" in ended.document["error"]["hint"]
    assert littered.content() == before


def test_time_runs_out_before_the_listing_is_whole(icectl, littered):
    before = littered.content()
    assert error(icectl(littered.directory, "--time-limit", "0s", "--yes", "--json")) == (
        3, "time-limit",
    )  # fmt: skip
    assert littered.content() == before


def test_links_to_files_and_what_they_lead_to_stay(icectl, littered):
    """A data file was replaced by a link to another name of it."""
    path = next(
        path
        for path in (littered.directory / "data").rglob("*.parquet")
        if path.name != "lost.parquet"
    )
    real = path.rename(littered.directory / "data" / "under-another-name.parquet")
    path.symlink_to(real)
    stray(littered.directory, "data/link-target")
    (littered.directory / "data/stray-link").symlink_to(littered.directory / "data/link-target")
    found = result(icectl(littered.directory, "--yes", "--json"))
    assert orphans(littered, found) == STRAYS
    assert found["left_alone"]["without_time"] == 1
    littered.check_readable()


def test_a_folder_that_is_a_link_is_known_under_both_names(icectl, littered):
    """Entries name a folder that is a link to the one where their files are listed."""
    data, moved = littered.directory / "data", littered.directory / "moved"
    data.rename(moved)
    data.symlink_to(moved, target_is_directory=True)
    found = result(icectl(littered.directory, "--yes", "--json"))
    assert orphans(littered, found) == {
        "moved/lost.parquet", "moved/category=c0/lost.parquet", "metadata/lost-m0.avro",
    }  # fmt: skip
    littered.check_readable()
