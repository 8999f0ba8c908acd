"""Tables of upserts, which PyIceberg can't read: it can once equality deletes are converted."""

import pytest
from pyiceberg.table import StaticTable

from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import prepared
from tests.stores.fixed_env import FixedEnv

__all__ = ["prepared"]


@pytest.mark.parametrize("partitioning", ["none", "two"])
@pytest.mark.parametrize("version", [2, 3])
def test_pyiceberg_reads_all_rows_once_deletes_are_converted(
    tmp_path, prepared, version, partitioning
):
    table = TableBuilder(tmp_path / "t", format_version=version, partitioning=partitioning)
    table.append(range(40), files=2)
    table.delete_rows([2, 30])
    for keys in ([1, 2, 17, 500], [3, 17], [39, 1]):
        table.delete_rows(keys, kind="keys")
        table.append(keys)
    table.delete_rows([5, 17])
    table.delete_rows([6], kind="equality")

    def read() -> list[int]:
        loaded = StaticTable.from_metadata(str(current_metadata(tmp_path / "t")))
        ids: list[int] = loaded.scan().to_arrow()["id"].to_pylist()
        return sorted(ids)

    with pytest.raises(ValueError, match="equality deletes"):
        read()
    env = FixedEnv(NOW_MS)
    ended = prepared("compact", env)(table.location, "--deletes-only", "--engine", "local")
    assert ended.code == 0, ended.err
    assert read() == sorted(table.ids())
    checked = prepared("validate", env)(table.location, "--level", "data")
    assert checked.code == 0, checked.out
