"""`upgrade-to-v4 --layout draft-16025 --to FOLDER`: what it writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from icectl.cli import app
from tests.builders.table_builder import TableBuilder

FORM = ("--layout", "draft-16025")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    """The exit code of a run of icectl, and its document."""
    code = app.main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    table = TableBuilder(tmp_path / "t", format_version=3, partitioning="identity")
    table.append(range(9))
    table.delete_rows([1])
    return table


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_writes_leaves_and_a_root_and_leaves_the_table_alone(table, tmp_path, capsys):
    before = files(table.directory)
    folder = tmp_path / "out" / "t4"
    code, planned = run(
        capsys, "upgrade-to-v4", str(table.directory), *FORM, "--to", str(folder), "-n"
    )
    assert (code, planned["status"], folder.exists()) == (0, "planned", False)
    code, done = run(capsys, "upgrade-to-v4", str(table.directory), *FORM, "--to", str(folder))
    assert (code, done["status"]) == (0, "done")
    written = files(folder)
    assert sorted(written) == ["leaf-00001.parquet", "root.parquet"]
    export = done["result"]["export"]
    assert export == {
        "folder": f"file:{folder}",
        "root": f"file:{folder}/root.parquet",
        "snapshot_id": str(table.metadata.current_snapshot_id),
        "leaves": 1,
        "live_files": 3,
        "bytes": sum(map(len, written.values())),
        "notes": ["column sizes have no place in it"],
    }
    assert planned["result"]["export"] == export | {"bytes": None}
    assert files(table.directory) == before


def test_a_folder_that_has_files_is_refused(table, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    words = ("upgrade-to-v4", str(table.directory), *FORM, "--to", str(tmp_path / "out"))
    assert run(capsys, *words)[0] == 0
    written = files(tmp_path / "out")
    code, document = run(capsys, *words)
    assert (code, document["status"]) == (5, "refused")
    assert "there are files in" in document["error"]["message"]
    assert files(tmp_path / "out") == written


def test_what_the_draft_has_no_form_for_is_refused_by_name(tmp_path, capsys):
    old = TableBuilder(tmp_path / "v2")
    old.append(range(9))
    old.delete_rows([1])
    folder = tmp_path / "out"
    code, document = run(capsys, "upgrade-to-v4", str(old.directory), *FORM, "--to", str(folder))
    assert code == 14
    assert "the draft has no form for 1 position delete file, " in document["error"]["message"]
    assert "--rewrite-all` applies them" in document["error"]["hint"]
    keyed = TableBuilder(tmp_path / "v3", format_version=3)
    keyed.append(range(9))
    keyed.set_properties({"encryption.key-id": "k"})
    code, document = run(capsys, "upgrade-to-v4", str(keyed.directory), *FORM, "--to", str(folder))
    assert code == 14
    assert document["error"]["message"].startswith("the table is encrypted")
    assert not folder.exists()


def test_a_branch_without_a_snapshot_is_refused(tmp_path, capsys):
    empty = TableBuilder(tmp_path / "t")
    words = ("upgrade-to-v4", str(empty.directory), *FORM, "--to", str(tmp_path / "out"))
    code, document = run(capsys, *words)
    assert (code, document["error"]["message"]) == (
        5, "branch `main` has no snapshot that could be written",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (FORM, "go together"),
        (("--to", "x"), "go together"),
        ((*FORM, "--to", "x", "--eager"), "`--eager` means nothing"),
        ((*FORM, "--to", "x", "--lazy"), "`--lazy` means nothing"),
        (("--layout", "draft"), "`--layout` is one of"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(table, capsys, words, told):
    code, document = run(capsys, "upgrade-to-v4", str(table.directory), *words)
    assert code == 2
    assert told in document["error"]["message"]


def test_one_folder_is_not_for_several_tables(table, tmp_path, capsys):
    words = ("upgrade-to-v4", f"{tmp_path}/*", *FORM, "--to", str(tmp_path / "out"), "--yes")
    code, document = run(capsys, *words)
    assert (code, document["error"]["message"]) == (
        2, "`--to` is about one table, and TABLE stands for several",
    )  # fmt: skip


def test_what_an_export_wrote_goes_where_it_fails(table, tmp_path, capsys):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "root.parquet").mkdir()  # an empty folder under the name of the root
    code, _ = run(capsys, "upgrade-to-v4", str(table.directory), *FORM, "--to", str(folder))
    assert code != 0
    assert files(folder) == {}
