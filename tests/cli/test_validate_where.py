"""`icectl validate --where`: it reads what can match, says what it did not read, and no more."""

from pathlib import Path

import pytest

from icectl.cli import session
from icectl.storage.local.store import LocalStore
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.builders.tree_table import upgrade
from tests.cli.conftest import result
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore

FORMS = (1, 2, 3, "eager", "lazy")
CATEGORIES = 3
"""As many as the builder's rows have: `c` and the remainder of the id."""
C1 = "category = 'c1'"


def build(directory: Path, form: object) -> TableBuilder:
    """Manifests of one category each; deletes of all of them, where the version has such."""
    table = TableBuilder(directory, form if isinstance(form, int) else 3, "identity")
    for category in range(CATEGORIES):
        table.append(range(category, 12, CATEGORIES))
    if form != 1:
        table.delete_rows(range(CATEGORIES))
    if not isinstance(form, int):
        upgrade(directory, FixedEnv(START_MS + 10**8), f"--{form}")
    return table


@pytest.fixture
def validate(prepared):
    return prepared("validate", FixedEnv(START_MS + 10**9))


def data_files(table: TableBuilder, category: str) -> list[Path]:
    folder = Path(table.location.removeprefix("file://"), "data")
    return sorted(folder.glob(f"category={category}/*.parquet"))


@pytest.mark.parametrize("form", FORMS)
def test_only_what_can_match_is_read_and_the_rest_is_counted(validate, tmp_path, form, monkeypatch):
    table = build(tmp_path / "t", form)
    store = CountingStore(LocalStore())
    monkeypatch.setattr(session, "open_store", lambda *_: store)
    ended = validate(table.location, "--where", C1, "--level", "data", "--json")
    found = result(ended)
    assert (ended.code, found["findings"]) == (0, [])
    assert (found["partial"], found["where"]) == (True, C1)
    if form != "eager":  # which makes one leaf of them
        assert found["skipped_manifests"] >= CATEGORIES - 1
    read = {location for method, location in store.calls if method in ("read", "open")}
    assert not [one for one in read if "/data/category=" in one and "category=c1" not in one]
    whole = result(validate(table.location, "--level", "data", "--json"))
    assert (whole["partial"], whole["where"], whole["skipped_files"]) == (False, None, 0)
    if form in (1, 2):  # a file of vectors holds several deletes
        assert found["files_decoded"] + found["skipped_files"] == whole["files_decoded"]
    assert found["bytes_read"] < whole["bytes_read"]


@pytest.mark.parametrize("form", [3, "lazy"])
@pytest.mark.parametrize(("category", "code"), [("c1", 4), ("c2", 0)])
def test_damage_shows_if_it_can_match(validate, tmp_path, form, category, code):
    table = build(tmp_path / "t", form)
    data_files(table, category)[0].unlink()
    ended = validate(table.location, "--where", C1, "--json")
    assert ended.code == code
    rule = "R-034" if isinstance(form, int) else "V4-182"
    assert [one["rule"] for one in result(ended)["findings"]] == ([rule] if code else [])


@pytest.mark.parametrize("form", [2, "eager"])
def test_files_of_a_manifest_are_chosen_by_their_metrics(validate, tmp_path, form):
    table = filled_table(tmp_path / "t", range(8), files=4)
    table.delete_rows([1, 6])
    if form == "eager":
        upgrade(tmp_path / "t", FixedEnv(START_MS + 10**8), "--eager")
    ended = validate(table.location, "--where", "id < 2", "--level", "data", "--verbose")
    assert ended.code == 0
    assert "no problems found (level data, files that may match: 1 snapshot" in ended.out
    assert "not checked: 3 files, 0 manifests)" in ended.out


def test_a_condition_that_is_none_is_wrong_usage(validate, tmp_path):
    ended = validate(build(tmp_path / "t", 2).location, "--where", "colour = 1")
    assert ended.code == 2
    assert "the table has no column `colour`" in ended.err
