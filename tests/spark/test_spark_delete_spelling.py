"""Deletes that Spark finds by the letter stay applied on every way to Iceberg's version 4."""

import pytest

from tests.builders.table_builder import filled_table
from tests.spark.conftest import icectl, read_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TO_LISTS = ("upgrade-to-v4", "--layout", "iceberg-1.12", "--yes")


def test_deleted_rows_of_a_table_without_a_scheme_stay_deleted(tmp_path):
    """Of version 2 with position delete files, and of version 3 with vectors."""
    files, vectors = tmp_path / "v2", tmp_path / "v3"
    for directory, version in ((files, 2), (vectors, 3)):
        table = filled_table(directory, range(10), files=2, format_version=version)
        table.delete_rows([3, 7])
        table.ref("audit", "branch")
        table.append(range(10, 14))
    before = read_rows([files, vectors])
    assert before["v2"]["main"][0] == before["v3"]["main"][0] == 12
    assert icectl("upgrade-to-v4", "--layout=sfc-1", str(files), "--lazy", "--yes").exit_code == 0
    refused = icectl(TO_LISTS[0], str(files), *TO_LISTS[1:], "--eager")
    assert refused.exit_code == 5
    assert icectl(TO_LISTS[0], str(vectors), *TO_LISTS[1:]).exit_code == 0
    data_alone = ("--content", "data", "--min-manifests", "1", "--manifest-format", "parquet")
    assert icectl("rewrite-manifests", str(vectors), *data_alone).exit_code == 0
    after = read_rows([vectors])
    assert after["v3"]["main"] == before["v3"]["main"]
