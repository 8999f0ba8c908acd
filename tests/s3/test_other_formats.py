"""Folders of a bucket without an Iceberg table are called what they are, as on local disks."""

import json

import pytest

from icectl.cli import app
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv
from tests.unit.catalog.test_other_formats import CASES, put

pytestmark = pytest.mark.s3


def test_a_folder_is_called_what_it_is(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for number, (_, files) in enumerate(CASES):
        name = f"f{number}"
        put(bucket.directory / name, files)
        bucket.upload(name)
        words = ["validate", bucket.location(name), "--json", *bucket.arguments]
        assert app.main(words, env=FixedEnv()) == 10
        message = json.loads(capsys.readouterr().out)["error"]["message"]
        told.append(message.partition(f"no Iceberg table at {bucket.location(name)}")[2])
    assert told == ["" if what is None else f": it is {what}" for what, _ in CASES]
