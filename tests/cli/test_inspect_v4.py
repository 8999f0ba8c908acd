"""`icectl inspect` on tables of version 4: what every view told before the upgrade, and roots."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli import app
from icectl.report.document import document_schema
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.cli.conftest import Ended
from tests.stores.fixed_env import FixedEnv

HOUR_MS = 3_600_000
Inspect = Callable[..., Ended]


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inspect:
    """Run `icectl inspect`, a day after the builder's tables begin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def run(*arguments: object) -> Ended:
        code = app.main(["inspect", *map(str, arguments)], env=FixedEnv(START_MS + 24 * HOUR_MS))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


def result(ended: Ended) -> dict[str, Any]:
    """The result of a run with --json that ended well and keeps to the schema."""
    assert (ended.code, ended.err) == (0, "")
    Draft202012Validator(document_schema("inspect")).validate(ended.document)
    found: dict[str, Any] = ended.document["result"]
    return found


@pytest.fixture
def directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A table of version 3 with delete vectors, upgraded, and two of its files removed then."""
    table = TableBuilder(tmp_path / "t", format_version=3, partitioning="identity")
    table.append(range(6))
    table.append(range(6, 12))
    table.delete_rows([1, 7])
    env = FixedEnv(START_MS + HOUR_MS)
    upgrade(tmp_path / "t", env)
    files = data_files(tmp_path / "t")
    remove_data_files(tmp_path / "t", env, files[:1])
    remove_data_files(tmp_path / "t", env, files[1:2])
    capsys.readouterr()
    return tmp_path / "t"


def test_the_tree_has_a_root_and_what_its_vectors_kill(inspect: Inspect, directory: Path) -> None:
    (snapshot,) = result(inspect(directory, "tree", "--json"))["tree"]["children"]
    (root,) = snapshot["children"]
    assert root["kind"] == "root-manifest"
    assert root["size_bytes"] == Path(root["location"].removeprefix("file:")).stat().st_size
    vectors = [node for node in root["children"] if node["kind"] == "manifest-dv"]
    live = [node for node in vectors if node["status"] != "deleted"]
    assert sum(node["position_count"] for node in live) == 2
    assert [len(node["children"]) for node in live] == [node["position_count"] for node in live]
    text = inspect(directory, "tree").out
    assert "root manifest, " in text
    assert " dead, " not in text
    assert inspect(directory, "tree", "-v").out.count(" dead, ") == 2


def test_mermaid_and_html_draw_the_root(inspect: Inspect, directory: Path, tmp_path: Path) -> None:
    drawn = inspect(directory, "tree", "--format", "mermaid").out
    assert "|applies to| manifest_" in drawn
    page = tmp_path / "tree.html"
    assert inspect(directory, "tree", "--html", page).out == f"wrote {page}\n"
    html = page.read_text()
    assert html.count("Manifest Delete Vector</text>") == 2
    assert html.count("<svg") == html.count("</svg>") == 1
    assert "http" not in html
    assert "<script" not in html
