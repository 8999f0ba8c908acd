"""Files that stay are found by every spelling of their locations and by every name of a folder."""

import pyarrow as pa
import pytest

from icectl.table.known_locations import KnownFiles


def known(files: KnownFiles, *locations: str) -> list[bool]:
    found: list[bool] = files.contain(pa.array(locations, pa.string())).to_pylist()
    return found


def added(*locations: str, local: bool) -> KnownFiles:
    files = KnownFiles(local=local)
    for location in locations:
        files.add(pa.array([location]))
    return files


@pytest.mark.parametrize("local", [True, False])
def test_any_spelling_of_a_location_is_known(local):
    files = added("/wh/t/data/a b.parquet", "s3://bucket/t/c.parquet", local=local)
    assert known(files, "file:///wh/t/data/a b.parquet", "/wh/t/data/b.parquet") == [True, False]
    assert known(files, "s3a://bucket/t/c.parquet", "s3://bucket/t/d.parquet") == [True, False]
    assert known(files) == []


def test_a_folder_has_all_names_that_links_give_it(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for first, other in (("real", "link"), ("link", "real")):
        files = added(f"{tmp_path}/{first}/a.parquet", local=True)
        asked = [f"{tmp_path}/{other}/{name}.parquet" for name in ("b", "a", "c")]
        assert known(files, *asked) == [False, True, False]
        assert known(added(f"{tmp_path}/{first}/a.parquet", local=False), *asked) == [False] * 3


def test_locations_as_spelt_are_to_be_had_without_names_of_folders(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files = added(f"{tmp_path}/real/a.parquet", local=True)
    asked = pa.array([f"{tmp_path}/{name}/a.parquet" for name in ("real", "link")])
    assert files.locations.contains(asked).to_pylist() == [True, False]
