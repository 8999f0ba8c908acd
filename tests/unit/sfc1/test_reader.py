"""Trees in the form that manifests of every version are read in."""

import pytest

from icectl.entries.rows import ALL_COLUMNS
from icectl.storage.local.store import LocalStore
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries, scan_entries
from tests.builders.expiry import context_of
from tests.builders.twins import TreeTwin, twins


@pytest.fixture
def table(tmp_path) -> TreeTwin:
    """Its older manifest spells locations without a scheme, and one of its rows is dead."""
    made = twins(tmp_path, "identity")[1]
    made.delete_rows([1])
    made.remove_data_files(1)
    return made


@pytest.mark.parametrize("how", ["one by one", "together"])
def test_l2_locations_of_an_older_manifest_with_dead_rows_have_a_scheme(table, how):
    store, metadata = LocalStore(), table.metadata
    manifests = read_snapshot_manifests(store, metadata, metadata.current_snapshot)
    assert [one.dead_count for one in manifests if one.manifest_path.endswith(".avro")] == [1]
    if how == "together":
        found = [load_entries(context_of(), metadata, manifests, ALL_COLUMNS)]
    else:
        found = [*scan_entries(context_of(), metadata, manifests, ALL_COLUMNS)]
    names = [name for one in found for name in one.table["location"].to_pylist()]
    assert len(names) == 3
    assert {name.partition("/")[0] for name in names} == {"file:"}
