"""A store that takes no notice of conditions, rclone's server: read from, never committed to."""

import json
from pathlib import Path

import pytest

from icectl.cli import app
from icectl.errors import Refused
from icectl.storage.open import StorageOptions, open_store
from tests.builders.expiry import NOW_MS
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import NUMBERS, Bucket
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import S3Server

pytestmark = pytest.mark.s3

COMMANDS = {
    "expire-snapshots": ("--older-than", "0s"),
    "rewrite-manifests": (),
    "migrate-v1-v2": (),
}


@pytest.fixture
def careless(rclone_server: S3Server, tmp_path: Path) -> Bucket:
    """A new bucket of rclone's server, a version 1 table in it that every command changes."""
    made = Bucket(rclone_server, f"careless-{next(NUMBERS)}", tmp_path)
    made.client.create_bucket(Bucket=made.name)
    table = TableBuilder(tmp_path / "t", format_version=1, location=made.location("t"))
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    made.upload("t")
    return made


def test_the_server_overwrites_under_a_condition(careless):
    for body in (b"first", b"second"):
        careless.client.put_object(Bucket=careless.name, Key="wh/probe", Body=body, IfNoneMatch="*")
    found = careless.client.get_object(Bucket=careless.name, Key="wh/probe")
    assert found["Body"].read() == b"second"


@pytest.mark.parametrize("command", COMMANDS)
def test_rules_1_and_8_every_command_refuses_to_commit_where_conditions_are_ignored(
    careless, command, capsys, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(careless.directory))
    before = careless.keys("t")
    words = [command, careless.location("t"), *COMMANDS[command], *careless.arguments]
    assert app.main([*words, "--check"], env=FixedEnv(NOW_MS)) == 4
    capsys.readouterr()
    code = app.main([*words, "--yes", "--json"], env=FixedEnv(NOW_MS))
    document = json.loads(capsys.readouterr().out)
    assert (code, document["error"]["id"]) == (5, "conditional-put-ignored")
    assert careless.keys("t") == before
    assert app.main(["inspect", careless.location("t"), *careless.arguments]) == 0


def test_incident_12_no_object_is_written_before_the_condition_has_held(careless):
    store = open_store(StorageOptions(careless.server.options), FixedEnv())
    place = f"{careless.location('t')}/metadata/v99.metadata.json"
    before = careless.keys("t")
    for _ in range(2):
        with pytest.raises(Refused, match="ignores conditional writes"):
            store.create(place, b"{}")
    assert careless.keys("t") == before
