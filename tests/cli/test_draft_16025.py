"""The upstream draft on the command line: exports, and their roots as `inspect` and `validate` read
them.
"""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from icectl.cli import app
from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.draft_16025.mumbling import write_mumbling
from tests.builders.drafts import draft_tables
from tests.builders.table_builder import TableBuilder

FORM = ("--layout", "draft-16025")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict]:
    """The exit code of a run of icectl, and its document."""
    code = app.main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TableBuilder:
    """Three data files, of which one has a vector; nothing here changes it."""
    table = TableBuilder(
        tmp_path_factory.mktemp("draft") / "t", format_version=3, partitioning="identity"
    )
    table.append(range(9))
    table.delete_rows([1])
    return table


@pytest.fixture(scope="module")
def export(table: TableBuilder) -> dict[Path, bytes]:
    """The files of an export of the table, the leaf first."""
    folder = table.directory.with_name("out")
    words = [*FORM, "--to", str(folder), "--quiet"]
    assert app.main(["upgrade-to-v4", str(table.directory), *words]) == 0
    return {path: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def root(export: dict[Path, bytes]) -> Path:
    """The root of the export, whatever became of it in another test."""
    for path, content in export.items():
        path.write_bytes(content)
    return list(export)[-1]


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
        (("--layout", "draft"), "`--layout` is `sfc-1` or"),
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


def test_a_root_and_its_leaves_are_shown(root, capsys):
    code, document = run(capsys, "inspect", str(root), "entries")
    rows = document["result"]["rows"]
    assert (code, document["result"]["view"]) == (0, "draft-entries")
    assert [(row["content"], row["status"], row["live"]) for row in rows] == [
        ("data_manifest", "modified", True),
        ("data", "modified", True),
        ("data", "added", True),
        ("data", "added", False),
        ("data", "added", True),
    ]
    leaf, modified = rows[:2]
    assert (leaf["dead_positions"], leaf["replaced_positions"]) == ([1], [1])
    assert modified["dv_cardinality"] == 1
    assert modified["partition"] == {"category": "c1"}
    assert modified["content_stats"]["id"]["upper_bound"] == 7
    assert modified["location"] == rows[3]["location"]
    assert modified["location"].startswith(f"file:{root.parents[1]}/t/data/category=c1/")
    listed = run(capsys, "inspect", str(root), "manifests")[1]["result"]["rows"]
    assert [row["location"] for row in listed] == [f"file:{root.parent}/leaf-00001.parquet"]
    chosen = run(capsys, "inspect", str(root), "files", "--columns", "record_count", "--limit", "2")
    assert chosen[1]["result"]["rows"] == [{"record_count": 3}, {"record_count": 3}]


def test_text_and_lines_of_a_root(root, capsys):
    assert app.main(["inspect", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["status", "content", "live", "record_count", "location"]
    assert len(lines) == 6
    assert app.main(["inspect", str(root), "files", "--format", "jsonl"]) == 0
    assert [json.loads(line)["live"] for line in capsys.readouterr().out.splitlines()] == [True] * 3


@pytest.mark.parametrize(
    ("words", "code"),
    [(("health",), 2), (("entries", "--ref", "main"), 2), (("entries", "--format", "mermaid"), 2)],
)
def test_what_means_nothing_to_a_root_is_wrong_usage(root, capsys, words, code):
    assert run(capsys, "inspect", str(root), *words)[0] == code


def test_tables_may_end_as_roots_do(root, tmp_path, capsys, monkeypatch):
    """A directory by its location or its name, and a name in a catalog."""
    table = TableBuilder(tmp_path / "t.parquet")
    table.append(range(3))
    monkeypatch.chdir(tmp_path)
    for name in (str(table.directory), f"file://{table.directory}", "t.parquet", "./t.parquet"):
        code, document = run(capsys, "inspect", name, "entries")
        assert (code, document["result"]["view"]) == (0, "entries"), name
    code, document = run(capsys, "inspect", "--catalog", "c", "db.parquet")
    assert (code, document["error"]["id"]) == (10, "catalog-not-found")
    monkeypatch.chdir(root.parent)
    assert run(capsys, "validate", "root.parquet")[0] == 0


def test_a_root_that_is_not_there_is_no_table(tmp_path, capsys):
    for command in ("inspect", "validate"):
        assert run(capsys, command, str(tmp_path / "root.parquet"))[0] == 10


def test_a_whole_root_has_no_findings(root, capsys):
    code, document = run(capsys, "validate", str(root))
    assert (code, document["result"]["findings"]) == (0, [])
    assert document["result"]["files_checked"] == 2


def rewritten(file: Path, change) -> None:
    """Write a manifest anew with some members of its rows changed by place."""
    read = read_draft(file.read_bytes())
    rows = read.rows.to_pylist()
    change(rows)
    file.write_bytes(write_draft(pa.Table.from_pylist(rows, schema=read.rows.schema), read.footer))


def leaf_of(root: Path) -> Path:
    return root.with_name("leaf-00001.parquet")


def with_size(root: Path) -> None:
    """Give the entry of the leaf the size that it has now."""
    rewritten(root, lambda rows: rows[0].update(file_size_in_bytes=leaf_of(root).stat().st_size))


def found_in(root: Path, capsys) -> list[str]:
    code, document = run(capsys, "validate", str(root))
    assert code == 4
    return sorted({one["rule"] for one in document["result"]["findings"]})


@pytest.mark.parametrize(
    ("place", "members", "rules"),
    [
        (0, {"dead_positions": write_mumbling([1, 3])}, ["V4-203"]),
        (0, {"dead_positions": write_mumbling([0])}, ["V4-204", "V4-210"]),
        (0, {"deleted_positions": write_mumbling([2])}, ["V4-204"]),
        (0, {"deleted_positions": b"\x01\x00"}, ["V4-202"]),
        (0, {"existing_files_count": 7}, ["V4-209"]),
        (0, {"added_rows_count": 7}, ["V4-209"]),
        (0, {"content": 4}, ["V4-206"]),
        (0, {"file_size_in_bytes": 7}, ["V4-211"]),
        (0, {"location": "nowhere.parquet"}, ["V4-211"]),
        (1, {"replaced_positions": write_mumbling([1])}, ["V4-205"]),
        (1, {"content": 2}, ["V4-207"]),
        (1, {"equality_ids": [1]}, ["V4-207"]),
        (1, {"status": 9}, ["V4-201"]),
        (1, {"sequence_number": None}, ["V4-208"]),
    ],
)
def test_what_is_wrong_with_a_root_is_found(root, capsys, place, members, rules):
    rewritten(root, lambda rows: rows[place].update(members))
    assert found_in(root, capsys) == rules


def test_what_is_wrong_with_a_leaf_is_found(root, capsys):
    rewritten(leaf_of(root), lambda rows: rows[0].update(content=3, location="x.parquet"))
    with_size(root)
    assert found_in(root, capsys) == ["V4-205", "V4-206"]
    leaf_of(root).write_bytes(b"PAR1")
    assert found_in(root, capsys) == ["V4-200"]


def test_findings_of_a_root_can_be_chosen(root, capsys):
    rewritten(root, lambda rows: rows[0].update(added_rows_count=7, file_size_in_bytes=7))
    for words in (("--rule", "V4-209"), ("--skip", "V4-211")):
        code, document = run(capsys, "validate", str(root), *words)
        assert code == 4
        assert [one["rule"] for one in document["result"]["findings"]] == ["V4-209"]


def test_a_root_of_another_writer_is_resolved_from_where_it_lies(root, tmp_path, capsys):
    """Without a word of icectl in its footer: relative locations are below the folder above."""
    folder = tmp_path / "other" / "metadata"
    folder.mkdir(parents=True)
    leaf_of(root).rename(folder / "leaf.parquet")
    read = read_draft(root.read_bytes())
    rows = read.rows.to_pylist()
    rows[0]["location"] = "metadata/leaf.parquet"
    stored = write_draft(pa.Table.from_pylist(rows, schema=read.rows.schema), {})
    (folder / "root.parquet").write_bytes(stored)
    code, document = run(capsys, "inspect", str(folder / "root.parquet"), "files")
    assert (code, len(document["result"]["rows"])) == (0, 3)
    assert all(
        row["location"].startswith(f"file:{tmp_path}/other/data/")
        for row in document["result"]["rows"]
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_of_a_root_ends_in_a_traceback(root, capsys, seed):
    chance = random.Random(seed)
    whole = root.read_bytes()
    codes = set()
    for _ in range(6):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        root.write_bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
        codes |= {run(capsys, command, str(root))[0] for command in ("inspect", "validate")}
    assert codes <= {0, 4, 14, 15}


def test_documents_of_the_draft_are_as_their_schemas_say(table, root, tmp_path, capsys):
    words = (str(table.directory), *FORM, "--to", str(tmp_path / "again"))
    for command, *arguments in (
        ("upgrade-to-v4", *words, "--check"),
        ("upgrade-to-v4", *words),
        ("inspect", str(root)),
        ("validate", str(root)),
    ):
        assert app.main(["schema", command]) == 0
        schema = json.loads(capsys.readouterr().out)
        code, document = run(capsys, command, *arguments)
        assert code == (4 if "--check" in arguments else 0)
        Draft202012Validator(schema).validate(document)


def live_files(capsys, *words: str) -> set[tuple[str, int]]:
    """The location and the row count of each file that a view has, deletion vectors left out."""
    rows = run(capsys, "inspect", *words)[1]["result"]["rows"]
    kept = [row for row in rows if row["content"] not in (1, "position_deletes")]
    return {
        (row.get("file_path") or row["location"].removeprefix("file:"), row["record_count"])
        for row in kept
    }


def test_an_export_has_the_live_files_of_its_table_and_no_findings(tmp_path, capsys):
    for name, table in draft_tables(tmp_path).items():
        folder = tmp_path / f"{name}-export"
        code, _ = run(capsys, "upgrade-to-v4", str(table), *FORM, "--to", str(folder))
        assert code == 0, name
        root = str(folder / "root.parquet")
        found = {
            (location.removeprefix("file:"), count)
            for location, count in live_files(capsys, str(table), "files")
        }
        assert live_files(capsys, root, "files") == found
        assert len(found) > 2
        assert run(capsys, "validate", root)[1]["result"]["findings"] == []
