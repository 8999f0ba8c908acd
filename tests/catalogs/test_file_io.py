"""From a catalog's words on storage to a store."""

from contextlib import closing

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from icectl.catalog.file_io import with_file_io, with_file_io_at
from icectl.storage.open import StorageOptions
from tests.catalogs.server import NAME
from tests.fault.changing import run
from tests.stores.s3_servers import KEY, SECRET


@pytest.mark.parametrize(
    ("properties", "location", "options"),
    [
        (
            {
                "s3.endpoint": "http://h:9000",
                "s3.access-key-id": "k",
                "s3.secret-access-key": "s",
                "s3.session-token": "t",
                "s3.region": "r",
                "s3.path-style-access": "true",
                "uri": "http://c",
            },
            "s3a://b/x",
            {
                "client_kwargs.endpoint_url": "http://h:9000",
                "key": "k",
                "secret": "s",
                "token": "t",
                "client_kwargs.region_name": "r",
                "config_kwargs.s3.addressing_style": "path",
            },
        ),
        (
            {"client.access-key-id": "c", "s3.access-key-id": "k", "client.region": "r"},
            "s3://b/x",
            {"key": "k", "client_kwargs.region_name": "r"},
        ),
        ({"gcs.oauth2.token": "t", "s3.session-token": "s"}, "gs://b/x", {"token": "t"}),
        ({"adls.account-key": "k"}, "abfss://c@a.dfs.core.windows.net/x", {"account_key": "k"}),
        ({"s3.region": "r"}, "gs://b/x", {}),
        ({}, "s3://b/x", {}),
    ],
)
def test_properties_concern_the_storage_that_they_are_of(properties, location, options):
    assert with_file_io(StorageOptions(), properties).of(location) == options


def test_what_the_user_gave_wins_and_the_longest_prefix_counts():
    given = StorageOptions(options={"key": "user"})
    found = with_file_io_at(
        given,
        {
            "": {"s3.access-key-id": "all", "s3.region": "r"},
            "s3://b/t": {"s3.access-key-id": "t", "s3.secret-access-key": "s"},
        },
    )
    assert found.of("s3://b/t/x") == {"key": "user", "secret": "s"}
    assert found.of("s3://b/u") == {"key": "user", "client_kwargs.region_name": "r"}


@pytest.mark.s3
def test_a_table_on_s3_is_reached_by_what_its_catalog_says(versitygw_server, tmp_path, monkeypatch):
    properties = {
        "uri": f"sqlite:///{tmp_path}/c.db", "s3.endpoint": versitygw_server.endpoint,
        "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": "us-east-1",
    }  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    for key, value in properties.items():
        variable = key.upper().replace(".", "__").replace("-", "_")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__{variable}", value)
    words = ["compact", f"{NAME}.db.t", "--engine", "local", "--rewrite-all", "--json"]
    versitygw_server.client.create_bucket(Bucket="catalogs")
    with closing(load_catalog(NAME, **properties, warehouse="s3://catalogs/w")) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
        for number in range(3):
            table.append(pa.table({"a": [number]}))
        code, document = run(words)
        assert code == 0, document
        table = catalog.load_table("db.t")
        assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [0, 1, 2]
    assert document["table"]["metadata_location_after"] == table.metadata_location
    assert table.metadata_location.startswith("s3://catalogs/w/")
