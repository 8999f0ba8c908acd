"""The same retention as Iceberg's procedure: on the same tables, at the same instant."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import Run, asked_for, icectl, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

QUICK = [
    "by_age_v1", "by_age_and_count", "with_deletes", "v4_with_vectors", "with_refs", "rolled_back",
    "short_lived_refs",
]  # fmt: skip
FULL = ["by_age", "with_vectors", "with_refs_v3", "by_properties"]
TABLES = [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in FULL)]
KEPT_BY_SPARK = (".metadata.json", "version-hint.text", ".crc")


@dataclass(frozen=True)
class Expiries:
    """icectl's plans, what the procedure then left, and which files it took."""

    plans: Mapping[str, Run]
    left: Mapping[str, Any]
    gone: Mapping[str, set[str]]


def documents(output: str) -> dict[str, Any]:
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {one["table"]: one for one in found}


def files(table: Path) -> set[str]:
    """Everything but metadata files and checksums."""
    every = (path for path in table.rglob("*") if path.is_file())
    return {str(path.relative_to(table)) for path in every if not path.name.endswith(KEPT_BY_SPARK)}


@pytest.fixture(scope="module")
def expiries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Expiries:
    """Write the tables that are asked for, plan with icectl, expire with Spark."""
    warehouse, wanted = tmp_path_factory.mktemp("aged"), sorted(asked_for(request))
    told = documents(peer("age", str(warehouse), *wanted))
    tables = {name: warehouse / "db" / name for name in told}
    plans = {}
    for name, one in told.items():
        options = []
        if one["older_than"] is not None:
            options = ["--older-than", one["older_than"], "--retain-last", str(one["retain_last"])]
        plans[name] = icectl("expire-snapshots", str(tables[name]), *options, "--dry-run")
    before = {name: files(table) for name, table in tables.items()}
    left = documents(peer("expire", str(warehouse), *wanted))
    gone = {name: before[name] - files(table) for name, table in tables.items()}
    return Expiries(plans, left, gone)


@pytest.mark.parametrize("name", TABLES)
def test_the_same_snapshots_and_refs_stay(expiries, name):
    run, left = expiries.plans[name], expiries.left[name]
    assert run.exit_code == 0, run.errors
    result = run.document["result"]
    assert {int(item["snapshot_id"]) for item in result["kept"]} == set(left["snapshots"])
    assert len(result["expired"]) > 0
    refs = {item["name"] for item in result["refs_removed"]}
    assert refs.isdisjoint(left["refs"])
    assert bool(refs) == (name == "short_lived_refs")


@pytest.mark.parametrize("name", TABLES)
def test_the_same_files_go(expiries, name):
    result = expiries.plans[name].document["result"]
    planned = {item["path"].rpartition(f"/{name}/")[2] for item in result["files"]}
    assert planned == expiries.gone[name]
