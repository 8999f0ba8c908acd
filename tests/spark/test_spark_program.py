"""icectl.spark in a program whose session has settings that nobody would wish for."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from icectl.cli.document import document_schema
from icectl.format.metadata import TableMetadata
from icectl.rows.sort_rows import parse_sort_order, parse_zorder
from icectl.table.output_sizes import sizes_of
from tests.builders.compactions import build, compacted, lineage, planned
from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.conftest import ROOT
from tests.spark.engine import on_spark, skip_without_spark
from tests.spark.programs import (
    COMPACTED,
    TABLES,
    build_tables,
    checked,
    rows,
    told_by,
    unreferenced,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]


@dataclass(frozen=True)
class Program:
    """What the program has told, its tables, and their twins after the engine without Spark."""

    told: dict[str, Any]
    folder: Path
    checked: dict[str, Any]
    before: dict[str, list[Any]]
    lineage_before: dict[int, tuple[int, int]]
    twins: Path
    orphan: Path

    def document(self, name: str) -> Any:
        """The document of a call."""
        return self.told[name]["document"]


def order(name: str, metadata: TableMetadata) -> Any:
    if name == "sorted":
        return parse_sort_order("category desc, id", metadata)
    return parse_zorder("id,at", metadata) if name == "z-ordered" else None


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Build every table twice, maintain one in the program, and compact the other without Spark."""
    skip_without_spark()
    folder, twins = (tmp_path_factory.mktemp(name) for name in ("program", "twins"))
    build_tables(folder)
    for name in COMPACTED:
        version, partitioning = TABLES[name]
        twin = build(twins / name, version, partitioning)
        metadata = planned(Path(twin.location)).loaded.metadata
        chosen = {"sizes": sizes_of(4 << 10, None, None), "order": order(name, metadata)}
        compacted(twins / name, planned(twins / name, **chosen))
    orphan = folder / "packed/data/lost.parquet"
    orphan.write_bytes(b"lost")
    week_ago = time.time() - 7 * 86_400
    os.utime(orphan, (week_ago, week_ago))
    found = {name: checked(folder / name) for name in TABLES}
    before = {name: rows(folder / name) for name in COMPACTED}
    of_sorted = lineage(folder / "sorted")
    done = on_spark(str(ROOT / "tests/peers/spark_program.py"), str(folder))
    assert done.returncode == 0, done.stderr[-4000:]
    return Program(told_by(done.stdout), folder, found, before, of_sorted, twins, orphan)


@pytest.mark.parametrize("name", TABLES)
def test_a_check_on_spark_finds_what_is_found_without_it(program, name):
    assert program.document(f"checked {name}") == program.checked[name]
    assert program.checked[name]["exit"] == (4 if name == "wrong" else 0)
    assert program.checked[name]["result"]["files_decoded"] > 10


@pytest.mark.parametrize("name", COMPACTED)
def test_no_setting_of_the_session_changes_a_row(program, name):
    assert program.document(name)["status"] == "done"
    assert rows(program.folder / name) == program.before[name]
    assert rows(program.twins / name) == program.before[name]


def test_row_ids_stay_with_their_rows(program):
    assert lineage(program.folder / "sorted") == program.lineage_before


@pytest.mark.parametrize("name", COMPACTED)
def test_what_columns_hold_is_what_they_hold_without_spark(program, name):
    assert held(program.folder / name) == held(program.twins / name)


def held(directory: Path) -> dict[int, tuple[int, int]]:
    """Values and nulls of each column over all live files."""
    metadata = read_metadata(current_metadata(directory))
    (snapshot,) = (
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    found: dict[int, tuple[int, int]] = {}
    for entry in live_entries(snapshot):
        file = entry["data_file"]
        nulls = pairs(file["null_value_counts"])
        for field, count in pairs(file["value_counts"]).items():
            values, empty = found.get(field, (0, 0))
            found[field] = (values + count, empty + nulls.get(field, 0))
    return found


def pairs(stored: Any) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in stored or ()}


def test_each_report_is_the_document_of_the_command_line(program):
    commands = {"plan": "compact", "packed": "compact"}
    names = ("plan", "packed", "validate", "inspect", "rewrite-manifests", "expire-snapshots",
             "remove-orphans", "repair")  # fmt: skip
    for name in names:
        command = commands.get(name, name)
        jsonschema.validate(program.document(name), document_schema(command))


def test_a_plan_is_what_is_then_done(program):
    plan, done = program.document("plan"), program.document("packed")
    assert (plan["status"], plan["dry_run"], done["dry_run"]) == ("planned", True, False)
    assert plan["table"]["metadata_location_after"] is None
    assert done["table"]["metadata_location_after"] is not None
    groups = [[one["partition"] for one in told["result"]["groups"]] for told in (plan, done)]
    assert groups[0] == groups[1]


def test_the_other_commands_do_their_work(program):
    assert program.document("validate")["exit"] == 0
    assert len(program.document("inspect")["result"]["rows"]) == 1
    assert program.document("expire-snapshots")["status"] == "done"
    removed = program.document("remove-orphans")
    assert (removed["status"], removed["result"]["removed"]) == ("done", 1)
    assert not program.orphan.exists()


def test_errors_are_raised_as_what_they_are(program):
    assert program.told["none"]["error"] == "TableNotFound"
    assert program.told["master"]["error"] == "UsageError"
    assert "this process already has one" in program.told["master"]["message"]
    assert program.told["wrong"]["error"] == "CorruptTable"
    assert "hidden" not in program.told["secret"]["message"]


def test_workers_of_another_minor_version_are_told_of(program):
    told = program.told["other python"]
    assert told["error"] == "EngineError"
    assert "PYTHON_VERSION_MISMATCH" in told["message"]
    assert "PYSPARK_PYTHON names the Python of the workers" in told["hint"]


def test_what_fails_leaves_no_file_behind(program):
    assert not unreferenced(program.folder / "wrong")


def test_progress_is_told(program):
    pattern = r"rewriting data files of [1-9][0-9,]* rows on Spark"
    assert [phase for phase in program.told["phases"]["phases"] if re.fullmatch(pattern, phase)]
    moments = program.told["moments"]["moments"]
    assert moments[0][0] == 0
    assert all(done <= total for done, total in moments)


def test_the_session_is_as_it_was(program):
    assert program.told["left"] == {"same": True, "alive": 5}
