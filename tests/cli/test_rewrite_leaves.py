"""`rewrite-manifests` and `expire-snapshots` on leaves of version 4: what one run leaves to do."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.broken_tree import TREE_DAMAGES, BrokenTree
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.twins import TreeTwin, twins


@pytest.fixture
def table(tmp_path: Path) -> TreeTwin:
    """A table of version 4 whose root lists one leaf of its own version."""
    made = twins(tmp_path, "identity")[1]
    made.run("upgrade-to-v4", "--layout=sfc-1", "--eager", "--yes")
    return made


def rewrite(table: TreeTwin, *words: str) -> int:
    """Rewrite until there is nothing to do, once; how many leaves came of it."""
    added = table.run("rewrite-manifests", *words, "--yes")["result"]["added"]
    assert table.run("rewrite-manifests", *words, "--check")["status"] == "nothing-to-do"
    assert table.shown() == table.expected()
    return int(added)


def test_files_of_the_root_and_a_small_leaf_become_one(table):
    table.run("rewrite-manifests", "--yes")
    table.append(range(10, 13))
    assert rewrite(table) == 1


def test_what_is_written_anew_is_told_by_its_name(table, capsys):
    table.run("rewrite-manifests", "--yes")
    table.append(range(10, 13))
    words = ["rewrite-manifests", str(table.directory), "--yes"]
    assert app.main([*words, "--dry-run"]) == 0
    planned = capsys.readouterr().out.splitlines()[-1]
    assert planned.startswith("the root's own files and 1 manifest of ")


def test_leaves_that_are_full_are_left_alone(table):
    table.set_properties({"icectl.v4.leaf.max-entries": "2"})
    table.append(range(10, 13))
    assert rewrite(table) == 2


def leaves(table: TreeTwin) -> list[dict[str, Any]]:
    """The leaves of the current root, as `inspect` shows them."""
    rows = table.run("inspect", "manifests")["result"]["rows"]
    return [row for row in rows if "/root-" not in row["path"]]


def test_leaves_get_the_size_that_is_asked_for(table):
    """No size below twice that of a leaf of one row, about 9 kB, can be met: that is the least."""
    table.append(range(100, 1300), files=400)
    assert rewrite(table) == 1
    for target in ("12KB", "8B"):
        table.run("rewrite-manifests", "--rewrite-all", "--yes")
        assert rewrite(table, "--target-size", target) >= 2
        sizes = [one["length"] for one in leaves(table)]
        assert 9_000 < min(sizes) <= max(sizes) < 1.2 * 18_000


def test_manifests_of_older_versions_become_leaves(tmp_path):
    """A default upgrade leaves them under the root; more than a quarter of the entries is due."""
    table = twins(tmp_path, "identity")[1]
    assert [one["path"].rpartition(".")[2] for one in leaves(table)] == ["avro"]
    debt = table.run("inspect", "health")["result"]["manifest_debt"]
    assert debt["found"].endswith("; 1 in the form of older versions")
    table.set_properties({"icectl.v4.legacy-leaves.rewrite-ratio": "1"})
    assert table.run("rewrite-manifests", "--check")["status"] == "nothing-to-do"
    table.set_properties({"icectl.v4.legacy-leaves.rewrite-ratio": "0.25"})
    assert rewrite(table) == 1
    assert [one["path"].rpartition(".")[2] for one in leaves(table)] == ["parquet"]


def test_all_leaves_are_rewritten_on_request(tmp_path):
    table = twins(tmp_path, "identity")[1]
    table.set_properties({"icectl.v4.legacy-leaves.rewrite-ratio": "1"})
    for _ in range(2):
        found = table.run("rewrite-manifests", "--rewrite-all", "--yes")
        assert (found["status"], found["result"]["added"]) == ("done", 1)
    assert table.shown() == table.expected()


def test_an_eager_upgrade_of_version_4_has_work_while_there_are_manifests(tmp_path):
    table = twins(tmp_path, "identity")[1]
    eager = ("upgrade-to-v4", "--layout=sfc-1", "--eager")
    done = table.run(*eager, "--yes")
    assert (done["status"], done["result"]["legacy_manifests"]) == ("done", 0)
    assert [one["path"].rpartition(".")[2] for one in leaves(table)] == ["parquet"]
    assert table.run(*eager, "--check")["status"] == "nothing-to-do"
    assert table.shown() == table.expected()


def test_v4_192_a_leaf_is_due_by_its_share_of_dead_rows(table):
    table.append(range(100, 140), files=40)
    assert rewrite(table) == 1
    files = len(table.live())
    table.remove_data_files(files // 4)
    assert table.run("rewrite-manifests", "--check")["status"] == "nothing-to-do"
    table.remove_data_files(1)
    planned = table.run("rewrite-manifests", "--dry-run")["result"]["groups"][0]
    assert planned["reason"] == "1 with many dead rows"
    assert rewrite(table) == 1


def test_leaves_with_the_largest_bitmaps_are_due_if_these_fill_the_root(table):
    table.append(range(100, 140), files=40)
    rewrite(table)
    table.remove_data_files(3)
    assert table.run("rewrite-manifests", "--check")["status"] == "nothing-to-do"
    table.set_properties({"icectl.v4.mdv.inline-total-max-bytes": "10"})
    planned = table.run("rewrite-manifests", "--dry-run")["result"]["groups"][0]
    assert planned["reason"].startswith("bitmaps of dead rows take ")
    rewrite(table)


BY_FIELD_OR_SPEC = (("--sort-by", "category"), ("--spec-id", "0"))


def partitions(table: TreeTwin) -> list[tuple[str, str]]:
    """The range of the partitions of each leaf."""
    summaries = [one["partition_summaries"][0] for one in leaves(table)]
    return [(one["lower_bound"], one["upper_bound"]) for one in summaries]


@pytest.mark.parametrize(
    "words", [(), *(pytest.param(one, marks=pytest.mark.full) for one in BY_FIELD_OR_SPEC)]
)
def test_leaves_have_the_files_of_few_partitions(table, words):
    """Each append has files of all three partitions; so has each leaf of the order of commits."""
    table.set_properties({"icectl.v4.leaf.max-entries": "8"})
    for start in range(100, 148, 6):
        table.append(range(start, start + 6), files=2)
    rewrite(table, *words)
    _, *of_appends = partitions(table)
    assert len(of_appends) >= 3
    assert of_appends == sorted(of_appends)
    assert sum(low != high for low, high in of_appends) <= 2


def test_a_flush_sorts_by_partition(table):
    table.set_properties(
        {"icectl.v4.leaf.max-entries": "8", "icectl.v4.root.max-data-files": "100"}
    )
    for start in range(100, 220, 6):
        table.append(range(start, start + 6), files=2)
    flushed = partitions(table)[1:]
    assert len(flushed) > 3
    assert sum(low != high for low, high in flushed) <= 2


def specs_told(table: TreeTwin, *words: str) -> list[int | None]:
    """The spec of each group of a plan."""
    planned = table.run("rewrite-manifests", "--dry-run", *words)["result"]
    return [group["spec_id"] for group in planned["groups"]]


def test_only_leaves_of_the_spec_that_is_asked_for_are_rewritten(table):
    table.respec("bucket")
    table.append(range(10, 13))
    assert specs_told(table) == [None]
    assert specs_told(table, "--spec-id", "1") == [1]
    assert rewrite(table, "--spec-id", "1") == 1
    assert len(leaves(table)) == 2
    with pytest.raises(AssertionError, match="the table has no partition spec 7"):
        table.run("rewrite-manifests", "--spec-id", "7", "--check")
    with pytest.raises(AssertionError, match="there is no partition field `nobody`"):
        table.run("rewrite-manifests", "--sort-by", "nobody", "--check")


def test_v4_142_a_partition_of_two_values_ends_with_its_own_rule(healthy, capsys):
    """No command can tell the partition, so the hint leads to a snapshot from before."""
    (damage,) = (one for one in TREE_DAMAGES if one.name == "v4_142_a_partition_of_two_values")
    table = healthy("grown")
    damage.apply(BrokenTree(table))
    assert app.main(["rewrite-manifests", str(table), "--yes"]) == 15
    told = " ".join(capsys.readouterr().err.split())
    assert "(V4-142)" in told
    assert f"hint: `icectl refs {table} rollback --to SNAPSHOT` leads to" in told


def test_v4_015_compact_writes_nothing_with_a_spec_of_several_columns(table, capsys):
    """Its values can be carried and not computed: sfc-1 X6."""
    path = current_metadata(table.directory)
    members = json.loads(path.read_text())
    expression = copy.deepcopy(members["expressions"][0])
    expression["expr-id"] = members["last-column-id"] + 1
    expression["partition-field-id"] = members["last-partition-id"] + 1
    expression["expr"].update({"source-ids": [1, 2], "transform": "bucket[4]", "name": "both"})
    expression["expr"].pop("source-id", None)
    members["expressions"].append(expression)
    fields = [{"expr-id": expression["expr-id"]}]
    members["partition-specs"].append({"spec-id": 9, "fields": fields})
    members |= {
        "last-column-id": expression["expr-id"],
        "last-partition-id": expression["partition-field-id"],
        "default-spec-id": 9,
    }
    path.write_text(json.dumps(members))
    words = ["compact", str(table.directory), "--engine", "local", "--rewrite-all", "--yes"]
    assert app.main(words) == 14
    assert "nothing new is written with partition spec 9" in capsys.readouterr().err
    assert app.main([*words, "--output-spec-id", "0"]) == 0


def test_a_spec_of_some_rows_of_a_leaf_stays(table):
    table.respec("bucket")
    table.append(range(10, 13))
    rewrite(table)
    clean = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1")
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == []
    table.remove_data_files(3)  # those of the first spec, dead in the leaf now
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == []
    rewrite(table)
    found = table.run(*clean, "--clean-expired-metadata", "--yes")["result"]
    assert found["specs_removed"] == [0]
    specs = read_metadata(current_metadata(table.directory))["partition-specs"]
    assert [one["spec-id"] for one in specs] == [1]
    table.run("validate", "--level", "data", "--all-snapshots")


def test_r074_rows_of_a_leaf_are_checked_by_specs_of_their_own(table):
    table.respec("truncate")
    table.append(range(10, 13))
    assert rewrite(table) == 1
    found = table.run("validate", "--level", "data", "--all-snapshots")["result"]["counts"]
    assert (found["error"], found["warning"]) == (0, 0)


def test_rows_that_equality_deletes_remove_are_not_counted(table):
    """They are known once they are looked up: `inspect changes` says null, not 0."""
    table.append(range(10, 13))
    assert table.run("inspect", "changes")["result"]["row_changes"] is not None
    table.delete_rows([11], kind="equality")
    found = table.run("inspect", "changes")["result"]
    assert (found["added_equality_deletes"], found["row_changes"]) == (1, None)
