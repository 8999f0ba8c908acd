"""Whether a command may delete files of a table at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.protocol import LoadedTable
from icectl.errors import CorruptTable, Refused
from icectl.format.metadata import TableMetadata
from icectl.storage.local.store import LocalStore
from icectl.table.guard import check_deletable, check_gc_enabled
from tests.builders.history import history
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    TableBuilder(tmp_path / "t").append(range(4))
    return FileSystemCatalog(LocalStore(), str(tmp_path / "t"), FixedEnv())


def changed(loaded: LoadedTable, **values: object) -> LoadedTable:
    return replace(loaded, metadata=replace(loaded.metadata, **values))  # type: ignore[arg-type]


def with_property(value: str) -> TableMetadata:
    return history([], {}, {"gc.enabled": value})


def test_r193_a_table_that_may_share_its_files_is_refused(catalog):
    loaded = catalog.load()
    sharing = changed(loaded, properties={"gc.enabled": "false"})
    for check in (
        lambda: check_gc_enabled(with_property("false")),
        lambda: check_deletable(catalog, sharing, loaded.metadata.last_updated_ms),
    ):
        with pytest.raises(Refused, match=r"`gc\.enabled` is false") as raised:
            check()
        assert raised.value.error_id == "gc-disabled"


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_r193_a_table_that_says_nothing_else_owns_its_files(value):
    check_gc_enabled(with_property(value))
    check_gc_enabled(history([], {}))


def test_a_table_that_its_catalog_maintains_is_refused_before_its_properties_are(catalog):
    loaded = catalog.load()
    kept = replace(loaded.capabilities, maintained_by="Glue's optimizers")
    sharing = changed(replace(loaded, capabilities=kept), properties={"gc.enabled": "false"})
    with pytest.raises(Refused, match="for Glue's optimizers") as raised:
        check_deletable(catalog, sharing, loaded.metadata.last_updated_ms)
    assert raised.value.error_id == "maintained-elsewhere"


def test_a_clock_more_than_a_minute_behind_the_last_commit_is_refused(catalog):
    loaded = catalog.load()
    last = loaded.metadata.last_updated_ms
    for now_ms in (last - 60_000, last, last + 10**12):
        check_deletable(catalog, loaded, now_ms)
    with pytest.raises(Refused, match="more than a minute behind") as raised:
        check_deletable(catalog, loaded, last - 60_001)
    assert raised.value.error_id == "clock-behind"


def test_r015_a_table_whose_current_snapshot_is_not_sure_is_refused(catalog):
    loaded = catalog.load()
    damaged = changed(loaded, current_snapshot_id=12_345)
    with pytest.raises(CorruptTable) as raised:
        check_deletable(catalog, damaged, loaded.metadata.last_updated_ms)
    assert raised.value.rule == "R-015"


def test_a_table_that_a_catalog_owns_is_refused(catalog, tmp_path):
    folder = tmp_path / "t" / "metadata"
    loaded = catalog.load()
    owned = folder / "00002-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    owned.write_bytes((folder / "v2.metadata.json").read_bytes())
    with pytest.raises(Refused):
        check_deletable(catalog, loaded, loaded.metadata.last_updated_ms)
