"""The README's trial on a copy, run for a table of PyIceberg's catalog: the copy is independent."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

from tests.builders.folders import contents_by_name
from tests.interop.conftest import Run

README = Path(__file__).parents[2] / "README.md"
SCHEMA = pa.schema([("id", pa.int64())])
OTHER_UUID = "0190c1a4-5b6c-7d8e-9f01-23456789abcd"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture
def orders(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table in the folder `orders` of the working directory, and in the catalog `test`."""
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "icectl.toml"
    uri = f"sqlite:///{tmp_path}/catalog.db"
    settings.write_text(f'[catalog.test]\ntype = "sql"\nuri = "{uri}"\n')
    monkeypatch.setenv("ICECTL_CONFIG", str(settings))
    table = catalog.create_table("db.orders", SCHEMA, location=f"file://{tmp_path}/orders")
    for number in range(6):
        table.append(pa.table({"id": [number, number + 10]}, SCHEMA))
    return table


def ids(metadata_file: Path) -> list[int]:
    scanned = StaticTable.from_metadata(str(metadata_file)).scan().to_arrow()
    return sorted(scanned["id"].to_pylist())


def newest(folder: str) -> Path:
    found = sorted(Path(folder).glob("metadata/v*.metadata.json"))
    return max(found, key=lambda path: int(path.name[1:].split(".")[0]))


def copied(original: str = "orders", copy: str = "trial") -> None:
    shutil.copytree(original, copy)


def test_the_recipe_of_the_readme_works_for_a_table_of_a_catalog(
    orders: Table, catalog: SqlCatalog, run: Run
) -> None:
    block = next(
        block for block in re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
        if "--new-uuid" in block
    )  # fmt: skip
    files, rows = contents_by_name(Path("orders")), ids(Path(orders.metadata_location[7:]))
    ran = []
    for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        words = shlex.split(line.partition(" | ")[0])
        if words[0] == "cp":
            assert words == ["cp", "-r", "orders", "trial"]
            copied()
        elif "trial" in words:
            run(*words[1:])
            ran.append(words[1])
    assert ran == ["relocate", "compact"]
    run("compact", "trial", "--engine", "local", "--yes")
    run("expire-snapshots", "trial", "--older-than", "0s", "--retain-last", "1", "--yes")
    orphans = ("--older-than", "0s", "--allow-recent", "--max-fraction", "1", "--yes")
    run("remove-orphans", "trial", *orphans)
    assert ids(newest("trial")) == rows
    found = run("validate", "trial", "--level", "data", "--all-snapshots")
    assert found["result"]["counts"]["error"] == 0
    # The original and its catalog know nothing of it.
    assert contents_by_name(Path("orders")) == files
    catalog.load_table("db.orders").append(pa.table({"id": [99]}, SCHEMA))
    assert run("validate", "test.db.orders")["exit"] == 0
    assert len(list(Path("trial").rglob("*.parquet"))) == 1


def test_a_copy_elsewhere_is_independent_too(orders: Table, run: Run) -> None:
    place = f"file://{Path.cwd()}/trial"
    words = ("relocate", "test.db.orders", "--to", place, "--new-uuid", "--copy-list", "copy.csv")
    done = run(*words)["result"]
    assert (done["metadata_file"], done["needs_registering"]) == (
        f"{place}/metadata/v1.metadata.json", False,
    )  # fmt: skip
    for line in Path("copy.csv").read_text().splitlines():
        source, target = (Path(place.removeprefix("file://")) for place in line.split(","))
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    run("compact", "trial", "--engine", "local", "--rewrite-all", "--yes")
    assert ids(newest("trial")) == ids(Path(orders.metadata_location[7:]))


def test_a_run_that_was_killed_before_the_renaming_is_finished_by_the_next(
    orders: Table, run: Run
) -> None:
    copied()
    run("relocate", "trial", "--new-uuid")
    for path in Path("trial/metadata").glob("*.original"):
        path.rename(path.with_suffix(""))
    assert run("compact", "trial", "--rewrite-all", "--yes", code=5)["exit"] == 5
    done = run("relocate", "trial", "--new-uuid")
    assert (done["status"], len(done["result"]["set_aside"])) == ("done", 7)
    run("compact", "trial", "--engine", "local", "--rewrite-all", "--yes")
    assert run("relocate", "trial", "--new-uuid")["status"] == "nothing-to-do"


def test_what_a_dropped_table_has_left_is_no_part_of_the_copy(
    orders: Table, catalog: SqlCatalog, run: Run
) -> None:
    location = orders.location()
    catalog.drop_table("db.orders")
    again = catalog.create_table("db.orders", SCHEMA, location=location)
    again.append(pa.table({"id": [1]}, SCHEMA))
    copied()
    # Of the dropped table version 6 is left, of the one in the catalog there is version 1.
    assert run("relocate", "trial", "--new-uuid", "--metadata-file",
               Path(again.metadata_location).name, code=5)["exit"] == 5  # fmt: skip
    for path in Path("trial/metadata").glob("0000[2-6]-*.metadata.json"):
        path.unlink()
    words = ("--metadata-file", Path(again.metadata_location).name)
    assert len(run("relocate", "trial", "--new-uuid", *words)["result"]["set_aside"]) == 4
    run("compact", "trial", "--engine", "local", "--rewrite-all", "--yes")
    assert ids(newest("trial")) == [1]


@pytest.mark.parametrize(
    ("change", "id_"),
    [
        ("doubled", "current-unknown"),
        ("another table's", "place-taken"),
        ("damaged", "place-taken"),
    ],
)
def test_what_cannot_be_told_is_refused(orders: Table, run: Run, change: str, id_: str) -> None:
    copied()
    folder = Path("trial/metadata")
    current = Path(orders.metadata_location).name
    members = json.loads((folder / current).read_text())
    if change == "doubled":
        shutil.copy(folder / current, folder / f"00006-{OTHER_UUID}.metadata.json")
    else:
        members |= {"table-uuid": OTHER_UUID, "location": "file:///other"}
        text = json.dumps(members) if change == "another table's" else "{"
        (folder / f"00002-{OTHER_UUID}.metadata.json").write_text(text)
    before = contents_by_name(Path("trial"))
    assert run("relocate", "trial", "--new-uuid", code=5)["error"]["id"] == id_
    assert contents_by_name(Path("trial")) == before


@pytest.mark.parametrize("table", ["test.db.orders", "orders"])
def test_a_new_uuid_without_a_copy_is_wrong_usage(orders: Table, run: Run, table: str) -> None:
    document = run("relocate", table, "--new-uuid", "--dry-run", code=2)
    assert "is not a copy" in document["error"]["message"]
    assert "`--to`" in document["error"]["hint"]
