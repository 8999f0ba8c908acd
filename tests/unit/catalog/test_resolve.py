"""The forms of TABLE on the command line."""

import shutil

import pytest

from icectl.catalog.files import NAMED_FILE, FileSystemCatalog, NamedFileCatalog, SingleFileCatalog
from icectl.catalog.resolve import resolve
from icectl.errors import Refused, TableNotFound, UsageError
from icectl.storage.local.store import LocalStore

STORE = LocalStore()


def open_(table, env, *, read_only=True, metadata_file=None):
    return resolve(table, STORE, env, read_only=read_only, metadata_file=metadata_file)


@pytest.mark.parametrize(
    ("argument", "location"),
    [
        ("/wh/db/t", "/wh/db/t"),
        ("/wh/db/t/", "/wh/db/t"),
        ("file:///wh/db/t/", "file:///wh/db/t"),
        ("s3://bucket/wh/db/t", "s3://bucket/wh/db/t"),
        ("s3://bucket/wh/db/t//", "s3://bucket/wh/db/t"),
        ("s3://bucket", "s3://bucket"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_location_is_a_directory(fixed_env, argument, location, read_only):
    assert open_(argument, fixed_env, read_only=read_only) == FileSystemCatalog(
        STORE, location, fixed_env
    )


@pytest.mark.parametrize("argument", ["t", "./t", "t/", "cat.db.t"])
def test_a_relative_directory_becomes_absolute(fixed_env, tmp_path, monkeypatch, argument):
    monkeypatch.chdir(tmp_path)
    name = argument.strip("./")
    (tmp_path / name).mkdir()
    assert open_(argument, fixed_env) == FileSystemCatalog(STORE, f"{tmp_path}/{name}", fixed_env)


@pytest.mark.parametrize("argument", ["s3://", "s3:///wh/t", "S3A:/bucket/t", "s3n:bucket/t"])
def test_a_location_on_s3_names_a_bucket(fixed_env, argument):
    with pytest.raises(UsageError, match=f"^`{argument}` names no bucket$"):
        open_(argument, fixed_env)


FILES = ["v1.metadata.json", "v1.gz.metadata.json", "v1.metadata.json.gz", "base.json"]


@pytest.mark.parametrize("name", FILES)
def test_one_metadata_file_is_for_reading(fixed_env, tmp_path, name):
    (tmp_path / name).write_bytes(b"{}")
    assert open_(f"{tmp_path}/{name}", fixed_env) == SingleFileCatalog(STORE, f"{tmp_path}/{name}")
    with pytest.raises(Refused) as caught:
        open_(f"{tmp_path}/{name}", fixed_env, read_only=False)
    assert caught.value.message == (
        f"{tmp_path}/{name} is a single metadata file, and may not be the current one"
    )


@pytest.mark.parametrize("read_only", [True, False])
def test_a_metadata_file_that_is_missing_is_no_table(fixed_env, tmp_path, read_only):
    with pytest.raises(TableNotFound, match=r"^no metadata file .*/v1\.metadata\.json$"):
        open_(f"{tmp_path}/v1.metadata.json", fixed_env, read_only=read_only).load()


def test_a_directory_may_end_like_a_file(fixed_env, tmp_path):
    (tmp_path / "t.json").mkdir()
    assert isinstance(open_(f"{tmp_path}/t.json", fixed_env), FileSystemCatalog)


def test_a_single_file_refuses_every_commit(fixed_env, fixtures_dir, tmp_path):
    source = fixtures_dir / "polars/iceberg-table/metadata/v2.metadata.json"
    catalog = open_(str(shutil.copy(source, tmp_path / "v2.metadata.json")), fixed_env)
    loaded = catalog.load()
    assert (loaded.version, loaded.capabilities) == (2, NAMED_FILE)
    with pytest.raises(Refused, match="is a single metadata file"):
        catalog.check_writable(loaded)
    with pytest.raises(Refused, match="is a single metadata file"):
        catalog.commit(loaded, (), [])


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ("00002-x.metadata.json", "/wh/t/metadata/00002-x.metadata.json"),
        ("/else/00002-x.metadata.json", "/else/00002-x.metadata.json"),
        ("s3://b/00002-x.metadata.json", "s3://b/00002-x.metadata.json"),
    ],
)
def test_the_given_metadata_file_is_a_location_or_a_name(fixed_env, given, location):
    catalog = open_("/wh/t", fixed_env, read_only=False, metadata_file=given)
    assert catalog == NamedFileCatalog(STORE, "/wh/t", fixed_env, location)


def test_a_relative_metadata_file_becomes_absolute(fixed_env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalog = open_("/wh/t", fixed_env, metadata_file="t/metadata/v1.metadata.json")
    assert catalog.metadata_file == f"{tmp_path}/t/metadata/v1.metadata.json"


def test_a_metadata_file_is_named_once(fixed_env, tmp_path):
    (tmp_path / "v1.metadata.json").write_bytes(b"{}")
    with pytest.raises(UsageError, match="names the metadata file"):
        open_(f"{tmp_path}/v1.metadata.json", fixed_env, metadata_file="v1.metadata.json")


def test_a_file_on_another_host_is_told_as_such(fixed_env):
    assert isinstance(open_("file://elsewhere/v1.metadata.json", fixed_env), SingleFileCatalog)
