"""Tables of upserts, which PyIceberg can't read: it can once equality deletes are converted."""

import io

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from tests.builders.expiry import NOW_MS
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.builders.rows import current_metadata, head, live_entries, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import prepared
from tests.interop.test_relocated_compaction import expected, live
from tests.interop.test_rewrite_fixtures import checksum
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


FOREIGN = (
    "duckdb-iceberg/equality_deletes__mydb__mytable_partitioned",
    "impala/iceberg_v2_delete_both_eq_and_pos",
    "impala/iceberg_v2_delete_equality_multi_eq_ids",
    "impala/iceberg_v2_delete_equality_partition_evolution",
    "impala/iceberg_v2_delete_pos_and_multi_eq_ids",
    "impala/iceberg_v2_equality_delete_schema_evolution",
)
"""All tables by other writers with live equality deletes that name columns of theirs."""


@pytest.mark.parametrize("name", FOREIGN)
def test_pyiceberg_reads_tables_by_other_writers_once_they_are_converted(
    fixtures_dir, tmp_path, prepared, name
):
    table = tmp_path / "t"
    relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table)
    before = read_rows(read_metadata(current_metadata(table)))
    assert before
    ended = prepared("compact", FixedEnv(NOW_MS))(str(table), "--deletes-only", "--engine", "local")
    assert ended.code == 0, ended.err
    assert [file for file in live_entries(head(table)) if file["data_file"]["content"] == 2] == []
    location = current_metadata(table)
    assert read_rows(read_metadata(location)) == before
    content = io.BytesIO()
    pq.write_table(StaticTable.from_metadata(str(location)).scan().to_arrow(), content)
    assert checksum(live(table)[0], ["rows"], {"rows": content.getvalue()}) == expected(name)
