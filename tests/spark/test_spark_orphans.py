"""Orphans found on Spark: those that are found without it, on files and in a bucket at once."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders.expiry import Aged, aged_table
from tests.builders.orphans import age, stray
from tests.spark.engine import on_spark, skip_without_spark
from tests.stores.s3_servers import KEY, SECRET, S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.xdist_group("spark-runs")]

BUCKET = "orphans-on-spark"
DATA = f"s3://{BUCKET}/wh/t/data"
DAY_SECONDS = 86_400
HOURS = [f"data/day={day}/hour={hour}" for day in range(3) for hour in range(4)]
ORPHANS = {
    "data/lost.parquet", "data/.lost.parquet.crc", "data/category=c0/lost%20%C3%A9.parquet",
    "data/category=a%2Fb/x=1/y=2/é lost.parquet", "metadata/lost-m0.avro",
    *(f"{folder}/lost.parquet" for folder in HOURS),
}  # fmt: skip
OTHERS = {
    "data/young.parquet", "data/_tmp/x", ".hidden/x", "metadata/icectl-expire-snapshots-1.json",
}  # fmt: skip
OBJECTS = {f"day={day}/{number}.parquet" for day in range(12) for number in range(3)}


@dataclass(frozen=True)
class Runs:
    """A plan without Spark, a removal on Spark, and another plan without."""

    table: Aged
    planned: dict[str, Any]
    removed: dict[str, Any]
    log: str
    after: dict[str, Any]
    objects_after: int


@pytest.fixture(scope="module")
def small_pages() -> Iterator[None]:
    """So few keys a page that listing goes on, and on Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "5")
        yield


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, moto_server: S3Server, small_pages: None
) -> Runs:
    """Litter a table and its bucket; plan, remove on Spark, and plan again."""
    skip_without_spark()
    table = aged_table(tmp_path_factory.mktemp("spark"), properties={"write.data.path": DATA})
    age(table.directory, 7)
    for name in (ORPHANS | OTHERS) - {"data/young.parquet"}:
        stray(table.directory, name)
    young = stray(table.directory, "data/young.parquet")
    os.utime(young, (time.time() + DAY_SECONDS,) * 2)
    client = moto_server.client
    client.create_bucket(Bucket=BUCKET)
    for name in OBJECTS | {"_tmp/x"}:
        client.put_object(Bucket=BUCKET, Key=f"wh/t/data/{name}", Body=b"..")
    time.sleep(3)  # S3 dates objects by the second, and clocks are set back now and then

    options = [
        argument
        for pair in moto_server.options.items()
        for argument in ("--storage-option", "=".join(pair))
    ]
    here = str(table.directory)
    before = datetime.now(UTC) - timedelta(seconds=1)
    command = [
        "-m", "icectl", "remove-orphans", here, "--location", here, "--location", DATA,
        "--delete-outside", "--older-than", before.isoformat(), "--allow-recent",
        "--max-fraction", "1", "--json", *options,
    ]  # fmt: skip
    planned = document(local(command))
    done = on_spark(*command, "--yes", "-vv", "--engine", "spark", "--master", "local[2]")
    after = document(local(command))
    left = client.list_objects_v2(Bucket=BUCKET)["Contents"]
    return Runs(table, planned, document(done), done.stderr, after, len(left))


def local(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command, "--dry-run"], capture_output=True, text=True, check=False
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_spark_finds_what_is_found_without_it(runs):
    found, expected = runs.removed["result"], runs.planned["result"]
    planned = ["older_than", "listed", "listed_bytes", "referenced", "orphans", "orphan_bytes",
               "outside", "left_alone"]  # fmt: skip
    assert [found[key] for key in planned] == [expected[key] for key in planned]
    directory = runs.table.directory
    paths = {str(Path(item["path"]).relative_to(directory)) for item in found["orphans"]}
    assert paths >= ORPHANS
    assert not OTHERS & paths
    assert {item["path"] for item in found["outside"]} == {f"{DATA}/{name}" for name in OBJECTS}
    assert {key: found["left_alone"][key] for key in ("recent", "hidden", "journal")} == {
        "recent": 1, "hidden": 3, "journal": 1,
    }  # fmt: skip


def test_what_spark_found_is_gone_and_all_else_is_there(runs):
    found = runs.removed["result"]
    assert found["removed"] == len(found["orphans"]) + len(OBJECTS)
    assert found["failed"] == []
    assert runs.after["result"]["listed"] == found["listed"] - found["removed"]
    assert (runs.after["status"], runs.objects_after) == ("nothing-to-do", 1)
    runs.table.check_readable()


def test_workers_listed_both_and_no_secret_is_in_the_log(runs):
    assert "debug: icectl.rows.spark_classic: " in runs.log
    started = next(line for line in runs.log.splitlines() if "tasks on Spark" in line)
    assert started.endswith("listing the rest in 8 tasks on Spark")  # local folders and key ranges
    assert SECRET not in runs.log
    assert KEY not in runs.log
    spoken = [line for line in runs.log.splitlines() if "icectl.rows.spark" in line]
    assert not any("***" in line for line in spoken)
