"""`icectl expire-snapshots` from the command line: policies, plans, questions, ends."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from icectl.cli import app, session
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.expiry import NOW_MS, Aged, Clock, aged_table, expire, reachable
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import upgrade
from tests.cli.conftest import Ended, checked_document
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEYS = [
    "expired", "kept", "refs_removed", "schemas_removed", "specs_removed", "deleted",
    "deleted_bytes", "manifest_count", "read_manifest_count", "files", "outside", "failed",
]  # fmt: skip

Expire = Callable[..., Ended]


@pytest.fixture
def icectl(capsys: pytest.CaptureFixture[str]) -> Expire:
    """Run `icectl expire-snapshots`, a day after the builder's tables begin."""

    def run(*arguments: object, env: FixedEnv | None = None) -> Ended:
        code = app.main(["expire-snapshots", *map(str, arguments)], env=env or Clock(NOW_MS))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture
def daily(tmp_path: Path) -> TableBuilder:
    """Eight appends, one a day; the last is seven days after the first."""
    table = TableBuilder(tmp_path / "daily", commit_interval_ms=DAY_MS)
    for commit in range(8):
        table.append([commit])
    return table


def later(days: float) -> Clock:
    """A clock so long after the builder's tables begin."""
    return Clock(START_MS + round(days * DAY_MS))


def result(ended: Ended) -> dict[str, Any]:
    """The result in a document that keeps to its schema."""
    found: dict[str, Any] = checked_document(ended)["result"]
    assert list(found) == KEYS
    return found


def gone(found: dict[str, Any]) -> list[int]:
    """Which commits of the table, counted from 0, are expired, by their row in `daily`."""
    return sorted(int(item["snapshot_id"]) for item in found["expired"])


def numbered(table: TableBuilder, found: dict[str, Any]) -> list[int]:
    order = sorted(table.ids_of)
    return [order.index(id_) for id_ in gone(found)]


def error_id(ended: Ended) -> str:
    assert ended.document["exit"] == ended.code
    found: str = ended.document["error"]["id"]
    return found


def edit_metadata(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = current_metadata(directory)
    members = read_metadata(path)
    change(members)
    path.write_text(json.dumps(members))


# -- policies -----------------------------------------------------------------------------------


def test_without_options_the_table_decides(icectl, daily):
    assert numbered(daily, result(icectl(daily.location, "--json", "-n", env=later(8)))) == [0, 1]
    daily.set_properties({"history.expire.max-snapshot-age-ms": str(4 * DAY_MS),
                          "history.expire.min-snapshots-to-keep": "5"})  # fmt: skip
    assert numbered(daily, result(icectl(daily.location, "--json", "-n", env=later(9)))) == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("options", "expired"),
    [
        (["--older-than", "2d"], [0, 1, 2, 3, 4]),
        (["--older-than", "2025-06-19"], [0, 1, 2]),
        (["--older-than", "2025-06-19T15:06:41Z"], [0, 1, 2, 3]),
        (["--older-than", "0s", "--retain-last", "3"], [0, 1, 2, 3, 4]),
        (["--retain-last", "7"], [0]),
        (["--older-than", "0s", "--keep-daily", "2"], [0, 1, 2, 3, 4, 5]),
        (["--older-than", "0s", "--keep-weekly", "1"], [0, 1, 2, 3, 4, 5, 6]),
        (["--older-than", "0s", "--keep-weekly", "2"], [0, 1, 2, 3, 4, 5]),
        (["--older-than", "0s", "--keep-monthly", "2"], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_options_replace_what_the_table_says(icectl, daily, options, expired):
    """The commits are of 16 to 23 June 2025, at 15:06:40; the first and the last are Mondays."""
    ended = icectl(daily.location, "--json", "-n", *options, env=later(8))
    assert numbered(daily, result(ended)) == expired


@pytest.mark.parametrize(
    ("hours", "options", "count", "until"),
    [
        (0.5, ["--older-than", "2d"], None, None),
        (0.5, ["--older-than", "1m"], 1, "2025-06-23T15:06:40Z"),  # as the last commit replaced it
        (1.1, ["--older-than", "1m"], None, None),
        (0.5, ["--older-than", "1m", "--keep-files"], None, None),
    ],
)
def test_queries_that_an_expiry_ends_are_told(icectl, daily, hours, options, count, until):
    ended = icectl(daily.location, "--json", "-n", *options, env=later(8 + hours / 24))
    warnings = [text for text in ended.document["warnings"] if "queries" in text]
    expected = (
        f"{count} snapshot to expire were current within the last 1h, the newest until {until}: "
        "queries that still read them will fail"
    )
    assert warnings == ([] if count is None else [expected])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--older-than", "3d"], 0),
        (["--older-than", "2d"], 5),
        (["--older-than", "2d", "--min-age", "2d"], 0),
        (["--older-than", "2d", "--check"], 5),
    ],
)
def test_snapshots_under_the_least_age_of_the_settings_are_refused(
    icectl, daily, tmp_path, options, code
):
    """It is an hour after the last commit, of 23 June: that of 21 June is 2 d 1 h old."""
    settings = tmp_path / "icectl.toml"
    settings.write_text('[expire-snapshots]\nmin-age = "3d"\n')
    before = current_metadata(Path(daily.location)).read_bytes()
    mode = [] if "--check" in options else ["-n"]
    ended = icectl(daily.location, "--json", "--config", settings, *mode, *options,
                   env=later(8 + 1 / 24))  # fmt: skip
    assert ended.code == code
    assert current_metadata(Path(daily.location)).read_bytes() == before
    if code:
        assert error_id(ended) == "min-age"
        assert ended.document["error"]["message"] == (
            "1 snapshot younger than 3d (`min-age`) would expire, the newest of "
            "2025-06-21T15:06:40Z"
        )


def test_named_snapshots_go_alone(icectl, daily):
    ids = sorted(daily.ids_of)
    ended = icectl(daily.location, "--json", "-y", "--snapshot-id", ids[5], "--snapshot-id", ids[2],
                   env=later(300))  # fmt: skip
    assert numbered(daily, result(ended)) == [2, 5]
    assert [item["reason"] for item in ended.document["result"]["expired"]] == ["named", "named"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--older-than", "2099-01-01"], "is in the future"),
        (["--older-than", "7"], "is not a valid time"),
        (["--retain-last", "0"], "not a whole number above 0"),
        (["--snapshot-id", "x"], "`x` is not a snapshot id"),
        (["--snapshot-id", "5", "--older-than", "7d"], "cannot be used with a policy"),
        (["--snapshot-id", "5", "--retain-last", "2"], "cannot be used with a policy"),
        (["--snapshot-id", "5"], "snapshot 5 is not in the table"),
    ],
)
def test_wrong_usage_ends_with_2(icectl, daily, options, message):
    ended = icectl(daily.location, "-y", *options, env=later(8))
    assert ended.code == 2
    assert message in ended.err


def test_r028_the_head_of_a_ref_cannot_be_named(icectl, daily):
    head = daily.metadata.current_snapshot_id
    ended = icectl(daily.location, "-y", "--json", "--snapshot-id", head, env=later(8))
    assert (ended.code, error_id(ended)) == (5, "snapshot-referenced")


def test_the_settings_file_may_not_keep_less_than_the_table_says(icectl, daily, tmp_path):
    config = tmp_path / "own.toml"
    config.write_text('[expire-snapshots]\nolder-than = "0s"\nretain-last = 1\n')
    arguments = [daily.location, "--json", "-n", "--config", config]
    assert numbered(daily, result(icectl(*arguments, env=later(8)))) == [0, 1, 2, 3, 4, 5, 6]
    daily.set_properties({"history.expire.max-snapshot-age-ms": str(4 * DAY_MS)})
    assert numbered(daily, result(icectl(*arguments, env=later(9)))) == [0, 1, 2, 3]
    daily.set_properties({"history.expire.min-snapshots-to-keep": "6"})
    assert numbered(daily, result(icectl(*arguments, env=later(10)))) == [0, 1]


# -- plans --------------------------------------------------------------------------------------


def test_a_dry_run_prints_every_snapshot_and_file_and_changes_nothing(icectl, aged):
    before = aged.content()
    ended = icectl(aged.table.location, "--older-than", "0s", "-n")
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split() for line in ended.out.splitlines()]
    ids = [str(id_) for id_ in sorted(aged.table.ids_of)]
    assert [line[0] for line in lines[1:8]] == ids
    assert [line[2] for line in lines[1:8]].count("expire") == 5
    files = {line[-1]: int(line[0].replace(",", "")) for line in lines[10:-3]}
    assert files
    for name, size in files.items():
        assert (aged.directory / name).stat().st_size == size
    assert ended.out.splitlines()[-1].startswith(
        f"5 snapshots would expire, 2 stay; {len(files)} files (3 data and delete files) would be"
    )
    assert aged.content() == before


def test_a_run_does_what_the_plan_says(icectl, aged, tmp_path):
    planned = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    before = aged.content()
    listed = tmp_path / "deleted.txt"
    ended = icectl(
        aged.table.location, "--older-than", "0s", "-y", "--json", "--deleted-list", listed
    )
    assert (ended.code, ended.document["status"], ended.document["dry_run"]) == (0, "done", False)
    assert result(ended) == planned
    missing = set(before) - aged.files()
    assert {item["path"] for item in planned["files"]} == {
        f"{aged.directory}/{name}" for name in missing
    }
    assert sum(planned["deleted"].values()) == len(missing)
    assert planned["deleted_bytes"] == sum(len(before[name]) for name in missing)
    assert listed.read_text().split() == [item["path"] for item in planned["files"]]
    assert ended.document["table"]["metadata_location_after"] == str(
        current_metadata(aged.directory)
    )
    aged.check_readable()


def test_deleted_files_are_counted_by_kind(icectl, aged):
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert found["deleted"] == {
        "data_files": 3,
        "position_delete_files": 0,
        "equality_delete_files": 0,
        "deletion_vector_files": 0,
        "manifests": 5,
        "manifest_lists": 5,
        "root_manifests": 0,
        "statistics_files": 0,
        "partition_statistics_files": 0,
        "metadata_files": 0,
    }


def test_every_snapshot_is_expired_or_kept_with_a_reason(icectl, aged):
    found = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    named = {item["snapshot_id"] for item in found["expired"] + found["kept"]}
    assert named == {str(id_) for id_ in aged.table.ids_of}
    assert [item["reason"] for item in found["kept"]] == ["head of tag v1", "head of branch main"]
    assert found["expired"][0]["timestamp"] == "2025-06-15T15:07:40Z"


def test_nothing_to_do_needs_no_answer(icectl, aged):
    ended = icectl(aged.table.location)
    assert (ended.code, ended.out) == (0, "nothing to do: every snapshot stays\n")


@pytest.mark.parametrize("tag", [False, True])
def test_a_table_without_a_current_snapshot_has_nothing_to_do(icectl, tmp_path, tag):
    table = TableBuilder(tmp_path / "t")
    if tag:
        table.append([1])
        table.ref("v1", "tag")

        def forget_main(members: dict[str, Any]) -> None:
            del members["refs"]["main"]
            members["current-snapshot-id"] = -1

        edit_metadata(tmp_path / "t", forget_main)
    assert icectl(table.location, "--older-than", "0s", "-y").code == 0


def test_r026_kept_snapshots_that_leave_the_log_are_warned_of(icectl, daily):
    ids = sorted(daily.ids_of)
    arguments = [daily.location, "-n", "--json", "--snapshot-id", ids[2]]
    (warning,) = icectl(*arguments, env=later(8)).document["warnings"]
    assert warning.startswith("2 kept snapshots will no longer be found by time travel (R-026)")
    daily.ref("v1", "tag", snapshot_id=ids[0])
    (warning,) = icectl(*arguments, env=later(9)).document["warnings"]
    assert warning.startswith("1 kept snapshot will no longer be found by time travel (R-026)")
    daily.ref("v2", "tag", snapshot_id=ids[1])
    assert icectl(*arguments, env=later(10)).document["warnings"] == []


# -- questions ----------------------------------------------------------------------------------


# -- refusals -----------------------------------------------------------------------------------


def test_r193_tables_that_share_files_are_refused(icectl, aged):
    aged.table.set_properties({"gc.enabled": "false"})
    for option in ("-y", "-n", "--check", "--metadata-only"):
        ended = icectl(aged.table.location, "--json", option)
        assert (ended.code, error_id(ended)) == (5, "gc-disabled")
        assert ended.document["status"] == "refused"


def test_a_clock_behind_the_table_is_refused(icectl, aged):
    updated_ms = aged.table.metadata.last_updated_ms
    ended = icectl(aged.table.location, "-y", "--json", env=Clock(updated_ms - 60_001))
    assert (ended.code, error_id(ended)) == (5, "clock-behind")
    assert icectl(aged.table.location, "-y", env=Clock(updated_ms - 60_000)).code == 0


@pytest.mark.parametrize("words", [("compact", "--engine=local"), ("rewrite-manifests",)])
def test_r017_other_commands_commit_by_a_clock_behind_the_table(aged, words):
    """They delete no file by its age; the new snapshot is no older than the last."""
    before = read_metadata(current_metadata(aged.directory))
    command, *options = words
    line = [command, aged.table.location, *options, "--rewrite-all", "--yes", "--quiet"]
    assert app.main(line, env=Clock(before["last-updated-ms"] - 3_600_000)) == 0
    after = read_metadata(current_metadata(aged.directory))
    assert after["snapshots"][-1]["timestamp-ms"] >= before["snapshots"][-1]["timestamp-ms"]
    assert after["last-updated-ms"] >= before["last-updated-ms"]


def test_r017_the_time_of_the_table_never_goes_back(icectl, aged):
    updated_ms = aged.table.metadata.last_updated_ms
    first = min(aged.table.ids_of)
    ended = icectl(aged.table.location, "-y", "--snapshot-id", first, env=Clock(updated_ms - 5_000))
    assert ended.code == 0
    assert read_metadata(current_metadata(aged.directory))["last-updated-ms"] == updated_ms


def catalog_owned(aged: Aged) -> Path:
    """Name the metadata files as catalogs do; returns the current one."""
    folder = aged.directory / "metadata"
    (folder / "version-hint.text").unlink()
    for path in folder.glob("v*.metadata.json"):
        number = int(path.name[1:].split(".")[0])
        uuid = f"00000000-0000-4000-8000-{number:012}"
        path.rename(folder / f"{number:05}-{uuid}.metadata.json")
    return max(folder.glob("*.metadata.json"))


def test_a_table_of_a_catalog_is_refused(icectl, aged):
    catalog_owned(aged)
    for option in ("-y", "-n", "--check"):
        ended = icectl(aged.table.location, "--older-than", "0s", option)
        assert ended.code == 5
        assert "--metadata-file FILE" in ended.err


def test_with_the_metadata_file_named_the_next_is_written_and_no_file_deleted(icectl, aged):
    current = catalog_owned(aged)
    before = aged.files()
    ended = icectl(
        aged.table.location, "--older-than", "0s", "-y", "--json", "--metadata-file", current
    )
    assert ended.code == 0
    found = result(ended)
    assert (len(found["expired"]), sum(found["deleted"].values()), found["files"]) == (5, 0, [])
    (added,) = aged.files() - before
    assert ended.document["table"]["metadata_location_after"] == f"{aged.directory}/{added}"
    assert before < aged.files()
    assert len(read_metadata(aged.directory / added)["snapshots"]) == 2
    again = icectl(aged.table.location, "-y", "--older-than", "0s", "--metadata-file", current)
    assert again.code == 5


def test_the_new_metadata_file_is_named_to_the_user(icectl, aged):
    current = catalog_owned(aged)
    out = icectl(aged.table.location, "--older-than", "0s", "-y", "--metadata-file", current).out
    assert f"new metadata file: {max(current.parent.glob('*.metadata.json'))}\n" in out


def test_path_maps_are_for_plans_only(icectl, aged):
    mapping = f"/elsewhere={aged.directory}"
    assert icectl(aged.table.location, "-y", "--path-map", mapping).code == 2
    assert icectl(aged.table.location, "--check", "--path-map", mapping).code == 0


# -- what is deleted ----------------------------------------------------------------------------


def test_files_stay_on_request_and_are_no_work_later(icectl, aged):
    before = aged.files()
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json", "--metadata-only")
    assert (ended.code, ended.document["status"]) == (0, "done")
    assert sum(result(ended)["deleted"].values()) == 0
    assert before < aged.files()
    assert not any("icectl" in name for name in aged.files())
    assert icectl(aged.table.location, "--older-than", "0s", "--check").code == 0


def test_r024_metadata_files_that_leave_the_log_go_where_the_table_says_so(icectl, tmp_path):
    aged = aged_table(
        tmp_path,
        properties={
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "3",
        },
    )
    log = [entry.metadata_file for entry in aged.table.metadata.metadata_log]
    planned = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    assert planned["deleted"]["metadata_files"] == 1
    assert planned["files"][-1]["path"] == log[0]
    assert result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json")) == planned
    assert [Path(file).exists() for file in log] == [False, True, True]


def with_statistics(aged: Aged, *entries: tuple[int, Path]) -> None:
    def add(members: dict[str, Any]) -> None:
        members["statistics"] = [
            {
                "snapshot-id": snapshot_id,
                "statistics-path": str(path),
                "file-size-in-bytes": 4,
                "file-footer-size-in-bytes": 4,
                "blob-metadata": [{"snapshot-id": snapshot_id}],
            }
            for snapshot_id, path in entries
        ]

    for _, path in entries:
        path.write_bytes(b"PFA1")
    edit_metadata(aged.directory, add)


def test_r141_statistics_of_expired_and_of_lost_snapshots_go(icectl, aged):
    first, *_, head = sorted(aged.table.ids_of)
    folder = aged.directory / "metadata"
    shared, own, lost, kept = (
        folder / f"{name}.puffin" for name in ("shared", "own", "lost", "kept")
    )
    with_statistics(aged, (first, own), (first, shared), (head, shared), (head, kept), (99, lost))
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert found["deleted"]["statistics_files"] == 2
    assert [path.exists() for path in (shared, own, lost, kept)] == [True, False, False, True]
    members = read_metadata(current_metadata(aged.directory))
    assert {entry["snapshot-id"] for entry in members["statistics"]} == {head}


def test_files_outside_the_table_are_listed_and_left_alone(icectl, aged, tmp_path):
    first = min(aged.table.ids_of)
    outside = tmp_path / "elsewhere.puffin"
    climbing = aged.directory / "metadata" / ".." / ".." / "climbing.puffin"
    with_statistics(aged, (first, outside), (first, climbing))
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert {item["path"] for item in found["outside"]} == {str(outside), str(climbing)}
    assert (outside.exists(), climbing.exists()) == (True, True)
    assert found["deleted"]["statistics_files"] == 0


def test_any_spelling_that_matches_keeps_a_file(icectl, aged):
    """Statistics that stay name data files of the expired snapshots in other spellings."""
    head = max(aged.table.ids_of)
    plan = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    one, two, three = (item["path"] for item in plan["files"] if item["kind"] == "data_files")
    spelled = [
        f"file://{one}",
        f"s3a://bucket{two.replace('=', '%253D')}",
        three.replace("/data/", "//./data/x/../"),
    ]

    def name(members: dict[str, Any]) -> None:
        members["statistics"] = [
            {"snapshot-id": head, "statistics-path": path, "file-size-in-bytes": 1,
             "file-footer-size-in-bytes": 1, "blob-metadata": []}
            for path in spelled
        ]  # fmt: skip

    edit_metadata(aged.directory, name)
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert found["deleted"]["data_files"] == 0
    assert [Path(path).exists() for path in (one, two, three)] == [True, True, True]


def test_a_file_that_stays_under_another_name_of_its_folder_is_kept(icectl, aged, tmp_path):
    """Statistics that stay name data files of the expired snapshots by way of links."""
    head = max(aged.table.ids_of)
    (tmp_path / "link").symlink_to(aged.directory, target_is_directory=True)
    (aged.directory / "again").symlink_to(aged.directory / "data", target_is_directory=True)
    plan = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    one, two, three = (item["path"] for item in plan["files"] if item["kind"] == "data_files")
    named = [
        one.replace(str(aged.directory), str(tmp_path / "link")),
        two.replace("/data/", "/again/"),
    ]

    def name(members: dict[str, Any]) -> None:
        members["partition-statistics"] = [
            {"snapshot-id": head, "statistics-path": path, "file-size-in-bytes": 1}
            for path in named
        ]

    edit_metadata(aged.directory, name)
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert found["deleted"]["data_files"] == 1
    assert [Path(path).exists() for path in (one, two, three)] == [True, True, False]


def test_what_cannot_be_deleted_ends_with_3_and_is_finished_later(icectl, aged):
    plan = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    stuck = Path(plan["files"][0]["path"])
    stuck.unlink()
    (stuck / "in-the-way").mkdir(parents=True)
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json")
    assert (ended.code, ended.document["status"]) == (3, "incomplete")
    found = result(ended)
    assert [item["path"] for item in found["failed"]] == [str(stuck)]
    assert len(found["files"]) == len(plan["files"]) - 1
    aged.check_readable()
    (journal,) = (name for name in aged.files() if "icectl-expire-snapshots-" in name)
    recorded = json.loads((aged.directory / journal).read_text())["files"]
    assert [place for place, _, _ in recorded] == [str(stuck)]

    (stuck / "in-the-way").rmdir()
    stuck.rmdir()
    stuck.write_bytes(b"x" * plan["files"][0]["size_bytes"])
    assert icectl(aged.table.location, "--check").code == 4
    ended = icectl(aged.table.location, "-y", "--json")
    assert (ended.code, ended.document["status"]) == (0, "done")
    assert [item["path"] for item in result(ended)["files"]] == [str(stuck)]
    assert not stuck.exists()
    assert not (aged.directory / journal).exists()
    assert icectl(aged.table.location, "--check").code == 0


def test_lost_files_of_expired_snapshots_are_warned_of(icectl, aged):
    first = min(aged.table.ids_of)
    Path(aged.table.metadata.snapshots_by_id[first].manifest_list or "").unlink()
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json")
    assert ended.code == 0
    (warning,) = ended.document["warnings"]
    assert warning.startswith(f"snapshot {first} expires, but its files stay: ")
    aged.check_readable()


def test_refs_past_their_age_are_removed(icectl, aged):
    aged.table.ref("old", "tag", snapshot_id=min(aged.table.ids_of), max_ref_age_ms=HOUR_MS)
    found = result(icectl(aged.table.location, "--older-than", "0s", "-y", "--json"))
    assert found["refs_removed"] == [
        {"name": "old", "snapshot_id": str(min(aged.table.ids_of)), "reason": "older than 1h"}
    ]
    assert set(read_metadata(current_metadata(aged.directory))["refs"]) == {"main", "v1"}


def test_unused_schemas_and_specs_go_on_request(icectl, aged):
    def add(members: dict[str, Any]) -> None:
        members["schemas"].append(members["schemas"][0] | {"schema-id": 1})
        members["partition-specs"].append({"spec-id": 1, "fields": []})

    edit_metadata(aged.directory, add)
    found = result(icectl(aged.table.location, "--older-than", "0s", "-n", "--json"))
    assert (found["schemas_removed"], found["specs_removed"]) == ([], [])
    found = result(icectl(aged.table.location, "-y", "--json", "--clean-expired-metadata"))
    assert (found["expired"], found["schemas_removed"], found["specs_removed"]) == ([], [1], [1])
    members = read_metadata(current_metadata(aged.directory))
    assert [item["schema-id"] for item in members["schemas"]] == [0]
    assert [item["spec-id"] for item in members["partition-specs"]] == [0]


# -- other writers and limits -------------------------------------------------------------------


class Overtaken(WrappedStore):
    """Another run expires the table right before this one's first write."""

    def __init__(self, location: str) -> None:
        super().__init__(LocalStore())
        self.location: str | None = location

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method == "create" and self.location:
            overtaken, self.location = self.location, None
            expire(overtaken)
        return action()


def use_store(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(session, "open_store", lambda *_: store)


def test_another_run_that_was_faster_ends_with_11(icectl, aged, monkeypatch):
    use_store(monkeypatch, Overtaken(aged.table.location))
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json")
    assert (ended.code, error_id(ended)) == (11, "commit-conflict")
    aged.check_readable()
    assert not any("icectl" in name for name in aged.files())


def test_another_run_that_was_faster_is_no_failure_on_request(icectl, aged, monkeypatch):
    use_store(monkeypatch, Overtaken(aged.table.location))
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json", "--skip-if-busy")
    assert (ended.code, ended.document["status"]) == (0, "nothing-to-do")
    found = result(ended)
    assert (found["expired"], len(found["kept"]), sum(found["deleted"].values())) == ([], 7, 0)


def test_a_time_limit_that_is_over_ends_with_3_before_anything_changes(icectl, aged):
    class Late(Clock):
        def monotonic_seconds(self) -> float:
            self.reads = getattr(self, "reads", 0) + 1
            return 0.0 if self.reads == 1 else 100.0

    before = aged.content()
    ended = icectl(aged.table.location, "--older-than", "0s", "-y", "--json", "--time-limit", "1s",
                   env=Late(NOW_MS))  # fmt: skip
    assert (ended.code, error_id(ended)) == (3, "time-limit")
    assert aged.content() == before


def test_a_list_that_cannot_be_written_ends_the_run_before_it_changes_anything(icectl, aged):
    before = aged.content()
    ended = icectl(
        aged.table.location, "--older-than", "0s", "-y", "--deleted-list", "/no/dir/list"
    )
    assert ended.code == 13
    assert aged.content() == before


def test_a_run_says_what_it_did(icectl, aged):
    snapshots = read_metadata(current_metadata(aged.directory))["snapshots"]
    lists = [Path(snapshot["manifest-list"]) for snapshot in snapshots]
    rows = [row for path in lists for row in fastavro.reader(io.BytesIO(path.read_bytes()))]
    manifests = len({row["manifest_path"] for row in rows})
    planned = icectl(aged.table.location, "--older-than", "0s", "-n")
    assert f"\nread {manifests} of {manifests} manifests\n" in planned.out
    ended = icectl(aged.table.location, "--older-than", "0s", "-y")
    assert (ended.code, ended.err) == (0, "")
    told = (
        r"5 snapshots expired, 2 kept; 13 files \(3 data and delete files\) deleted, 3\d\.\d KiB\n"
    )
    assert re.fullmatch(told, ended.out)


@pytest.mark.parametrize("layout", ["lists", "sfc-1"])
def test_r191_a_file_that_was_live_twice_stays_while_one_copy_is_live(tmp_path, icectl, layout):
    table = TableBuilder(tmp_path / "t")
    table.append(range(4))
    (twice,) = table.live()
    inherited = dict.fromkeys(("snapshot_id", "sequence_number", "file_sequence_number"))
    second = table._commit("main", "append", range(4), added=[twice | inherited])
    of_copy, _ = table._manifests_of[second]
    table._manifests_of[second] = [of_copy]  # the next snapshot lists the copy alone
    table.append(range(4, 8))
    table.append(range(8, 12))
    table.remove_data_files(1)
    (removed,) = set((tmp_path / "t/data").iterdir()) - {
        Path(row["location"]) for row in table.live()
    }
    if layout == "sfc-1":
        upgrade(tmp_path / "t", later(1))
    ended = icectl(tmp_path / "t", "--older-than", "0s", "--retain-last", "1", "-y", env=later(2))
    assert ended.code == 0, ended.err
    assert not removed.exists()
    assert Path(twice["location"]).exists()
    assert all((tmp_path / "t" / name).exists() for name in reachable(tmp_path / "t"))
