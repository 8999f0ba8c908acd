"""A compaction on a cluster: two workers in Java processes of their own, which put files on S3."""

import io
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.compactions import build
from tests.builders.rows import current_metadata, live_entries, read_metadata
from tests.spark.engine import command, environment, on_spark, skip_without_spark
from tests.stores.s3_servers import KEY, SECRET, S3Server

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.xdist_group("spark-runs")]

BUCKET = "compacted-on-a-cluster"
SETTINGS = {
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.speculation": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


@dataclass(frozen=True)
class Cluster:
    """What came of the run, the objects in the bucket, and all that Spark has written down."""

    live: list[int]
    directory: Path
    done: subprocess.CompletedProcess[str]
    objects: Mapping[str, bytes]
    events: list[dict[str, Any]]
    logs: list[str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, moto_server: S3Server) -> Cluster:
    """Compact a table of local files whose new ones belong into a bucket."""
    skip_without_spark()
    folder = tmp_path_factory.mktemp("cluster")
    table = build(folder / "t", 2, "two")
    table.set_properties({"write.data.path": f"s3://{BUCKET}/data"})
    moto_server.client.create_bucket(Bucket=BUCKET)
    home, events = folder / "spark", folder / "events"
    spark_home(home)
    events.mkdir()
    settings = SETTINGS | {"spark.eventLog.dir": events.as_uri()}
    run = command(
        "-m", "icectl", "compact", str(folder / "t"), "--min-input-files", "2", "--json", "-vv",
        "--target-file-size", "1MiB", "--master", "local-cluster[2,1,1024]",
        *(f"--spark-conf={key}={value}" for key, value in settings.items()),
        *(f"--storage-option={key}={value}" for key, value in moto_server.options.items()),
    )  # fmt: skip
    done = subprocess.run(
        run,
        cwd=folder,
        env=environment() | {"SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    listed = moto_server.client.list_objects_v2(Bucket=BUCKET)["Contents"]
    objects = {
        item["Key"]: moto_server.client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
        for item in listed
    }
    told = [path.read_text() for path in events.rglob("events_*")]
    lines = [json.loads(line) for text in told for line in text.splitlines()]
    logs = [path.read_text() for path in (home / "work").rglob("std*")]
    return Cluster(sorted(table.ids()), folder / "t", done, objects, lines, [*told, *logs])


def spark_home(home: Path) -> None:
    """A home with all that PySpark comes with, where workers may have their folders."""
    where = on_spark("-c", "import pyspark; print(pyspark.__path__[0])").stdout.strip()
    home.mkdir()
    for path in Path(where).iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)


def test_every_row_is_there_once_and_no_file_that_is_not_of_the_table(cluster):
    tables = [pq.read_table(io.BytesIO(content)) for content in cluster.objects.values()]
    assert sorted(id_ for table in tables for id_ in table["id"].to_pylist()) == cluster.live
    metadata = read_metadata(current_metadata(cluster.directory))
    (snapshot,) = (
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    live = {entry["data_file"]["file_path"] for entry in live_entries(snapshot)}
    assert {f"s3://{BUCKET}/{key}" for key in cluster.objects} == live
    assert json.loads(cluster.done.stdout)["status"] == "done"


def test_both_workers_took_part(cluster):
    ended = [event for event in cluster.events if event["Event"] == "SparkListenerTaskEnd"]
    assert {event["Task Info"]["Executor ID"] for event in ended} == {"0", "1"}
    assert len(ended) >= 4


def test_what_opens_the_storage_is_in_no_log_of_spark(cluster):
    assert len(cluster.logs) >= 5  # events, and two streams of each worker
    for text in (*cluster.logs, cluster.done.stderr):
        assert SECRET not in text
        assert KEY not in text
