"""`icectl erase`: marked rows are in no byte of the table any more, and all others are there."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icectl.cli import engines
from icectl.cli.session import Session
from icectl.commands.erase import keys as erase_keys
from icectl.commands.erase import run as erase_run
from icectl.commands.erase.run import _Erasing as Erasing
from icectl.commands.matching import MatchSearch
from icectl.commands.remove_orphans import deletion
from icectl.commands.rows.deletion import RowDeletion
from icectl.env import Env
from icectl.errors import CommitUnknown, EngineError, StorageError
from icectl.files.parquet.schema import arrow_schema
from icectl.format.manifest import Content, FileFormat
from icectl.format.partition import PartitionField
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType, StructType
from icectl.format.updates import SetPartitionStatistics
from icectl.rows import choice as engine_choice
from icectl.rows.choice import EngineChoice
from icectl.rows.find_job import sorted_in
from icectl.storage.store import FailedRemoval
from icectl.table.context import TableContext
from tests.builders.byte_scanner import hits_below, hits_in
from tests.builders.data_files import stored
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.inline_engine import InlineEngine
from tests.builders.orphans import age
from tests.builders.rows import current_metadata, rows_without_lineage
from tests.builders.spread_table import SpreadTable
from tests.builders.table_builder import (
    PARTITIONINGS,
    POSITION_DELETE_SCHEMA,
    SCHEMA,
    START_MS,
    TableBuilder,
    _parquet,
    make_rows,
)
from tests.builders.tree_table import upgrade
from tests.cli.conftest import HOUR_MS, Run, result, result_of
from tests.stores.fixed_env import FixedEnv

MARKED = 4712
MARK = f"note {MARKED}".encode()
WHERE = ("--where", f"note = 'note {MARKED}'")
ALL = (*WHERE, "--max-fraction", "1", "--expire-history", "--yes", "--json")


@pytest.fixture
def erase(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `icectl erase` in this process."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    return prepared("erase", FixedEnv(NOW_MS, uuids=20_000, snapshot_ids=20_000))


@pytest.fixture
def by_note(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a partitioning by whole notes."""
    note = PartitionField((5,), 1000, "note", parse_transform("identity"))
    monkeypatch.setitem(PARTITIONINGS, "note", (note,))
    return "note"


def ids(directory: Path, snapshot_id: int | None = None) -> list[int]:
    """The ids of the live rows, read without icectl."""
    return sorted(row["id"] for row in rows_without_lineage(directory, snapshot_id))


def clean(run: Run, directory: Path) -> None:
    found = result_of(run(directory, "--level", "data", "--json", command="validate"))
    assert found["counts"]["error"] == 0, found["findings"]


def built(directory: Path, version: int, partitioning: str = "none") -> TableBuilder:
    """A table with the marked row in a file with others, which the builder knows."""
    table = TableBuilder(directory, format_version=min(version, 3), partitioning=partitioning)
    table.append([*range(10), MARKED])
    table.append(range(10, 20))
    return table


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("partitioning", ["none", "identity", "truncate"])
def test_no_byte_of_the_row_is_left(erase, tmp_path, version, partitioning):
    directory = tmp_path / "t"
    built(directory, version, partitioning)
    if version == 4:
        upgrade(directory, FixedEnv(START_MS + HOUR_MS))
    assert hits_below(directory, [MARK])
    done = result_of(erase(directory, *ALL))
    assert ids(directory) == list(range(20))
    assert hits_below(directory, [MARK]) == []
    assert (done["erased_row_count"], done["left"], done["is_proved"]) == (1, [], True)
    clean(erase, directory)
    assert result(erase(directory, *WHERE, "--verify", "--json"))["is_proved"] is True
    assert erase(directory, *ALL).document["status"] == "nothing-to-do"


class OtherFormat(TableBuilder):
    """A table whose data files are ORC or Avro, without bounds."""

    form = "orc"

    def _write_data_file(self, values: tuple[Any, ...], rows: list[dict[str, Any]]) -> Any:
        location, path = self._new_path(self._folder(values), f".{self.form}")
        self._row_of_id[location] = [row["id"] for row in rows]
        # The other columns are optional, and the Avro writer of the tests lacks their types.
        columns = [it for it in arrow_schema(SCHEMA) if it.name not in ("amount", "at")]
        content = stored(pa.Table.from_pylist(rows, pa.schema(columns)), self.form)
        path.write_bytes(content)
        kind = FileFormat[self.form.upper()]
        row = self._row(values, location, kind, Content.DATA, len(rows))
        return row | {"file_size_in_bytes": len(content)}


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("form", ["orc", "avro"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_orc_and_avro_files_hold_no_such_row_afterwards(erase, tmp_path, version, form):
    directory = tmp_path / "t"
    table = OtherFormat(directory, format_version=version)
    table.form = form
    table.append([*range(5), MARKED])
    table.append(range(5, 9))
    if version > 1:
        table.delete_rows([MARKED, 2])
    assert hits_below(directory, [MARK])
    assert result_of(erase(directory, *ALL))["is_proved"] is True
    assert hits_below(directory, [MARK]) == []
    assert ids(directory) == sorted(set(range(9)) - ({2} if version > 1 else set()))
    clean(erase, directory)


def with_a_file_that_goes(table: TableBuilder) -> None:
    """Let the last manifest name a deleted file without the row, which every clean snapshot lacks.

    Its bounds, if there are some, do not rule the row out.
    """
    table.append([MARKED])
    table.append([1, MARKED + 1, 2, MARKED + 2], files=2)
    table.remove_data_files(1)


@pytest.mark.parametrize("partitioning", ["none", "bucket"])
@pytest.mark.parametrize("form", ["orc", "avro"])
def test_entries_without_bounds_of_files_that_are_gone_hold_no_row(
    erase, tmp_path, form, partitioning, monkeypatch
):
    monkeypatch.setitem(
        PARTITIONINGS, "bucket", (PartitionField((1,), 1000, "id", parse_transform("bucket[1]")),)
    )
    table = OtherFormat(tmp_path / "t", partitioning=partitioning)
    table.form = form
    with_a_file_that_goes(table)
    words = (tmp_path / "t", "--where", f"id = {MARKED}", "--json")
    assert result_of(erase(*words, *ALL[2:-1]))["is_proved"] is True
    assert result(erase(*words, "--verify"))["left"] == []


@pytest.mark.parametrize("has_bounds", [False, True])
def test_bounds_and_lone_partitions_of_files_that_are_gone_may_be_of_the_row(
    erase, by_note, tmp_path, has_bounds
):
    """Nobody can look into these files any more."""
    table = (
        TableBuilder(tmp_path / "t")
        if has_bounds
        else OtherFormat(tmp_path / "t", partitioning=by_note)
    )
    with_a_file_that_goes(table)
    words = (tmp_path / "t", "--where", f"id = {MARKED}", "--json")
    assert result_of(erase(*words, *ALL[2:-1]))["is_proved"] is True
    (left,) = result_of(erase(*words, "--verify"), 4)["left"]
    assert left["reason"].startswith("its snapshot has bounds or partitions of files that are gone")
    assert result_of(erase(*words, *ALL[2:-1]))["is_proved"] is True  # another erasure removes them
    assert result(erase(*words, "--verify"))["left"] == []


def test_without_history_the_branches_are_rewritten_and_what_holds_rows_is_listed(erase, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    untouched = table.append(range(10))
    first = table.append([10, MARKED])
    table.ref("eoy")
    table.ref("audit", "branch")
    last = table.append([11])
    table.append([12], branch="audit")
    words = (directory, *WHERE, "--max-fraction", "1", "--json")
    planned = result(erase(*words, "--dry-run"))
    assert {branch["name"] for branch in planned["branches"]} == {"audit", "main"}
    assert (planned["tags"], planned["erased_row_count"]) == (["eoy"], None)
    assert {str(first), str(last)} < {one["snapshot_id"] for one in planned["snapshots"]}
    done = result_of(erase(*words, "--yes"), 3)
    assert (done["erased_row_count"], done["is_proved"]) == (2, False)
    assert ids(directory) == list(range(12))
    subjects = {one["subject"] for one in done["left"]}
    assert {"tag eoy", f"snapshot {last}"} <= subjects
    assert f"snapshot {untouched}" not in subjects
    assert not any(subject.startswith("branch") for subject in subjects)
    again = result_of(erase(*words, "--yes"), 3)
    assert (again["erased_row_count"], again["new_snapshot_ids"]) == (0, [])
    kept = result_of(erase(*words, "--yes", "--expire-history", "--drop-tags", "other"), 3)
    assert [one["subject"] for one in kept["left"]] == ["tag eoy"]
    assert result_of(erase(directory, *WHERE, "--verify", "--json"), 4)["is_proved"] is False
    gone = result_of(erase(*words, "--yes", "--expire-history", "--drop-tags", "eo*"))
    assert (gone["dropped_tags"], gone["is_proved"]) == (["eoy"], True)
    assert hits_below(directory, [MARK]) == []
    assert ids(directory, untouched) == list(range(10))  # it names no such file, and stays
    clean(erase, directory)


def test_too_many_rows_are_refused(erase, tmp_path):
    directory = tmp_path / "t"
    built(directory, 2)
    words = (directory, "--where", "id < 2", "--expire-history", "--json")
    before = current_metadata(directory)
    ended = erase(*words, "--yes")
    assert (ended.code, ended.document["error"]["id"]) == (5, "too-many-rows")
    ended = erase(*words, "--dry-run")
    assert (ended.code, ended.document["status"]) == (5, "refused")
    assert current_metadata(directory) == before


def test_what_does_not_match_is_said_with_the_same_proof(erase, tmp_path):
    directory = tmp_path / "t"
    built(directory, 2)
    before = current_metadata(directory)
    ended = erase(directory, "--where", "id = 99", "--expire-history", "--yes", "--json")
    found = result(ended)
    assert (ended.document["status"], found["is_proved"]) == ("nothing-to-do", True)
    names = {Path(one["path"]).name for one in found["objects"]}
    assert names == {path.name for path in directory.rglob("*") if path.is_file()}
    assert current_metadata(directory) == before


@pytest.mark.parametrize("words", [("--verify",), ("--yes",)])
def test_a_look_alone_reads_manifests_once(erase, tmp_path, monkeypatch, words):
    directory = tmp_path / "t"
    built(directory, 2)
    whole, looks = MatchSearch.look, []

    def counted(search: MatchSearch, reader: Any, *sifted: Any) -> Any:
        looks.append(reader)
        return whole(search, reader, *sifted)

    monkeypatch.setattr(MatchSearch, "look", counted)
    assert result(erase(directory, "--where", "id = 99", *words, "--json"))["is_proved"] is True
    assert len(looks) == 1


def keys(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_keys_of_a_file_are_erased_and_told_nowhere(erase, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory, partitioning="identity")
    table.append([*range(20), MARKED, 4713])
    table.delete_rows([3, 4713], kind="equality")
    one = keys(tmp_path / "gone.csv", f'note,id\n"note {MARKED}",{MARKED}\nnote 3,3\nnote 5,6\n')
    secret = keys(tmp_path / "secret", "0123456789abcdef")
    words = (directory, "--key-columns", "id,note", "--max-fraction", "1", "--json")
    ended = erase(*words, "--keys", one, "--digest-key", secret, "--expire-history", "--yes")
    done = result_of(ended)
    assert (done["key_columns"], done["key_count"]) == (["id", "note"], 3)
    assert (done["erased_row_count"], done["is_proved"]) == (1, True)
    assert ids(directory) == [id_ for id_ in range(20) if id_ != 3]
    assert hits_below(directory, [MARK, b"note 3"[:6] + b"\0"]) == []
    assert f"note {MARKED}" not in ended.out + ended.err
    erasures = result(erase(directory, "erasures", "--json", command="inspect"))["rows"]
    assert len({it["erasure"] for it in erasures}) == 1
    assert erasures[-1]["snapshot_id"] == done["new_snapshot_ids"][-1]
    assert (erasures[-1]["columns"], erasures[-1]["erased_rows"]) == (["id", "note"], 1)
    assert "rows" in erase(directory, "erasures", command="inspect").out
    # The same set in another order, as Parquet, has the same digest; another set has another.
    table_of_keys = pa.table(
        {"note": ["note 5", "note 3", f"note {MARKED}"], "id": [6, 3, MARKED], "more": [0, 0, 0]}
    )
    pq.write_table(table_of_keys, tmp_path / "gone.parquet")
    looked = ("--verify", "--digest-key", secret, "--keys")
    of_words = (directory, "--key-columns", "id,note", "--json")
    again = result(erase(*of_words, *looked, tmp_path / "gone.parquet"))
    assert again["keys_digest"] == done["keys_digest"] != None  # noqa: E711
    other = keys(tmp_path / "other.csv", "id,note\n3,note 3\n")
    assert result(erase(*of_words, *looked, other))["keys_digest"] != done["keys_digest"]


def test_keys_are_live_rows_of_another_table(erase, tmp_path):
    directory = tmp_path / "t"
    built(directory, 2)
    gone = TableBuilder(tmp_path / "gone", partitioning="identity")
    gone.append([3, 5, MARKED])
    gone.delete_rows([5])
    words = ("--key-columns", "note,id", *ALL[2:], "--keys")
    done = result_of(erase(directory, *words, tmp_path / "gone"))
    assert (done["key_count"], done["is_proved"]) == (2, True)
    assert ids(directory) == [id_ for id_ in range(20) if id_ != 3]
    assert ids(tmp_path / "gone") == [3, MARKED]
    for keys_of, message in (
        (directory, "rows of the table itself"),
        (tmp_path, "no Iceberg table"),
    ):
        ended = erase(directory, *words, keys_of)
        assert (ended.code, message in ended.document["error"]["message"]) == (2, True), ended.err
    gone.delete_rows([3, MARKED])
    assert "has no key" in erase(directory, *words, tmp_path / "gone").err


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [(StorageError("the disk is away"), 3, "incomplete"), (CommitUnknown("lost"), 12, "unknown")],
)
def test_a_run_that_ends_early_reports_what_it_did(
    erase, tmp_path, monkeypatch, error, code, status
):
    directory, report = tmp_path / "t", tmp_path / "report.json"
    built(directory, 2)
    report.write_text('{"result": {"is_proved": true}}')

    def stop(_: object) -> None:
        raise error

    monkeypatch.setattr(Erasing, "expire_history", stop)
    assert erase(directory, *ALL, "--report", report).code == code
    written = json.loads(report.read_text())
    found = written["result"]
    assert (written["status"], found["is_proved"], found["erased_row_count"]) == (status, False, 1)
    assert found["new_snapshot_ids"]
    left = {one["subject"]: one["reason"] for one in found["left"]}
    assert error.message in left["the run"]
    assert {f"snapshot {it['snapshot_id']}" for it in found["snapshots"]} < left.keys()


def test_a_run_that_ends_between_two_orphans_reports_the_first(erase, tmp_path, monkeypatch):
    directory, report = tmp_path / "t", tmp_path / "report.json"
    table = built(directory, 2)
    for _ in range(2):
        table.loose_data_files([MARKED])
    age(directory, 9)
    removed: list[str] = []
    remove = deletion.remove_batch

    def stop(context: TableContext, locations: Sequence[str]) -> Sequence[FailedRemoval]:
        if removed:
            raise KeyboardInterrupt
        removed.extend(locations)
        return remove(context, locations)

    monkeypatch.setattr(deletion, "BATCH", 1)
    monkeypatch.setattr(deletion, "remove_batch", stop)
    assert erase(directory, *ALL, "--report", report).code == 130
    told = json.loads(report.read_text())["result"]
    assert len(removed) == 1
    assert set(removed) < set(told["deleted_files"])
    assert not any(Path(place).exists() for place in told["deleted_files"])


@pytest.mark.parametrize(
    ("pays_bytes", "words", "problem", "name"),
    [
        (1 << 30, (), None, "local"),
        (0, (), None, "spark"),
        (0, ("--engine", "local"), None, "local"),
        (0, (), "no Java", "local"),
        (1 << 30, ("--remote", "sc://localhost:1"), None, "spark"),
    ],
)
def test_the_columns_to_read_decide_on_spark(
    erase, tmp_path, monkeypatch, pays_bytes, words, problem, name
):
    built(tmp_path / "t", 2)
    asked: list[str] = []

    def check() -> None:
        if problem is not None:
            raise EngineError(problem)

    def engine_of(session: Session, choice: EngineChoice, *_: object) -> Any:
        asked.append(choice.name)
        return whole(session, EngineChoice("local"), (), None)

    whole = erase_run.engine_of
    monkeypatch.setattr(engine_choice, "SPARK_PAYS_BYTES", pays_bytes)
    monkeypatch.setattr(engine_choice, "runs_already", lambda: False)
    monkeypatch.setattr(engine_choice, "missing_prerequisite", lambda: None)
    monkeypatch.setattr(engine_choice, "check_installed", check)
    monkeypatch.setattr(erase_run, "engine_of", engine_of)
    assert erase(tmp_path / "t", *WHERE, "--verify", *words).code == 4
    assert asked[1] == name


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("k.txt", "1\nx7\n", "id", "line 2: `id` is not long"),
        ("k.txt", "1\n99999999999999999999\n", "id", "line 2: `id` is not long"),
        ("k.txt", "1\n2\n1\n", "id", "line 3: a repeated key"),
        ("k.txt", "", "id", "has no key"),
        ("k.txt", "\n", "id", "has no key"),
        ("k.txt", "1\n", "id,note", "one key a line, and there are 2 key columns"),
        ("k.txt", "1\n", "nope", "the table has no column `nope`"),
        ("k.txt", "1\n", "id,id", "names `id` twice"),
        ("k.txt", "31.12.2024\n", "at", "line 1: `at` is not timestamp"),
        ("k.txt", "2024-12-31T10:00:00+02:00\n", "at", "line 1: `at` is not timestamp"),
        ("k.txt", "2024-12-31T10:00:00.1234567\n", "at", "line 1: `at` is not timestamp"),
        ("k.txt", "a\u2028b\nc\na\u2028b\n", "note", "line 3: a repeated key"),
        ("k.csv", "note\na\u2028b\nc\na\u2028b\n", "note", "line 4: a repeated key"),
        ("k.csv", "note\nn\n", "id", "line 1: no column `id`"),
        ("k.csv", "id,id\n1,1\n", "id", "line 1: more than one column `id`"),
        ("k.csv", "id,note\n1\n", "id", "line 2: 1 values, and the header has 2"),
        ("k.csv", "id,note\n", "id", "has no key"),
        ("k.csv", "id,note\n1,a\n,b\n", "id", "line 3: `id` is empty"),
        ("k.csv", "id,note\n1,a\n2,\n", "note", "line 3: `note` is empty, and may stand for null"),
    ],
)
def test_keys_that_are_none_are_refused_with_their_line(
    erase, tmp_path, name, text, columns, message
):
    directory = tmp_path / "t"
    built(directory, 2)
    before = current_metadata(directory)
    file = keys(tmp_path / name, text)
    ended = erase(directory, "--keys", file, "--key-columns", columns, "--yes")
    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert "x7" not in ended.err
    assert current_metadata(directory) == before


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None]), "row 2: `id` is null"),
        (pa.array([1, 2, 1]), "row 3: a repeated key"),
        (pa.array(["1"]), "do not match those of the table: `id` is long"),
        (pa.array([[1]]), "column `id` is not long"),
        (pa.array([], pa.int64()), "has no key"),
    ],
)
def test_parquet_keys_that_are_none_are_refused_with_their_row(erase, tmp_path, column, message):
    directory = tmp_path / "t"
    built(directory, 2)
    pq.write_table(pa.table({"id": column}), tmp_path / "k.parquet")
    ended = erase(directory, "--keys", tmp_path / "k.parquet", "--key-columns", "id", "--yes")
    assert (ended.code, message in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "erase needs either `--where` or `--keys`"),
        (("--where", "id = 1", "--keys", "k"), "erase needs either `--where` or `--keys`"),
        (("--where", "id = 1", "--key-columns", "id"), "`--key-columns` needs `--keys`"),
        (("--where", "nope = 1"), "nope"),
        (("--where", "id = 1", "--verify", "--dry-run"), "cannot be used with `--dry-run`"),
        (("--where", "id = 1", "--drop-tags", "x"), "`--drop-tags` needs `--expire-history`"),
        (
            ("--where", "id = 1", "--delete-versions"),
            "`--delete-versions` needs `--expire-history`",
        ),
        (("--where", "id = 1", "--sign-key", "k"), "`--sign-key` needs `--report`"),
        (("--where", "id = 1", "--dry-run", "--save-plan", "p"), "cannot save plans"),
        (("--where", "id = 1", "--rounds", "0"), "--rounds"),
        (("--keys", "/nonexistent", "--key-columns", "id"), "cannot read the keys"),
        (("--keys", "/nonexistent"), "`--keys` needs the columns of the keys"),
    ],
)
def test_wrong_usage_is_told_before_anything_changes(erase, tmp_path, words, message):
    directory = tmp_path / "t"
    built(directory, 2)
    before = current_metadata(directory)
    ended = erase(directory, *words, "--yes")
    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert current_metadata(directory) == before


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_proved(erase, tmp_path):
    directory = tmp_path / "t"
    table = built(directory, 2)
    known = {row["location"] for row in table.live()}
    table.append([*range(20, 30), 4713])
    (damaged,) = {row["location"] for row in table.live()} - known
    content = Path(damaged).read_bytes()
    Path(damaged).write_bytes(content[:40] + b"\0" * (len(content) - 48) + content[-8:])
    words = ("--where", f"id = {MARKED} or id = 4713", "--json")
    done = result_of(erase(directory, *words, *ALL[2:], "--yes"), 3)
    assert (done["erased_row_count"], done["is_proved"]) == (1, False)
    assert any(one["subject"] == damaged for one in done["left"])
    looked = result_of(erase(directory, *words, "--verify"), 3)
    assert any(one["subject"] == damaged for one in looked["left"])
    assert Path(damaged).exists()


def test_files_that_no_snapshot_names_are_read_too(erase, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append(range(10))
    table.loose_data_files([100])
    (loose,) = table.loose_data_files([MARKED])
    (directory / "metadata" / "lost-m0.avro").write_bytes(b"Obj\x01")
    ended = erase(directory, *WHERE, "--verify", "--json")
    left = {one["subject"]: one["reason"] for one in result_of(ended, 4)["left"]}
    assert list(left) == [loose["location"], str(directory / "metadata" / "lost-m0.avro")]
    assert left[loose["location"]].startswith("1 row match")
    orphans = [one for one in ended.document["result"]["objects"] if one["kind"] == "orphan"]
    assert [one["known_by"] for one in orphans] == ["dictionary"]
    assert result_of(erase(directory, *ALL), 3)["is_proved"] is False
    assert Path(loose["location"]).exists()  # it may be of a commit that is under way
    for path in (*directory.rglob("*.parquet"), directory / "metadata" / "lost-m0.avro"):
        os.utime(path, (NOW_MS / 1000 - 9 * 86_400,) * 2)
    assert Path(loose["location"]).exists()
    words = [word for word in ALL if word != "--expire-history"]
    assert result_of(erase(directory, *words), 3)["deleted_files"] == []
    done = result_of(erase(directory, *ALL))
    assert (sorted(done["deleted_files"]), done["is_proved"]) == (sorted(left), True)
    assert [one for one in done["objects"] if one["kind"] == "orphan"]  # without such a row
    assert ids(directory) == list(range(10))


@pytest.mark.parametrize(
    ("version", "kind", "removes"),
    [
        (2, "position", False),
        (3, "position", True),
        (4, "position", False),
        (2, "equality", True),
        (3, "keys", False),
    ],
)
def test_partitions_of_deletes_hold_no_value_afterwards(
    erase, by_note, tmp_path, version, kind, removes
):
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=min(version, 3), partitioning=by_note)
    table.append([MARKED, 1, 2, 3])
    table.delete_rows([MARKED, 2], kind=kind)
    if removes:
        table.remove_data_files(1)  # the deletes of its partition stay
    table.append([7, 8])
    if version == 4:
        upgrade(directory, FixedEnv(START_MS + HOUR_MS))
    of_keys = ("--keys", keys(tmp_path / "gone.txt", f"note {MARKED}\n"), "--key-columns", "note")
    which = of_keys if removes else WHERE
    assert result_of(erase(directory, *which, "--verify", "--json"), 4)["is_proved"] is False
    done = result_of(erase(directory, *which, *ALL[2:]))
    assert (done["left"], hits_below(directory, [MARK])) == ([], [])
    assert ids(directory) == [1, 3, 7, 8]
    clean(erase, directory)


@pytest.mark.parametrize("version", [2, 4])
def test_other_values_in_partitions_of_deletes_go_too(erase, by_note, tmp_path, version):
    directory = tmp_path / "t"
    table = TableBuilder(directory, format_version=min(version, 3), partitioning=by_note)
    table.append([*range(6), MARKED])
    table.append([6])
    table.delete_rows([1, MARKED])
    if version == 4:
        upgrade(directory, FixedEnv(START_MS + HOUR_MS))
    done = result_of(erase(directory, "--where", f"id = {MARKED}", *ALL[2:]))
    assert (done["left"], hits_below(directory, [MARK])) == ([], [])


def test_deletes_of_a_partition_are_found_when_their_rows_are_long_gone(erase, by_note, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory, partitioning=by_note)
    table.append([MARKED, 1])
    table.delete_rows([MARKED])
    table.remove_data_files(1)
    last = table.append([2])
    words = (directory, *[f"--snapshot-id={id_}" for id_ in table.ids_of if id_ != last], "--yes")
    assert erase(*words, command="expire-snapshots").code == 0
    assert hits_below(directory, [MARK])
    assert result_of(erase(directory, *ALL))["left"] == []
    assert hits_below(directory, [MARK]) == []
    assert ids(directory) == [1, 2]


def test_statistics_that_count_a_partition_of_such_rows_are_told_of(erase, by_note, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory, partitioning=by_note)
    table.append([MARKED, 1])
    assert erase(directory, "--yes", command="analyze").code == 0
    table.follow()
    (file,) = table.metadata.partition_statistics
    kept = directory / "metadata" / "kept.parquet"
    shutil.copy(file.statistics_path, kept)
    table.remove_data_files(1)
    last = table.append([2])  # other writers count partitions that no longer have files
    file = replace(file, snapshot_id=last, statistics_path=str(kept))
    table._update([SetPartitionStatistics(file)])
    gone = keys(tmp_path / "gone.txt", f"note {MARKED}\n")
    for which in (WHERE, ("--keys", gone, "--key-columns", "note")):
        done = result_of(erase(directory, *which, *ALL[2:]), 3)
        assert [one["subject"] for one in done["left"]] == [str(kept)]
    other = ("--where", "note = 'note 3'", "--verify", "--json")
    assert result_of(erase(directory, *other))["is_proved"] is True


class WholeRows(TableBuilder):
    """A table whose position deletes hold whole rows, with the mark."""

    def _write_parquet(self, made: Any, location: str, path: Path, *more: Any) -> Any:
        if path.name.endswith("-deletes.parquet"):
            whole = NestedField(2147483544, "row", StructType(SCHEMA.fields), required=False)
            schema = Schema(0, (*POSITION_DELETE_SCHEMA.fields, whole))
            row = make_rows([1])[0] | {"note": f"note {MARKED}"}
            columns = [
                it | {"row": row} for it in pq.read_table(pa.BufferReader(made[0])).to_pylist()
            ]
            made = _parquet(pa.Table.from_pylist(columns, arrow_schema(schema)), schema, None)
        return super()._write_parquet(made, location, path, *more)


@pytest.mark.parametrize("version", [2, 3])
def test_whole_rows_of_position_deletes_are_left_out(erase, tmp_path, version):
    directory = tmp_path / "t"
    table = WholeRows(directory)
    first = table.append(range(10))
    table.delete_rows([1, 4])
    if version == 3:
        table.upgrade()
    table.append([10, 11])
    assert hits_below(directory, [MARK])
    looked = result_of(erase(directory, *WHERE, "--verify", "--json"), 4)
    assert [it["matching_row_count"] for it in looked["files"]] == [2]
    other = ("--where", "note = 'note 9'", "--verify", "--json")
    assert [it["kind"] for it in result_of(erase(directory, *other), 4)["files"]] == ["data"]
    assert (result_of(erase(directory, *ALL))["left"], hits_below(directory, [MARK])) == ([], [])
    assert ids(directory) == [it for it in range(12) if it not in (1, 4)]
    assert ids(directory, first) == list(range(10))
    clean(erase, directory)


@pytest.mark.parametrize("days", [1, 0])
def test_what_was_moved_to_the_quarantine_is_found(erase, tmp_path, monkeypatch, days):
    directory, away = tmp_path / "t", tmp_path / "away"
    table = TableBuilder(directory)
    table.append(range(10))
    for id_ in (MARKED, 100):
        table.loose_data_files([id_])
    for path in directory.rglob("*.parquet"):
        os.utime(path, (NOW_MS / 1000 - 9 * 86_400,) * 2)
    moving = ("--quarantine", away, "--max-fraction", "1", "--yes")
    moved_at = Clock(NOW_MS - days * 86_400_000)
    assert erase(directory, *moving, command="remove-orphans", env=moved_at).code == 0
    for path in away.rglob("*.jsonl"):
        age(path, days)
    copies = list(away.rglob("*.parquet"))
    (moved,) = (path for path in copies if hits_in(path.read_bytes(), [MARK]))
    monkeypatch.setenv("ICECTL_REMOVE_ORPHANS_QUARANTINE", str(away))
    looked = result_of(erase(directory, *WHERE, "--verify", "--json"), 4)
    assert [one["subject"] for one in looked["left"]] == [str(moved)]
    assert "quarantine" in looked["left"][0]["reason"]
    done = result_of(erase(directory, *ALL))
    assert (done["deleted_files"], done["is_proved"]) == ([str(moved)], True)
    assert set(copies) - set(away.rglob("*.parquet")) == {moved}  # the other has no such row


def test_lists_of_the_quarantine_name_no_value_afterwards(erase, by_note, tmp_path, monkeypatch):
    """A partition puts it into the paths; a run that is killed leaves the lines to the next."""
    directory, away = tmp_path / "t", tmp_path / "away"
    table = TableBuilder(directory, partitioning=by_note)
    table.append(range(3))
    other = table.loose_data_files([MARKED, 1])[-1]["location"]
    age(directory, 9)
    moving = ("--quarantine", away, "--max-fraction", "1", "--yes")
    day_before = Clock(NOW_MS - 86_400_000)
    assert erase(directory, *moving, command="remove-orphans", env=day_before).code == 0
    for path in away.rglob("*.jsonl"):
        age(path, 1)
    assert {Path(hit.file).suffix for hit in hits_below(away, [MARK])} >= {".jsonl", ".parquet"}
    monkeypatch.setenv("ICECTL_REMOVE_ORPHANS_QUARANTINE", str(away))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(deletion, "tidy_lists", killed)
        assert erase(directory, *ALL).code == 130
    for path in away.rglob("*.jsonl"):
        age(path, 1)
    (run,) = away.iterdir()
    (left,) = result_of(erase(directory, *WHERE, "--verify", "--json"), 4)["left"]
    assert (left["subject"], "lists name files that are gone" in left["reason"]) == (str(run), True)
    assert result_of(erase(directory, *ALL))["is_proved"] is True
    assert hits_below(away, [MARK]) == []
    for kind in ("moved", "copied"):
        (line,) = (run / f"{kind}-00001.jsonl").read_text().splitlines()
        assert Path(other).name in line
    assert result(erase(directory, *WHERE, "--verify", "--json"))["is_proved"] is True


@pytest.mark.parametrize("tells", [False, True])
def test_a_journal_of_another_run_may_name_partitions(erase, by_note, tmp_path, tells):
    """A compaction that another host has begun: `folders` are those of its partitions."""
    directory = tmp_path / "t"
    TableBuilder(directory, partitioning=by_note).append(range(3))
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    journal = directory / "metadata" / f"icectl-compact-{uuid}.json"
    folder = str(directory / "data" / (f"note=note+{MARKED}" if tells else ""))
    content = {"icectl-journal": 1, "table-uuid": None, "created-ms": NOW_MS, "host": "other",
               "pid": 1, "folders": [folder], "trees": [], "abandoned": False,
               "newest-version": None}  # fmt: skip
    journal.write_text(json.dumps(content))
    other = ("--where", f"id = {MARKED}", "--verify", "--json")
    assert result(erase(directory, *other))["is_proved"] is True
    looked = result_of(erase(directory, *WHERE, "--verify", "--json"), 4 if tells else 0)
    assert [one["subject"] for one in looked["left"]] == [str(journal)][: int(tells)]
    assert result_of(erase(directory, *ALL), 3 if tells else 0)["is_proved"] is not tells


def test_files_of_a_run_that_died_on_another_host_go_once_they_are_old(erase, tmp_path):
    directory, uuid = tmp_path / "t", "0f8fad5b-d9cb-469f-a165-70867728950e"
    table = TableBuilder(directory)
    table.append(range(3))
    (loose,) = table.loose_data_files([MARKED])
    place = Path(loose["location"]).with_name(f"00000-0-{uuid}-00001.parquet")
    Path(loose["location"]).rename(place)
    os.utime(place, (NOW_MS / 1000,) * 2)
    content = {"icectl-journal": 1, "table-uuid": table.metadata.table_uuid, "created-ms": NOW_MS,
               "host": "other", "pid": 1, "folders": [], "trees": [str(directory / "data")],
               "abandoned": False, "newest-version": None}  # fmt: skip
    (directory / "metadata" / f"icectl-erase-{uuid}.json").write_text(json.dumps(content))
    for hours, code in ((1, 3), (25, 3), (80, 0)):
        env = FixedEnv(NOW_MS + hours * HOUR_MS, uuids=1_000 * hours, snapshot_ids=1_000 * hours)
        done = result_of(erase(directory, *ALL, env=env), code)
        assert [one["subject"] for one in done["left"]] == ([str(place)] if code else []), hours
        assert place.exists() is bool(code)


def test_no_journal_of_an_erasure_is_left_where_partitions_are_named(erase, by_note, tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning=by_note)
    table.append([MARKED, 1])
    done = result_of(erase(tmp_path / "t", *ALL, "--delete-versions"))
    assert (done["left"], done["is_proved"]) == ([], True)


def test_an_orphaned_leaf_is_no_data_file(erase, tmp_path):
    directory = tmp_path / "t"
    TableBuilder(directory, format_version=3).append(range(3))
    upgrade(directory, FixedEnv(START_MS + HOUR_MS))
    TableBuilder(tmp_path / "o", format_version=3).append([MARKED])
    upgrade(tmp_path / "o", FixedEnv(START_MS + HOUR_MS))
    for root in (tmp_path / "o" / "metadata").glob("root-*.parquet"):  # column 1 is a long, too
        shutil.copy(root, directory / "metadata" / "lost.parquet")
    left = result_of(erase(directory, "--where", "id = 4712", "--verify", "--json"), 4)["left"]
    assert [Path(one["subject"]).name for one in left] == ["lost.parquet"]


def openssl(*words: object) -> int:
    asked = ["openssl", *map(str, words)]
    return subprocess.run(asked, capture_output=True, check=False).returncode


def test_a_report_is_signed_as_openssl_checks_it(erase, tmp_path):
    directory, report = tmp_path / "t", tmp_path / "report.json"
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    built(directory, 2)
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    ended = erase(directory, *ALL, "--report", report, "--sign-key", private)
    written = json.loads(report.read_text())
    assert written.pop("at").startswith("2025-")
    assert written["result"] == result_of(ended)
    checking = ("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", report,
                "-sigfile", f"{report}.sig")  # fmt: skip
    assert openssl(*checking) == 0
    report.write_text(report.read_text().replace("true", "false", 1))
    assert openssl(*checking) == 1
    for key in (public, directory / "metadata" / "v1.metadata.json", tmp_path / "none.pem"):
        ended = erase(directory, *ALL, "--report", report, "--sign-key", key)
        assert (ended.code, "--sign-key" in ended.document["error"]["message"]) == (2, True)
    for place, message in (
        (tmp_path / "none" / "r.json", "there is no folder"),
        (tmp_path, "is a folder"),
        (private, "would replace the file of `--sign-key`"),
    ):
        ended = erase(directory, *ALL, "--report", place, "--sign-key", private)
        assert (ended.code, message in ended.document["error"]["message"]) == (2, True)


@pytest.mark.parametrize("readded", [False, True])
def test_values_of_a_dropped_column_are_erased(erase, tmp_path, readded):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append([*range(8), MARKED])
    kept = SCHEMA.fields[:4]
    new = NestedField(6, "note", PrimitiveType("string"), required=False)
    table.reschema(Schema(1, (*kept, new) if readded else kept))
    table.append([8, 9])
    name = "`note@5`" if readded else "note"
    which = ("--where", f"{name} = 'note {MARKED}'")
    if not readded:
        gone = keys(tmp_path / "gone.txt", f"note {MARKED}\nnote 1\n")
        which = ("--keys", gone, "--key-columns", "note")
    assert result_of(erase(directory, *which, "--verify", "--json"), 4)["is_proved"] is False
    done = result_of(erase(directory, *which, *ALL[2:]))
    assert (done["left"], hits_below(directory, [MARK])) == ([], [])
    assert ids(directory) == [it for it in range(10) if readded or it != 1]
    if readded:  # the builder does not count the ids of new columns
        assert result_of(erase(directory, *WHERE, "--verify", "--json"))["is_proved"] is True
    else:
        clean(erase, directory)


@pytest.mark.parametrize(
    "name",
    [
        "data/.x.parquet.crc",
        "data/v7.metadata.json",
        "data/version-hint.text",
        "data/x.parquet",
        "data/%300001.parquet",
    ],
)
def test_a_file_is_known_by_what_it_holds_and_not_by_its_name(erase, tmp_path, name):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append(range(5))  # data/00001.parquet
    (loose,) = table.loose_data_files([MARKED])
    shutil.move(loose["location"], directory / name)
    left = result_of(erase(directory, *WHERE, "--verify", "--json"), 4)["left"]
    assert [one["subject"] for one in left] == [str(directory / name)]


def test_what_no_listing_shows_is_told(erase, tmp_path):
    directory = tmp_path / "t"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    TableBuilder(directory, properties={"write.data.path": str(elsewhere)}).append(range(5))
    (directory / "data" / "link").symlink_to(elsewhere)
    (directory / "data" / os.fsdecode(b"\xff.parquet")).write_bytes(b"PAR1")
    ended = result_of(erase(directory, *WHERE, "--verify", "--json"), 4)
    assert {one["subject"]: one["reason"].partition(":")[0] for one in ended["left"]} == {
        str(directory / "data" / "link"): "it is a link to a folder",
        str(directory / "data" / "?.parquet"): "its name is not UTF-8",
        str(elsewhere): "`write.data.path` names it, outside of the table's location",
    }


def test_a_branch_that_goes_meanwhile_is_no_failure(
    erase, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append([*range(5), MARKED])
    table.ref("audit", "branch")
    whole = Erasing._rewrite_rows

    def overtaken(erasing: Any, branch: str, found: Any) -> None:
        whole(erasing, branch, found)
        if branch == "audit":
            assert erase(directory, "drop", "audit", "--yes", command="refs").code == 0

    monkeypatch.setattr(Erasing, "_rewrite_rows", overtaken)
    assert result_of(erase(directory, *ALL))["is_proved"] is True
    assert hits_below(directory, [MARK]) == []


@pytest.mark.parametrize(("rounds", "code"), [(1, 3), (2, 0)])
def test_a_branch_that_comes_meanwhile_is_found_by_another_look(
    erase, tmp_path, monkeypatch: pytest.MonkeyPatch, rounds, code
):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    old = table.append([*range(5), MARKED])
    table.append(range(5, 9))
    whole = Erasing._rewrite_manifests
    came = []

    def overtaken(erasing: Any, branch: str) -> None:
        whole(erasing, branch)
        if not came:
            came.append(erase(directory, "branch", "late", "--at", old, "--yes", command="refs"))

    monkeypatch.setattr(Erasing, "_rewrite_manifests", overtaken)
    done = result_of(erase(directory, *ALL, "--rounds", rounds), code)
    assert came[0].code == 0
    assert done["erased_row_count"] == rounds
    assert [one["subject"] for one in done["left"]][:1] == (["branch late"] if code else [])
    assert (hits_below(directory, [MARK]) == []) == (code == 0)
    assert ids(directory) == list(range(9))


@pytest.mark.parametrize("goes", [True, False])
def test_snapshots_that_go_or_get_a_tag_before_they_expire_are_no_failure(
    erase, tmp_path, monkeypatch: pytest.MonkeyPatch, goes
):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    old = table.append([*range(5), MARKED])
    table.append(range(5, 9))
    look = MatchSearch.look

    def overtaken(search: MatchSearch, reader: Any, *sifted: Any) -> Any:
        found = look(search, reader, *sifted)
        if old not in {ref.snapshot_id for ref in reader.metadata.refs.values()} and not came:
            came.append(erase(directory, *other, "--yes", command=command))
        return found

    command, other = ("refs", ("tag", "late", "--at", old))
    if goes:
        command, other = ("expire-snapshots", ("--older-than", "0s", "--retain-last", "1"))
    came: list[Any] = []
    rewrite = Erasing._rewrite_manifests

    def rewritten(erasing: Any, branch: str) -> None:
        rewrite(erasing, branch)
        monkeypatch.setattr(MatchSearch, "look", overtaken)

    monkeypatch.setattr(Erasing, "_rewrite_manifests", rewritten)
    done = result_of(erase(directory, *ALL, "--rounds", "1"), 0 if goes else 3)
    assert came[0].code == 0
    assert [one["subject"] for one in done["left"]][:1] == ([] if goes else ["tag late"])
    assert (hits_below(directory, [MARK]) == []) == goes


@pytest.mark.parametrize(
    "point",
    ["clean_branches", "_rewrite_rows", "_rewrite_manifests", "expire_history", "look_again"],
)
def test_an_erasure_beside_another_ends_well(erase, tmp_path, monkeypatch, point):
    directory = tmp_path / "t"
    table = built(directory, 2)
    table.ref("audit", "branch")
    table.delete_rows([3, MARKED])
    whole, came = getattr(Erasing, point), []

    def overtaken(erasing: Any, *words: Any) -> Any:
        if not came:
            came.append(None)
            came.append(erase(directory, *ALL))
        return whole(erasing, *words)

    monkeypatch.setattr(Erasing, point, overtaken)
    assert {erase(directory, *ALL).code, came[1].code} <= {0, 3, 11}, came[1].err
    assert result_of(erase(directory, *WHERE, "--verify", "--json"))["is_proved"] is True
    assert hits_below(directory, [MARK]) == []
    assert ids(directory) == [id_ for id_ in range(20) if id_ != 3]
    clean(erase, directory)


def test_rows_that_come_before_the_commit_go_with_it(
    erase, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append([*range(5), MARKED])
    propose = RowDeletion._propose
    came = []

    def overtaken(deletion: Any, metadata: Any) -> Any:
        proposal = propose(deletion, metadata)
        if not came:
            came.append(table.append([5, 4713]))
        return proposal

    monkeypatch.setattr(RowDeletion, "_propose", overtaken)
    where = ("--where", f"id >= {MARKED}", "--max-fraction", "1", "--expire-history", "--yes")
    done = result_of(erase(directory, *where, "--json"))
    assert (len(came), done["erased_row_count"], done["is_proved"]) == (1, 2, True)
    assert ids(directory) == list(range(6))
    assert hits_below(directory, [MARK, b"note 4713"]) == []


def test_a_copy_that_shares_files_is_refused(erase, tmp_path):
    directory = tmp_path / "t"
    built(directory, 2)
    shutil.copytree(directory, tmp_path / "copy")
    before = hits_below(directory, [MARK])
    ended = erase(tmp_path / "copy", *ALL)
    assert ended.code == 5, ended.out
    inner = directory / "data" / "inner"
    built(inner, 2)
    ended = erase(directory, *ALL)
    assert (ended.code, "inner" in ended.document["error"]["message"]) == (5, True), ended.out
    shutil.rmtree(inner)
    assert hits_below(directory, [MARK]) == before


def test_a_table_that_may_share_its_files_is_refused(erase, tmp_path):
    directory = tmp_path / "t"
    built(directory, 2).set_properties({"gc.enabled": "false"})
    assert erase(directory, *ALL).document["error"]["id"] == "gc-disabled"


def test_the_proof_says_how_it_is_known_of_each_file(erase, tmp_path):
    directory = tmp_path / "t"
    table = TableBuilder(directory)
    table.append([1, 3])
    table.append([4, 6])
    table.loose_data_files([1, 3])

    def known(where: str) -> list[tuple[str, str]]:
        looked = result(erase(directory, "--where", where, "--verify", "--json"))
        assert looked["is_proved"] is True
        return sorted(
            (one["kind"], one["known_by"])
            for one in looked["objects"]
            if one["kind"] in ("data", "orphan")
        )

    assert known("id = 2") == [("data", "bounds"), ("data", "dictionary"), ("orphan", "dictionary")]
    assert known("id > 1 and id < 3") == [("data", "bounds"), ("data", "rows"), ("orphan", "rows")]


def test_new_files_outside_of_the_location_are_in_the_proof(erase, tmp_path):
    directory, outside = tmp_path / "t", tmp_path / "outside"
    table = TableBuilder(directory, properties={"write.data.path": str(outside)})
    table.append([*range(5), MARKED])
    done = result_of(erase(directory, *ALL), 3)
    (written,) = outside.rglob("*.parquet")
    known = {one["path"]: one["known_by"] for one in done["objects"]}
    assert known.keys() == {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert str(written) in known
    assert ([one["subject"] for one in done["left"]], done["is_proved"]) == ([str(outside)], False)
    assert (ids(directory), hits_below(tmp_path, [MARK])) == ([*range(5)], [])
    ended = erase(directory, "--where", "id = 3", *ALL[2:])
    assert ended.document["error"]["id"] == "foreign-file"  # other tables may have files there
    assert ids(directory) == [*range(5)]


def test_metadata_outside_of_the_location_is_in_the_proof(erase, tmp_path):
    """The table owns only the folder of its metadata then."""
    uri, elsewhere = f"sqlite:///{tmp_path}/catalog.db", tmp_path / "elsewhere"
    catalog = SqlCatalog("c", uri=uri, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    columns = pa.schema([("id", pa.int64())])
    properties = {"write.metadata.path": f"file://{elsewhere}"}
    table = catalog.create_table(
        ("db", "t"), columns, f"file://{tmp_path}/t", properties=properties
    )
    table.append(pa.table({"id": [1, 3]}, columns))
    words = ("db.t", "--catalog", "c", "--catalog-option", "type=sql", "--catalog-option",
             f"uri={uri}")  # fmt: skip
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    env = FixedEnv(time.time_ns() // 10**6)  # PyIceberg has written it just now
    ended = erase(*words, "--where", "id = 3", *ALL[2:], env=env)
    assert (ended.code, ended.document["error"]["id"]) == (5, "foreign-file")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    looked = result_of(erase(*words, "--where", "id = 2", "--verify", "--json", env=env), 4)
    known = {one["path"].removeprefix("file://"): one["known_by"] for one in looked["objects"]}
    assert known.keys() == {str(path) for path in before if path.suffix != ".db"}
    assert {known[str(path)] for path in elsewhere.glob("*.avro")} == {"entries"}
    assert [one["subject"] for one in looked["left"]] == [f"file://{elsewhere}"]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_that_snapshots_reach_outside_of_the_location_are_in_the_proof(
    erase, tmp_path, version
):
    directory, outside = tmp_path / "t", tmp_path / "outside"
    table = SpreadTable(directory, format_version=min(version, 3))
    table.append(range(5))
    table.append(range(5, 9))
    if version == 4:
        upgrade(directory, FixedEnv(START_MS + HOUR_MS))
    else:
        table.remove_data_files(1)
    gone = min(outside.iterdir())
    report = result_of(erase(directory, *WHERE, "--verify", "--json"))
    known = {it["path"].removeprefix("file:"): it for it in report["objects"]}
    for path in outside.iterdir():
        one = known[str(path)]
        assert one["size_bytes"] == path.stat().st_size
        assert (one["kind"], one["known_by"]) == ("data", "bounds")
    assert known.keys() == {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    there = ("--where", "note = 'note 6'", "--max-fraction", "1", "--yes", "--json")
    assert erase(directory, *there).document["error"]["id"] == "foreign-file"
    if version < 4:  # what only an older snapshot reaches may be gone
        gone.unlink()
        report = result_of(erase(directory, *WHERE, "--verify", "--json"))
        assert known.keys() - {it["path"] for it in report["objects"]} == {str(gone)}


@pytest.mark.by_turns(2)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", ["csv", "txt"])
def test_many_keys_lie_in_temporary_files_meanwhile(erase, monkeypatch, tmp_path, version, form):
    monkeypatch.setattr(erase_keys, "MOST_KEPT_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    made: list[Path] = []

    def noted(folder: Path, *others: object) -> object:
        made.append(folder)
        return sorted_in(folder, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(erase_keys, "sorted_in", noted)
    table = TableBuilder(tmp_path / "t", format_version=version)
    table.append(range(10))
    table.delete_rows([2])
    table.append(range(10, 20))
    file = tmp_path / f"gone.{form}"
    lines = [str(at) for at in (2, 3, 15, *range(100, 300))]
    file.write_text("\n".join([*(["id"] if form == "csv" else []), *lines, ""]))
    words = (tmp_path / "t", "--keys", file, "--key-columns", "id", "--expire-history")
    ended = erase(*words, "--max-fraction", "1", "--yes", "--json")
    assert (ended.code, ended.document["result"]["is_proved"]) == (0, True), ended.err
    assert ids(tmp_path / "t") == sorted(set(range(20)) - {2, 3, 15})
    assert len(made) == 1
    assert list((tmp_path / "temporary").iterdir()) == []
