"""What one wrong field can do: each command that would make it last, or delete by it, refuses."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from icectl.cli import app
from icectl.files.puffin import NewBlob, write_puffin
from tests.builders.broken import ADDED, DELETED, Broken, Record, read_records, rewrite_avro
from tests.builders.broken_tree import (
    BITMAP,
    DATA,
    DATA_LEAF,
    DELETE_LEAF,
    TREE_TABLES,
    VECTOR,
    BrokenTree,
    of,
)
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.orphans import age
from tests.builders.rows import current_metadata, ids_of, local, read_metadata
from tests.builders.table_builder import filled_table, worn_table

ORPHANS = ("remove-orphans", "--older-than", "2d", "--max-fraction", "1")
QUARANTINE = (*ORPHANS, "--quarantine", "QUARANTINE")
EXPIRE = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1")
EXPIRE_ALL = (*EXPIRE, "--clean-expired-metadata")
"""Also reads manifests that stay where no data file goes."""
REWRITE = ("compact", "--method=rewrite", "--rewrite-all")
MERGE = ("compact", "--min-input-files", "2")
DELETES = ("compact", "--deletes-only")
EXPIRE_ROWS = ("expire-rows", "--where", "id < 3", "--yes-any-filter", "--max-fraction", "1")
MANIFESTS = ("rewrite-manifests", "--target-size", "1KiB")
UPGRADE = ("upgrade-to-v4", "--layout=sfc-1", "--eager")
UPGRADE_3 = ("upgrade-to-v3", "--convert-position-deletes")
RELOCATE = ("relocate", "--to", "QUARANTINE")
COMPACT = (REWRITE, MERGE, DELETES)
pytestmark = pytest.mark.by_turns(2)


@pytest.fixture(params=[2, 3], scope="module")
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def built(version: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(f"v{version}")
    table = worn_table(folder / "t", version)
    age(table.directory, 30)
    shutil.copytree(table.directory, folder / "pristine")
    return folder


@pytest.fixture
def broken(built: Path) -> Iterator[Broken]:
    shutil.rmtree(built / "t")
    shutil.rmtree(built / "away", ignore_errors=True)
    shutil.copytree(built / "pristine", built / "t")
    return Broken(built / "t")


def run(broken: Broken, words: tuple[str, ...]) -> int:
    away = str(broken.directory.parent / "away")
    command, *options = (away if word == "QUARANTINE" else word for word in words)
    line = [command, str(broken.directory), *options, "--yes", "--quiet"]
    return app.main(line, env=Clock(NOW_MS + 10**9))


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def refused(
    broken: Broken, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code of a command that changed nothing, and the rule that it names."""
    before = contents(broken.directory.parent)
    code = run(broken, words)
    assert contents(broken.directory.parent) == before
    told = capsys.readouterr().err
    assert "hint: " in told
    return code, told.partition("\n")[0].rpartition("(")[2].rstrip(")")


def in_entries(
    broken: Broken, change: Callable[[dict[str, Any]], None], *, content: int, count: int = 100
) -> None:
    """Change the files of live entries of the head, `count` of them; lengths of lists are right."""
    for row in broken.manifests(content):
        path = Path(row["manifest_path"])

        def edit(entries: list[Record]) -> None:
            nonlocal count
            for entry in entries:
                if entry["status"] != 2 and count:
                    change(entry["data_file"])
                    count -= 1

        rewrite_avro(path, edit)
        refit(broken, path)


def refit(broken: Broken, manifest: Path) -> None:
    """Let manifest lists say how long a manifest is."""
    size = manifest.stat().st_size

    def change(row: Record) -> None:
        if row["manifest_path"] == str(manifest):
            row["manifest_length"] = size

    broken.edit_lists(change)


def renamed(location: str) -> str:
    folder, _, name = location.rpartition("/")
    return f"{folder}/x{name}"


@pytest.mark.parametrize("words", [*COMPACT, ORPHANS, EXPIRE, MANIFESTS, UPGRADE_3])
def test_a_true_table_is_maintained(broken, words):
    rows = ids_of(broken.directory)
    assert run(broken, words) == 0
    assert ids_of(broken.directory) == rows


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, UPGRADE_3])
def test_r053_a_partition_that_the_list_excludes_moves_no_row(broken, version, capsys, words):
    """Equality deletes would apply to other rows, and a new file hold those of two partitions."""
    if (version, words) == (3, UPGRADE_3):
        pytest.skip("it has version 3")
    in_entries(broken, lambda file: file["partition"].update(category="c3"), content=0, count=1)
    assert refused(broken, words, capsys) == (5 if words == UPGRADE_3 else 15, "R-053")


@pytest.mark.parametrize("words", [REWRITE, MERGE, DELETES, ("compact", "--min-input-files", "99")])
@pytest.mark.parametrize("count", [1, 100])
def test_deletes_that_name_no_live_file_are_not_left_over_by_their_entry_alone(
    broken, version, capsys, words, count
):
    def change(file: dict[str, Any]) -> None:
        file["referenced_data_file"] = renamed(file["referenced_data_file"])

    if version == 2:  # what names no file in its entry is read
        return
    in_entries(broken, change, content=1, count=count)
    assert refused(broken, words, capsys) == (15, "R-118")


@pytest.mark.parametrize("words", [*COMPACT, ("compact", "--min-input-files", "99")])
def test_deletes_whose_data_file_has_another_name_in_its_entry_are_not_left_over(
    broken, version, capsys, words
):
    deletes = {entry["data_file"]["referenced_data_file"] for entry in broken.entries(1)}
    named = deletes if version == 3 else {"category=c1", "category=c2"}

    def change(file: dict[str, Any]) -> None:
        if any(str(name) in file["file_path"] for name in named):
            file["file_path"] = renamed(file["file_path"])

    in_entries(broken, change, content=0)
    assert refused(broken, words, capsys)[0] in (13, 15)  # the engine may miss the file before


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize("count", [1, 100])
def test_r034_nothing_is_an_orphan_while_live_files_are_missing(
    broken, capsys, words, content, count
):
    in_entries(
        broken,
        lambda file: file.update(file_path=renamed(file["file_path"])),
        content=content,
        count=count,
    )
    assert refused(broken, words, capsys) == (15, "R-034")


def test_r034_nothing_is_an_orphan_while_vectors_and_their_target_have_other_names(
    broken, version, capsys
):
    if version == 2:
        return

    def change(file: dict[str, Any]) -> None:
        file["file_path"] = renamed(file["file_path"])
        file["referenced_data_file"] = renamed(file["referenced_data_file"])

    in_entries(broken, change, content=1)
    assert refused(broken, REWRITE, capsys)[0] == 15
    assert refused(broken, ORPHANS, capsys) == (15, "R-034")


@pytest.mark.parametrize("words", [*COMPACT, ORPHANS, EXPIRE, UPGRADE, UPGRADE_3, RELOCATE])
def test_r066_an_entry_with_the_path_of_another_live_file_is_refused(
    broken, version, capsys, words
):
    if (version, words) == (3, UPGRADE_3):
        pytest.skip("it has version 3")
    other = broken.entries()[-1]["data_file"]["file_path"]
    in_entries(broken, lambda file: file.update(file_path=other), content=0, count=1)
    code, rule = refused(broken, words, capsys)
    assert (code, rule) == {UPGRADE: (5, "U-13"), UPGRADE_3: (5, "R-066")}.get(words, (15, "R-066"))


@pytest.mark.parametrize("words", [ORPHANS, RELOCATE])
def test_r063_an_entry_with_the_path_of_a_file_of_an_older_snapshot_is_refused(
    broken, capsys, words
):
    other = min(
        entry["data_file"]["file_path"]
        for path in (broken.directory / "metadata").glob("*-m*.avro")
        for entry in read_records(path)
        if entry["status"] == DELETED and not entry["data_file"]["content"]
    )
    in_entries(broken, lambda file: file.update(file_path=other), content=0, count=1)
    assert refused(broken, words, capsys) == (15, "R-063")
    hint = ("validate", str(broken.directory), "--all-snapshots", "--level", "footers", "--json")
    assert app.main(list(hint), env=Clock(NOW_MS)) == 4
    found = json.loads(capsys.readouterr().out)["result"]["findings"]
    assert other in [one["subject"] for one in found if one["severity"] == "error"]


@pytest.mark.parametrize("words", [ORPHANS, RELOCATE])
def test_r063_an_entry_of_data_with_the_path_of_deletes_is_refused(broken, capsys, words):
    other = broken.entries(1)[0]["data_file"]["file_path"]
    in_entries(broken, lambda file: file.update(file_path=other), content=0, count=1)
    code, rule = refused(broken, words, capsys)
    assert (code, rule) in ((15, "R-063"), (15, "R-066"))


def test_r066_a_table_of_version_1_with_a_file_twice_is_not_migrated(tmp_path, capsys):
    table = filled_table(tmp_path / "t", range(4), files=2, format_version=1)
    table.append(range(4, 8), files=2)
    broken = Broken(table.directory)
    other = broken.entries()[-1]["data_file"]["file_path"]
    in_entries(broken, lambda file: file.update(file_path=other), content=0, count=1)
    assert refused(broken, ("migrate-v1-v2",), capsys) == (5, "R-066")


@pytest.mark.parametrize("words", [UPGRADE_3, RELOCATE])
def test_r031_a_head_whose_list_has_lost_a_row_gets_no_other_version_or_place(
    broken, version, capsys, words
):
    if (version, words) == (3, UPGRADE_3):
        pytest.skip("it has version 3")
    lost = broken.manifests()[0]["manifest_path"]
    broken.edit_head_list(lambda rows: [row for row in rows if row["manifest_path"] != lost])
    assert refused(broken, words, capsys) == (5, "R-031")


def in_numbers(broken: Broken, content: int, change: Callable[[Record, Record], None]) -> None:
    """Change a live entry of the last manifest of a content, given its row in the list."""
    row = broken.manifests(content)[-1]
    path = Path(row["manifest_path"])

    def edit(entries: list[Record]) -> None:
        change(next(entry for entry in entries if entry["status"] != 2), row)

    rewrite_avro(path, edit)
    refit(broken, path)


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS])
@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize(("is_below", "rule"), [(True, "R-047"), (False, "R-044")])
def test_r044_r047_sequence_numbers_beside_those_of_the_list_are_refused(
    broken, capsys, words, content, is_below, rule
):
    def change(entry: Record, row: Record) -> None:
        below, above = row["min_sequence_number"] - 1, row["sequence_number"] + 3
        entry.update(sequence_number=below if is_below else above)

    in_numbers(broken, content, change)
    code, told = refused(broken, words, capsys)
    assert (code, told) == (15, rule)


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, ORPHANS, EXPIRE])
@pytest.mark.parametrize("content", [0, 1])
def test_r051_a_live_entry_that_is_called_deleted_is_refused(broken, capsys, words, content):
    in_numbers(broken, content, lambda entry, _: entry.update(status=2, sequence_number=1))
    assert refused(broken, words, capsys)[0] == 15


@pytest.mark.parametrize("words", [ORPHANS, (*EXPIRE[:-1], "6")])
def test_r051_lists_that_describe_one_manifest_differently_are_refused(broken, capsys, words):
    """The row of the older list is true: only it would be compared with the manifest."""
    rows = [read_records(path) for path in broken.lists()]
    row = max(rows[-1], key=lambda one: one["existing_files_count"])
    lie = next(one for one in rows[2] if one["content"] == row["content"])["manifest_path"]
    assert lie not in {one["manifest_path"] for one in rows[-1]}

    def change(listed: list[Record]) -> None:
        next(one for one in listed if one == row)["manifest_path"] = lie

    broken.edit_head_list(change)
    assert refused(broken, words, capsys) == (15, "R-051")


@pytest.mark.parametrize("words", [ORPHANS, (*EXPIRE[:-1], "6")])
@pytest.mark.parametrize("name", ["manifest_length", "deleted_rows_count"])
def test_one_mistake_in_how_lists_describe_a_manifest_is_none_of_another_manifest(
    broken, words, name
):
    """Lists of snapshots that Spark's rewrite_table_path copied later say old lengths."""

    def change(listed: list[Record]) -> None:
        for row in listed:
            row[name] += 60

    for path in broken.lists()[3:]:
        rewrite_avro(path, change)
    assert run(broken, words) == 0


def test_r051_a_list_that_describes_a_manifest_differently_may_expire(broken, capsys):
    """As the hint says, which names its snapshot."""

    def change(listed: list[Record]) -> None:
        for row in listed:
            row["min_sequence_number"] = 0

    rewrite_avro(broken.lists()[3], change)
    assert run(broken, ORPHANS) == 15
    ids = [str(one["snapshot-id"]) for one in broken.members()["snapshots"]]
    error = capsys.readouterr().err
    (named,) = re.findall("`icectl (expire-snapshots .*?)`", error)
    assert named.split() == ["expire-snapshots", str(broken.directory), "--snapshot-id", ids[3]]
    assert f"that of snapshot {ids[3]} 0\n" in error.replace(" (R-051)", "")
    hinted = ("expire-snapshots", "--snapshot-id", ids[3])
    assert [run(broken, words) for words in (hinted, ORPHANS)] == [0, 0]


@pytest.mark.parametrize("words", [ORPHANS, EXPIRE, QUARANTINE])
@pytest.mark.parametrize("content", [0, 1])
def test_r031_nothing_is_deleted_while_a_list_has_lost_a_row(broken, capsys, words, content):
    lost = broken.manifests(content)[0]["manifest_path"]
    broken.edit_head_list(lambda rows: [row for row in rows if row["manifest_path"] != lost])
    assert refused(broken, words, capsys) == (5, "R-031")
    for scope in ((), ("--all-snapshots",)):
        findings = app.main(["validate", str(broken.directory), *scope, "--rule", "R-031"])
        assert (findings, capsys.readouterr().out.count("error R-031")) == (4, 1)
    assert run(broken, (*words, "--distrust-summaries")) == 0


def test_r031_no_copy_is_made_of_lists_that_lost_a_row(broken, capsys):
    """Of older snapshots, too: what they do not list is not copied, and gone with the original."""
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
    rewrite_avro(broken.lists()[2], lambda rows: rows.pop() and None)
    assert refused(broken, words, capsys) == (5, "R-031")
    assert run(broken, (*words, "--distrust-summaries")) == 0


@pytest.mark.parametrize("words", COMPACT)
def test_r031_an_append_whose_list_has_fewer_files_than_its_parent_is_no_base(
    broken, capsys, words
):
    lost = broken.manifests()[0]["manifest_path"]
    broken.edit_head_list(lambda rows: [row for row in rows if row["manifest_path"] != lost])
    assert refused(broken, words, capsys) == (15, "R-031")


@pytest.mark.parametrize("words", COMPACT)
@pytest.mark.parametrize("content", [0, 1])
def test_r063_a_size_that_no_file_has_is_refused(broken, capsys, words, content):
    in_entries(
        broken, lambda file: file.update(file_size_in_bytes=10**15), content=content, count=1
    )
    assert refused(broken, words, capsys) == (15, "R-063")


@pytest.mark.parametrize("words", [REWRITE, DELETES, ("rewrite-manifests", "--rewrite-all")])
def test_deletes_that_are_called_equality_deletes_are_refused(broken, version, capsys, words):
    in_entries(broken, lambda file: file.update(content=2), content=1, count=1)
    rule = "R-123" if version == 2 else "R-063"  # vectors lie in Puffin files
    assert refused(broken, words, capsys) == (15, rule)


def test_r063_work_for_spark_is_measured_by_the_store(broken, capsys):
    in_entries(broken, lambda file: file.update(file_size_in_bytes=2**31), content=0, count=1)
    assert refused(broken, REWRITE, capsys) == (15, "R-063")


def test_totals_that_are_wrong_in_every_snapshot_prove_nothing(broken, version):
    """As those of writers are: each snapshot counts one file too many, but changes add up."""

    def change(members: dict[str, Any]) -> None:
        for one in members["snapshots"]:
            one["summary"]["total-data-files"] = str(int(one["summary"]["total-data-files"]) + 1)

    broken.edit(change)
    age(broken.directory, 30)
    assert run(broken, ORPHANS) == 0
    assert run(broken, EXPIRE) == 0
    assert run(broken, ORPHANS) == 5  # of one snapshot nothing else tells
    assert run(broken, (*ORPHANS, "--distrust-summaries")) == 0


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, EXPIRE, ORPHANS])
@pytest.mark.parametrize("lie", [{"id": 0}, {"type": "double"}, None])
def test_r097_a_schema_that_its_copies_in_manifests_contradict_is_refused(
    broken, capsys, words, lie
):
    """A column that is lost or has another id has no values, and would lose them for good."""
    lie_of_note(broken, lie)
    assert refused(broken, words, capsys) == (15, "R-097")


def lie_of_note(broken: Broken, lie: dict[str, Any] | None) -> None:
    """Change what the schema says of a column; with None it lacks the column."""

    def change(members: dict[str, Any]) -> None:
        columns = members["schemas"][0]["fields"]
        (column,) = (one for one in columns if one["name"] == "note")
        columns.remove(column) if lie is None else column.update(lie)

    broken.edit(change)
    age(broken.directory, 30)


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
def test_r140_statistics_of_another_name_are_no_orphans(broken, capsys, words):
    """The name of no file, and of a file of another size."""
    assert run(broken, ("analyze",)) == 0
    age(broken.directory, 30)
    (entry,) = broken.members()["statistics"]
    for lie in (renamed(entry["statistics-path"]), str(broken.lists()[0])):
        broken.edit(
            lambda members, name=lie: members["statistics"][0].update({"statistics-path": name})
        )
        age(broken.directory, 30)
        assert refused(broken, words, capsys) == (15, "R-140")
    assert Path(entry["statistics-path"]).exists()


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
def test_r140_statistics_under_the_name_of_others_are_no_orphans(broken, capsys, words, at):
    """Two entries name one file, and give it two sizes."""
    assert run(broken, ("analyze",)) == 0
    (entry,) = broken.members()["statistics"]
    other = broken.directory / "metadata" / "other.stats"
    other.write_bytes(b"x" * (entry["file-size-in-bytes"] + 7))
    old = broken.members()["snapshots"][0]["snapshot-id"]
    size = {"file-size-in-bytes": other.stat().st_size, "blob-metadata": []}
    entries = [entry, {**entry, "snapshot-id": old, "statistics-path": str(other), **size}]
    true = [Path(one["statistics-path"]) for one in entries]
    entries[at] = {**entries[at], "statistics-path": entries[1 - at]["statistics-path"]}
    broken.edit(lambda members: members.update(statistics=entries))
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, "R-140")
    assert all(path.exists() for path in true)


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
def test_r140_statistics_that_are_gone_stop_nothing_but_what_may_be_them(broken, capsys, words):
    """As large as their entry says is a file at once, in the quarantine, and not at all."""
    assert run(broken, ("analyze",)) == 0
    age(broken.directory, 30)
    (entry,) = broken.members()["statistics"]
    Path(entry["statistics-path"]).unlink()
    size = entry["file-size-in-bytes"]
    stray, other = (broken.directory / "data" / name for name in ("stray", "other"))
    stray.write_bytes(b"x" * size)
    other.write_bytes(b"x" * (size + 1))
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, "R-140")
    stray.unlink()
    assert run(broken, words) == 0
    assert not other.exists()
    assert "R-140" in capsys.readouterr().err
    assert app.main(["validate", str(broken.directory), "--level", "files"]) == 0
    assert "statistics file is missing" in capsys.readouterr().out
    assert run(broken, ("repair",)) == 0
    capsys.readouterr()
    assert run(broken, words) == 0
    assert "R-140" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["statistics", "partition-statistics"])
@pytest.mark.parametrize("words", [EXPIRE, (*EXPIRE, "--metadata-only")])
def test_r141_a_wrong_snapshot_costs_no_statistics(broken, capsys, words, kind):
    """Those of the head, as Spark writes them, under the id of each snapshot that expires."""
    head, *others = reversed([one["snapshot-id"] for one in broken.members()["snapshots"]])
    name = f"partition-stats-{head}-0f.parquet" if kind == "partition-statistics" else "0f.stats"
    path = broken.directory / "metadata" / name
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": head, "sequence-number": 7,
            "fields": [1]}  # fmt: skip
    path.write_bytes(content := write_puffin([NewBlob(blob["type"], (1,), head, 7, b"")], {}))
    entry = {"statistics-path": str(path), "file-size-in-bytes": len(content)}
    if kind == "statistics":
        entry |= {"file-footer-size-in-bytes": len(content) - 4, "blob-metadata": [blob]}
    for lie in others:
        broken.edit(lambda members, id_=lie: members.update({kind: [entry | {"snapshot-id": id_}]}))
        age(broken.directory, 30)
        assert refused(broken, words, capsys) == (15, "R-141")
    broken.edit(lambda members: members.update({kind: [entry | {"snapshot-id": head ^ 1}]}))
    age(broken.directory, 30)
    assert run(broken, words) == 0
    assert path.exists()
    assert broken.members()[kind] == [entry | {"snapshot-id": head ^ 1}]
    broken.edit(lambda members: members.update({kind: [entry | {"snapshot-id": others[0]}]}))
    assert run(broken, ("repair",)) == 0
    assert kind not in broken.members() or not broken.members()[kind]


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
def test_r026_the_list_of_a_snapshot_that_only_the_log_names_is_no_orphan(broken, capsys, words):
    """One entry of `snapshots` is lost; after an expiry, which cuts the log, nothing is refused."""
    lost = broken.members()["snapshots"][1]["snapshot-id"]

    def lose(members: dict[str, Any]) -> None:
        members["snapshots"] = [one for one in members["snapshots"] if one["snapshot-id"] != lost]

    broken.edit(lose)
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, "R-026")

    age(broken.directory, 30)
    assert run(broken, ("expire-snapshots", "--older-than", "0s", "--retain-last", "2")) == 0
    assert run(broken, words) == 0


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
@pytest.mark.parametrize("lie", ["manifest", "list", "metadata"])
def test_r063_an_entry_that_names_a_metadata_file_makes_no_orphan(broken, capsys, words, lie):
    """The file that it means would go, since nothing else names it."""
    places = {"manifest": broken.manifests()[0]["manifest_path"], "list": str(broken.lists()[0]),
              "metadata": str(current_metadata(broken.directory))}  # fmt: skip
    in_entries(broken, lambda file: file.update(file_path=places[lie]), content=0, count=1)
    assert refused(broken, words, capsys) == (15, "R-063")


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
@pytest.mark.parametrize("lie", ["manifest", "metadata", "statistics"])
@pytest.mark.parametrize("spelled", ["/metadata//", "/x/../metadata/", "/%6Detadata/"])
def test_r063_deletes_that_name_a_file_without_rows_in_another_spelling_are_refused(
    tmp_path, capsys, words, lie, spelled
):
    """Position deletes may have another size than entries say, so that only their names tell."""
    table = filled_table(tmp_path / "t", range(9))
    table.delete_rows([1, 2, 3])
    table.append([9])
    broken = Broken(table.directory)
    analyze = ["analyze", str(table.directory), "--yes", "--quiet"]
    assert app.main(analyze, env=Clock(NOW_MS)) == 0
    statistics = broken.members()["statistics"][0]["statistics-path"]
    named = {"manifest": broken.manifests(1)[0]["manifest_path"], "statistics": statistics,
             "metadata": str(current_metadata(broken.directory))}[lie]  # fmt: skip
    other = named.replace("/metadata/", spelled)
    in_entries(broken, lambda file: file.update(file_path=other), content=1, count=1)
    code, rule = refused(broken, words, capsys)
    assert (code, rule) in ((15, "R-063"), (15, "R-140"), (15, "R-034"))


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
def test_r063_an_entry_that_names_an_orphan_of_another_size_makes_no_orphan(broken, capsys, words):
    """The file that it means would go: it is as large as the entry says."""

    def change(file):
        stray = Path(file["file_path"]).with_name("stray.parquet")
        stray.write_bytes(Path(file["file_path"]).read_bytes() + b"x")
        file.update(file_path=str(stray))

    in_entries(broken, change, content=0, count=1)
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, "R-063")


@pytest.mark.parametrize("words", [MERGE, MANIFESTS, EXPIRE_ROWS])
@pytest.mark.parametrize(
    "lie", ["manifest", "older manifest", "older list", "metadata", "current", "with a scheme"]
)
def test_r063_no_commit_keeps_an_entry_that_names_a_metadata_file(broken, capsys, words, lie):
    """A manifest that is written again would lose the name of the file for good."""
    older = {row["manifest_path"] for path in broken.lists() for row in read_records(path)}
    log = read_metadata(current_metadata(broken.directory))["metadata-log"]
    places = {
        "manifest": broken.manifests()[0]["manifest_path"],
        "older manifest": min(older - {row["manifest_path"] for row in broken.manifests()}),
        "older list": str(broken.lists()[-1]),
        "current": str(current_metadata(broken.directory)),
        "metadata": log[0]["metadata-file"],
        "with a scheme": f"file://{local(str(broken.lists()[-1]))}",
    }
    in_entries(broken, lambda file: file.update(file_path=places[lie]), content=0, count=1)
    assert refused(broken, words, capsys) == (15, "R-063")


@pytest.mark.parametrize("lie", ["PASQUET", "manifest", "list"])
def test_r063_a_copy_takes_over_no_wrong_format_and_no_other_kind_of_file(broken, capsys, lie):
    """What the entry means would be left behind, or be read by no engine."""
    places = {"manifest": broken.manifests()[0]["manifest_path"], "list": str(broken.lists()[0])}
    changed = {"file_path": places[lie]} if lie in places else {"file_format": lie}
    in_entries(broken, lambda file: file.update(changed), content=0, count=1)
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
    assert refused(broken, words, capsys) == (15, "R-063")


def test_r034_a_list_of_files_to_copy_has_no_file_that_is_missing(broken, capsys):
    """The copy would name a file that no tool could copy."""
    in_entries(
        broken, lambda file: file.update(file_path=file["file_path"] + "x"), content=0, count=1
    )
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
    assert refused(broken, words, capsys) == (15, "R-034")


def test_r063_a_list_of_files_to_copy_has_no_file_of_another_size(broken, capsys):
    """It may be another file than the entry means."""
    in_entries(
        broken, lambda file: file.update(file_size_in_bytes=file["file_size_in_bytes"] + 1),
        content=0, count=1,
    )  # fmt: skip
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
    assert refused(broken, words, capsys) == (15, "R-063")


def test_r044_a_copy_takes_over_no_number_that_no_commit_gives(broken, capsys):
    """Deletes would apply to other rows."""
    in_numbers(
        broken, 0, lambda entry, row: entry.update(sequence_number=row["sequence_number"] + 3)
    )
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
    assert refused(broken, words, capsys) == (15, "R-044")


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, (*RELOCATE, "--new-uuid")])
def test_r071_a_partition_that_bounds_of_its_own_entry_exclude_moves_no_row(broken, capsys, words):
    """Deletes of the true partition would miss its rows."""

    def change(file: dict[str, Any]) -> None:
        if file["partition"]["category"] == "c1":
            file["partition"]["category"] = "c0"

    in_entries(broken, change, content=0, count=100)
    files = str(broken.directory.parent / "files.csv")
    more = ("--copy-list", files) if words[0] == "relocate" else ()
    assert refused(broken, (*words, *more), capsys) == (15, "R-071")


def test_r118_a_copy_takes_over_no_vector_with_another_place(broken, version, capsys):
    if version == 3:
        in_entries(broken, lambda file: file.update(content_offset=3), content=1, count=1)
        words = (*RELOCATE, "--new-uuid", "--copy-list", str(broken.directory.parent / "files.csv"))
        assert refused(broken, words, capsys) == (15, "R-118")


LIES: dict[str, Callable[[Broken], Path]] = {
    "a hint": lambda broken: broken.directory / "metadata/version-hint.text",
    "a file of a writer at work": lambda broken: broken.directory / "data/written.parquet",
    "a data file": lambda broken: local(broken.entries()[0]["data_file"]["file_path"]),
    "a manifest": lambda broken: local(broken.manifests()[0]["manifest_path"]),
    "the current metadata": lambda broken: max(broken.directory.glob("metadata/*.json")),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(
    ("kind", "stays"),
    [("statistics", True), ("statistics", False), ("partition-statistics", False)],
)
def test_r140_a_wrong_path_of_statistics_costs_no_file(broken, capsys, lie, kind, stays):
    """Neither the named file nor the true one, whether the entry stays or goes."""
    old, *_, head = [one["snapshot-id"] for one in broken.members()["snapshots"]]
    true, named = broken.directory / "metadata/true.stats", LIES[lie](broken)
    for path in (true, named):
        if not path.exists():
            path.write_bytes(b"x" * len(path.name) ** 2)
    entry = {"snapshot-id": head if stays else old, "statistics-path": str(named)}
    entry |= {"file-size-in-bytes": true.stat().st_size}
    if kind == "statistics":
        entry |= {"file-footer-size-in-bytes": 4, "blob-metadata": []}
    broken.edit(lambda members: members.update({kind: [entry]}))
    age(broken.directory, 30)
    before = contents(broken.directory.parent)
    assert refused(broken, ORPHANS, capsys) == (15, "R-140")
    assert run(broken, EXPIRE) == 0
    assert true.exists()
    assert named.exists()
    is_own_and_unreached = lie in ("a hint", "a file of a writer at work")
    warning = f"{named} is kept: an entry names it as statistics" in capsys.readouterr().err
    assert warning == (is_own_and_unreached and not stays)
    assert len(before) > len(contents(broken.directory.parent))


@pytest.mark.parametrize("between", ["/", "//"])
@pytest.mark.parametrize(
    "lie",
    ["older manifest", "metadata", "statistics", "older deletes", "orphaned deletes", "orphan"],
)
def test_r063_no_deletes_expire_that_an_entry_with_another_name_means(
    tmp_path, capsys, lie, between
):
    """Tools that move tables rewrite deletes: another size alone is no sign of a wrong name."""
    table = filled_table(tmp_path / "t", range(20), partitioning="none")
    for ids in ([1, 2, 3, 4], [5]):
        table.delete_rows(ids)
    broken = Broken(table.directory)
    places = {
        "older manifest": broken.manifests(1)[0]["manifest_path"],
        "older deletes": broken.entries(1)[0]["data_file"]["file_path"],
    }
    steps = (DELETES, ("analyze",), ("rewrite-manifests", "--rewrite-all"))
    for at, (command, *options) in enumerate(steps):
        line = [command, str(table.directory), *options, "--yes", "--quiet"]
        assert app.main(line, env=Clock(NOW_MS + at)) == 0
    places["metadata"] = str(current_metadata(table.directory))
    places["statistics"] = broken.members()["statistics"][0]["statistics-path"]
    assert places["older deletes"] not in [
        entry["data_file"]["file_path"] for entry in broken.entries(1)
    ]
    older = local(places["older deletes"]).read_bytes()
    for name, content in (("orphaned deletes", older), ("orphan", b"x")):
        path = table.directory / "data" / name
        path.write_bytes(content)
        places[name] = str(path)
    other = between.join(places[lie].rsplit("/", 1))
    in_entries(broken, lambda file: file.update(file_path=other), content=1, count=1)
    assert refused(broken, EXPIRE, capsys) == (15, "R-063")


@pytest.mark.parametrize("is_same", [False, True])
def test_r063_deletes_by_the_name_of_an_orphan_make_no_orphan(tmp_path, capsys, is_same):
    """Tools that move tables rewrite deletes: those have other bytes, and as many rows."""
    table = filled_table(tmp_path / "t", range(20), partitioning="none")
    table.delete_rows([1, 2, 3, 4])
    broken = Broken(table.directory)
    true = local(broken.entries(1)[0]["data_file"]["file_path"])
    other = true.with_name("other.parquet")
    rows = pq.read_table(true)
    pq.write_table(rows if is_same else rows.slice(1), other, compression="none")
    in_entries(broken, lambda file: file.update(file_path=str(other)), content=1)
    age(table.directory, 30)
    if is_same:
        assert run(broken, ORPHANS) == 0
    else:
        assert refused(broken, ORPHANS, capsys) == (15, "R-063")
    assert true.exists() != is_same


def test_r140_statistics_by_the_name_of_a_data_file_stop_changes_until_they_are_repaired(
    broken, capsys
):
    assert run(broken, ("analyze",)) == 0
    data = broken.entries()[0]["data_file"]["file_path"]
    broken.edit(lambda members: members["statistics"][0].update({"statistics-path": data}))
    age(broken.directory, 30)
    for words in (MERGE, MANIFESTS, EXPIRE_ROWS, ORPHANS):
        assert refused(broken, words, capsys) == (15, "R-140")
    rows = ids_of(broken.directory)
    assert [run(broken, words) for words in (("repair",), MERGE)] == [0, 0]
    assert ids_of(broken.directory) == rows


# -- layout sfc-1 ---------------------------------------------------------------------------------

TREES = ("grown", "leaves")
"""Files in the root and dead rows in leaves; and everything in leaves, vectors by data leaf."""


@pytest.fixture(params=TREES, scope="module")
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    TREE_TABLES[request.param](folder / "t")
    age(folder / "t", 30)
    shutil.copytree(folder / "t", folder / "pristine")
    return folder


@pytest.fixture
def tree(grown: Path) -> BrokenTree:
    shutil.rmtree(grown / "t")
    shutil.copytree(grown / "pristine", grown / "t")
    return BrokenTree(grown / "t")


def in_files(tree: BrokenTree, content: int, change: Callable[[Record], None]) -> None:
    """Change the last live file of a content that the root lists itself, else that of a leaf."""

    def last(rows: list[Record]) -> None:
        change(next(row for row in reversed(rows) if is_file(row, content)))

    if any(is_file(row, content) for row in tree.rows()):
        tree.edit_root(last)
    else:
        tree.edit_leaf(last, DATA_LEAF if content == DATA else DELETE_LEAF, keep=True)


def is_file(row: Record, content: int) -> bool:
    return bool(row["content_type"] == content and row["tracking_info"]["status"] != DELETED)


@pytest.mark.parametrize("words", [*COMPACT, ORPHANS, EXPIRE, MANIFESTS])
def test_a_true_tree_is_maintained(tree, words):
    rows = ids_of(tree.directory)
    assert run(tree, words) == 0
    assert ids_of(tree.directory) == rows


@pytest.mark.parametrize("words", [*COMPACT, EXPIRE_ALL])
def test_v4_122_vectors_of_a_tree_that_name_no_live_file_are_refused(tree, capsys, words):
    in_files(tree, VECTOR, lambda row: row.update(referenced_file=renamed(row["referenced_file"])))
    code, rule = refused(tree, words, capsys)
    assert (code, rule) in {(15, "V4-122"), (15, "V4-114")}  # this one in a leaf of a data leaf


@pytest.mark.parametrize("words", [*COMPACT, EXPIRE_ALL])
def test_v4_122_vectors_of_a_tree_whose_data_file_has_another_name_are_refused(tree, capsys, words):
    leaf = of(tree.rows(), DELETE_LEAF)
    named = {row["referenced_file"] for row in pq.read_table(local(leaf["location"])).to_pylist()}

    def change(rows: list[Record]) -> None:
        for row in rows:
            if row["location"] in named:
                row["location"] = renamed(row["location"])

    tree.edit_leaf(change, path=local(leaf["referenced_file"]))
    code, rule = refused(tree, words, capsys)
    assert (code, rule) in {(15, "V4-122"), (15, "V4-114")}


@pytest.mark.parametrize(("place", "rule"), [({}, "V4-053"), ({"offset": 5}, "R-118")])
def test_v4_053_a_copy_takes_over_no_vector_without_its_place(tree, capsys, place, rule):
    """The rows that it deletes would be back, or no engine could read the copy."""

    def change(row: dict[str, Any]) -> None:
        row["deletion_vector"] = {**row["deletion_vector"], **place} if place else {}

    in_files(tree, VECTOR, change)
    words = (*RELOCATE, "--new-uuid", "--copy-list", str(tree.directory.parent / "files.csv"))
    assert refused(tree, words, capsys) == (15, rule)


@pytest.mark.parametrize("words", [ORPHANS, QUARANTINE])
@pytest.mark.parametrize("content", [DATA, VECTOR])
def test_r034_nothing_is_an_orphan_while_live_files_of_a_tree_are_missing(
    tree, capsys, words, content
):
    in_files(tree, content, lambda row: row.update(location=renamed(row["location"])))
    assert refused(tree, words, capsys) == (15, "R-034")


@pytest.mark.parametrize("words", [*COMPACT, ORPHANS, EXPIRE_ALL, MANIFESTS])
def test_v4_120_a_file_that_is_live_in_a_leaf_again_is_refused(tree, capsys, words):
    """The last data file, of the root or of a leaf, gets the path of the first one of a leaf."""
    leaves = [row for row in tree.rows() if row["content_type"] == DATA_LEAF]
    other = pq.read_table(local(leaves[-1]["location"])).to_pylist()[-1]["location"]
    in_files(tree, DATA, lambda row: row.update(location=other))
    code, rule = refused(tree, words, capsys)
    assert (code, rule) == (15, "V4-120")


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS])
@pytest.mark.parametrize(("number", "rule"), [(0, "V4-104"), (99, "V4-064")])
def test_sequence_numbers_in_a_leaf_beside_those_of_the_root_are_refused(
    tree, capsys, words, number, rule
):
    def change(rows: list[Record]) -> None:
        rows[-1]["tracking_info"].update(sequence_number=number, file_sequence_number=number)

    tree.edit_leaf(change, keep=True)
    assert refused(tree, words, capsys) in {(15, rule), (15, "V4-104")}


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, ORPHANS, EXPIRE_ALL])
@pytest.mark.parametrize("content", [DATA_LEAF, DELETE_LEAF])
def test_v4_103_a_live_row_of_a_leaf_that_is_called_deleted_is_refused(
    tree, capsys, words, content
):
    def change(rows: list[Record]) -> None:
        row = next(one for one in rows if one["tracking_info"]["status"] != DELETED)
        row["tracking_info"].update(status=DELETED, sequence_number=1, file_sequence_number=1)

    tree.edit_leaf(change, content, keep=True)
    assert refused(tree, words, capsys) == (15, "V4-103")


def lose(tree: BrokenTree, kind: str) -> None:
    """The root loses a leaf that nothing else names, a vector, or the bitmap over a leaf."""
    kinds = {row["content_type"] for row in tree.rows()}
    wanted = {"delete leaf": DELETE_LEAF, "file": VECTOR, "bitmap": BITMAP}[kind]
    content = wanted if wanted in kinds else DATA_LEAF

    def change(rows: list[Record]) -> None:
        lost = of(rows, content)
        rows[:] = [
            row
            for row in rows
            if row != lost and (content != BITMAP or row["content_type"] != BITMAP)
        ]

    tree.edit_root(change)


@pytest.mark.parametrize("words", [ORPHANS, EXPIRE, QUARANTINE])
@pytest.mark.parametrize("kind", ["delete leaf", "file", "bitmap"])
def test_r031_nothing_is_deleted_while_a_root_has_lost_a_row(tree, capsys, words, kind):
    lose(tree, kind)
    assert refused(tree, words, capsys) == (5, "R-031")
    findings = app.main(["validate", str(tree.directory), "--all-snapshots", "--rule", "R-031"])
    assert (findings, "R-031" in capsys.readouterr().out) == (4, True)
    assert run(tree, (*words, "--distrust-summaries")) == 0


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS])
@pytest.mark.parametrize("kind", ["delete leaf", "file", "bitmap"])
def test_r031_a_root_with_fewer_files_than_its_parent_and_its_changes_is_no_base(
    tree, capsys, words, kind
):
    lose(tree, kind)
    assert refused(tree, words, capsys) == (15, "R-031")


@pytest.mark.parametrize("words", COMPACT)
@pytest.mark.parametrize("content", [DATA, VECTOR])
def test_v4_057_a_size_of_a_tree_that_no_file_has_is_refused(tree, capsys, words, content):
    in_files(tree, content, lambda row: row.update(file_size_in_bytes=10**15))
    assert refused(tree, words, capsys) == (15, "V4-057")


def test_snapshots_of_a_leaf_without_and_with_dead_rows_may_stay(tree):
    words = ("expire-snapshots", "--older-than", "0s", "--retain-last", "4")
    rows = ids_of(tree.directory)
    assert run(tree, words) == 0
    assert ids_of(tree.directory) == rows


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, EXPIRE, ORPHANS, RELOCATE])
@pytest.mark.parametrize("lie", [{"id": 0}, None])
def test_v4_140_a_column_that_only_the_statistics_of_a_root_have_is_refused(
    tree, capsys, words, lie
):
    lie_of_note(tree, lie)
    assert refused(tree, words, capsys) == (15, "V4-140")


def test_a_file_that_is_dead_in_a_leaf_may_live_in_the_root(tmp_path):
    """Its row in the leaf is named by a bitmap: it lives once."""
    TREE_TABLES["grown"](tmp_path / "t")
    tree = BrokenTree(tmp_path / "t")
    age(tree.directory, 30)
    vector = of(tree.rows(), BITMAP, ADDED)
    dead = BitMap.deserialize(vector["deletion_vector"]["inline_content"])
    rows = pq.read_table(local(vector["referenced_file"])).to_pylist()
    same = {
        name: rows[dead[0]][name]
        for name in ("location", "record_count", "file_size_in_bytes", "content_stats")
    }
    in_files(tree, DATA, lambda row: row.update(same))
    assert run(tree, ORPHANS) == 0


@pytest.mark.parametrize("words", [ORPHANS, EXPIRE, *COMPACT, ("properties", "set", "a=b")])
@pytest.mark.parametrize(
    ("member", "key", "rule"),
    [("snapshots", "snapshot-id", "R-033"), ("schemas", "schema-id", "R-184")],
)
def test_ids_that_two_have_are_refused(broken, capsys, words, member, key, rule):
    def change(members: dict[str, Any]) -> None:
        first, *_ = members[member]
        members[member].insert(0, {**first, key: members[member][-1][key]})

    broken.edit(change)
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, rule)


@pytest.mark.parametrize("words", [*COMPACT, MANIFESTS, EXPIRE, ORPHANS])
def test_r061_a_spec_that_its_copies_in_manifests_contradict_is_refused(broken, capsys, words):
    """Rows would have the partition of another column."""

    def change(members: dict[str, Any]) -> None:
        members["partition-specs"][0]["fields"][0]["source-id"] = 1

    broken.edit(change)
    age(broken.directory, 30)
    assert refused(broken, words, capsys) == (15, "R-061")
