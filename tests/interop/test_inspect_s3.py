"""A table on a real S3 server: built locally, copied there, its metadata naming the bucket."""

import json

import pytest

from icectl.cli.app import main
from tests.builders.table_builder import filled_table
from tests.conftest import S3Server

pytestmark = [pytest.mark.s3]
BUCKET = "inspected"


@pytest.fixture(scope="module")
def s3_table(
    s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[str]]:
    """A table of three snapshots at s3://inspected/wh/orders, and the options to reach it."""
    location = f"s3://{BUCKET}/wh/orders"
    directory = tmp_path_factory.mktemp("orders")
    table = filled_table(directory, range(30), files=2, partitioning="identity", location=location)
    table.append(range(30, 60))
    table.delete_rows([1, 2, 31])
    client = s3_server.client
    client.create_bucket(Bucket=BUCKET)
    for path in directory.rglob("*"):
        if path.is_file():
            key = f"wh/orders/{path.relative_to(directory).as_posix()}"
            client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
    return location, [f"--storage-option={key}={value}" for key, value in s3_server.options.items()]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    code = main([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["exit"] == code
    return document


def test_inspect_counts_a_table_on_s3(s3_table, capsys):
    location, options = s3_table
    result = run(capsys, "inspect", location, *options)["result"]
    assert result["location"] == location
    assert result["metadata_location"] == f"{location}/metadata/v4.metadata.json"
    counts = [result[key] for key in ("snapshot_count", "data_file_count", "delete_file_count")]
    assert counts == [3, 9, 2]
    assert result["record_count"] == 60


@pytest.mark.parametrize("view", ["health", "files", "manifests", "tree"])
def test_views_of_a_table_on_s3(view, s3_table, capsys):
    location, options = s3_table
    assert run(capsys, "inspect", location, view, *options)["exit"] == 0


def test_a_bucket_that_is_not_there_ends_in_one_message(s3_table, capsys):
    location, options = s3_table
    document = run(capsys, "inspect", location.replace(BUCKET, "absent-bucket"), *options)
    assert document["exit"] in {10, 13}
    assert document["error"]["hint"]
