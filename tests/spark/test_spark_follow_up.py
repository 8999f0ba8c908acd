"""Spark goes on writing to tables that icectl has compacted, migrated or rewritten manifests of."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders.rows import current_metadata, read_metadata
from tests.builders.rows import read_rows as rows_of
from tests.spark.conftest import Rows, Run, asked_for, icectl, peer, read_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COMPACT = ("compact", "--engine", "local", "--min-input-files", "2")
COMMANDS: dict[str, list[list[str]]] = {
    "v1_rewritten": [["rewrite-manifests"]],
    "v1_migrated": [["migrate-v1-v2", "--yes"]],
    "v1_migrated_rewritten": [["migrate-v1-v2", "--rewrite-manifests", "--yes"]],
    "v2_rewritten": [["rewrite-manifests"]],
    "v3_rewritten": [["rewrite-manifests"]],
    "v2_compacted": [[*COMPACT]],
    "v2_deletes_merged": [["compact", "--deletes-only", "--rewrite-all"]],
    "v2_sorted": [[*COMPACT, "--sort-order", "note desc nulls last, bucket(4, id)"]],
    "v3_compacted": [[*COMPACT]],
    "v3_z_ordered": [[*COMPACT, "--zorder", "id,at"]],
    "v3_vectors_merged": [["compact", "--deletes-only", "--min-input-files", "2"]],
    "v4_rewritten": [["rewrite-manifests"]],
    "v4_compacted": [[*COMPACT]],
    "v4_vectors_merged": [["compact", "--deletes-only", "--min-input-files", "2"]],
    "v1_to_v3": [["upgrade-to-v3", "--yes"]],
    "v2_to_v3": [["upgrade-to-v3", "--convert-position-deletes", "--yes"]],
    "v1_to_v4": [["upgrade-to-v4", "--layout", "iceberg-1.12", "--yes"]],
    "v2_to_v4": [
        ["upgrade-to-v4", "--layout", "iceberg-1.12", "--eager", "--yes"],
        ["rewrite-manifests", "--manifest-format", "avro"],
    ],
    "v3_to_v4": [
        ["upgrade-to-v4", "--layout", "iceberg-1.12", "--yes"],
        ["rewrite-manifests", "--manifest-format", "parquet"],
    ],
    "v3_sfc_1_to_v4": [
        ["upgrade-to-v4", "--layout=sfc-1", "--eager", "--yes"],
        [*COMPACT],
        ["upgrade-to-v4", "--layout", "iceberg-1.12", "--yes"],
    ],
}
QUICK = {
    "v1_migrated_rewritten", "v2_deletes_merged", "v3_vectors_merged", "v3_z_ordered",
    "v4_compacted", "v4_rewritten", "v1_to_v3", "v2_to_v3", "v2_to_v4", "v3_sfc_1_to_v4",
}  # fmt: skip
"""Each command on files and deletes of each kind, and each way to another version."""
TWO_LAYOUTS = "v3_sfc_1_to_v4"
THERE_AND_BACK = [
    ["upgrade-to-v4", "--layout=sfc-1", "--yes"],
    [*COMPACT, "--rewrite-all"],
    ["upgrade-to-v4", "--layout", "iceberg-1.12", "--yes"],
]
KEPT_AWAY = "v3_lazily_to_sfc_1"
VERSIONS = {
    name: int(name[-1]) if "_to_v" in name else 2 if "migrated" in name else int(name[1])
    for name in COMMANDS
}
WRITTEN = {id_ for id_ in range(60) if id_ % 10 != 3}
APPENDED = WRITTEN | set(range(100, 120))
LEFT = APPENDED - {5, 14, 105}
IDS = {"maintained": WRITTEN, "appended": APPENDED, "deleted": LEFT, "compacted": LEFT}


def tables(*names: str) -> list[Any]:
    """Tables by their names, most of them in the full tier alone."""
    return [pytest.param(one, marks=() if one in QUICK else pytest.mark.full) for one in names]


@dataclass(frozen=True)
class Followed:
    """What icectl did, what Spark then saw after each of its steps, and what icectl says of it."""

    folder: Path
    maintained: Mapping[str, list[Run]]
    steps: Mapping[tuple[str, str], Any]
    there_and_back: list[Run]
    rows: Rows
    validated: Mapping[str, Run]
    rewritten: Mapping[str, Run]


@pytest.fixture(scope="module")
def followed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Let Spark write the tables that are asked for, maintain them, let Spark go on with them,
    validate them, rewrite manifests again.
    """
    wanted = {TWO_LAYOUTS, *asked_for(request)}
    names = [name for name in COMMANDS if name in wanted]
    warehouse = tmp_path_factory.mktemp("follow")
    directory = warehouse / "follow"
    peer("begin", str(warehouse), *names)
    before = directory / f"{TWO_LAYOUTS}_before"  # its metadata names the files of the table itself
    shutil.copytree(directory / TWO_LAYOUTS / "metadata", before / "metadata")
    maintained = {
        name: [icectl(words[0], str(directory / name), *words[1:]) for words in lines]
        for name, lines in COMMANDS.items()
        if name in names
    }
    lazy = icectl("upgrade-to-v4", "--layout=sfc-1", str(directory / KEPT_AWAY), "--lazy", "--yes")
    assert lazy.exit_code == 0, lazy.errors
    lines = peer("follow", str(warehouse), *names).splitlines()
    steps = [json.loads(line) for line in lines if line.startswith("{")]
    there_and_back = [
        icectl(words[0], str(directory / TWO_LAYOUTS), *words[1:]) for words in THERE_AND_BACK
    ]
    validate = ("--level", "data", "--all-snapshots")
    return Followed(
        directory,
        maintained,
        {(step["table"], step["step"]): step for step in steps},
        there_and_back,
        read_rows([before, directory / TWO_LAYOUTS]),
        {name: icectl("validate", str(directory / name), *validate) for name in names},
        {name: icectl("rewrite-manifests", str(directory / name)) for name in names},
    )


@pytest.mark.parametrize("name", tables(*COMMANDS))
def test_icectl_had_work(followed, name):
    for run in followed.maintained[name]:
        assert (run.exit_code, run.document["status"]) == (0, "done"), run.errors


@pytest.mark.parametrize("step", IDS)
@pytest.mark.parametrize("name", tables(*COMMANDS))
def test_spark_appends_deletes_and_compacts(followed, name, step):
    rows = [[id_, None if id_ % 7 == 0 else f"note {id_}"] for id_ in sorted(IDS[step])]
    assert followed.steps[name, step]["rows"] == rows


def test_spark_refuses_a_table_of_layout_sfc_1_that_has_no_root_and_no_partitions(followed):
    """It would take it for one of its own, and drop the expressions of the next spec."""
    assert followed.steps[KEPT_AWAY, "refused"]["told"] == "Cannot parse missing string: name"


def test_spark_finds_every_row_and_its_id_in_a_table_that_went_through_both_layouts(followed):
    """Its checksums are over rows, row ids and the numbers of their last update."""
    for run in followed.there_and_back:
        assert (run.exit_code, run.document["status"]) == (0, "done"), run.errors
    before = followed.rows[f"{TWO_LAYOUTS}_before"]
    after = followed.rows[TWO_LAYOUTS]
    snapshots = [name for name in before if name.isdigit()]
    assert len(snapshots) == 4
    assert {name: after[name] for name in snapshots} == {name: before[name] for name in snapshots}
    assert after["main"][0] == len(LEFT)


@pytest.mark.parametrize("name", tables("v1_migrated", "v1_migrated_rewritten"))
def test_a_migrated_table_accepts_row_level_deletes(followed, name):
    """Version 1 had none; the three rows are position deletes, no file was rewritten for them."""
    assert followed.steps[name, "appended"]["deletes"] == {}
    assert followed.steps[name, "deleted"]["deletes"] == {"PARQUET": 3}


def test_a_table_that_became_version_3_takes_vectors_and_its_rows_keep_their_ids(followed):
    """Version 1 had no deletes; position deletes of version 2 are vectors before Spark goes on."""
    for name, before in (("v1_to_v3", {}), ("v2_to_v3", {"PUFFIN": 6})):
        assert followed.steps[name, "maintained"]["deletes"] == before
        deleted = followed.steps[name, "deleted"]
        assert deleted["deletes"] == {"PUFFIN": 3 + before.get("PUFFIN", 0)}
        appended = followed.steps[name, "appended"]["row_ids"]
        assert None not in appended.values()
        assert len(set(appended.values())) == len(APPENDED)
        kept = {id_: row_id for id_, row_id in appended.items() if int(id_) in LEFT}
        assert deleted["row_ids"] == kept
        assert followed.steps[name, "compacted"]["row_ids"] == kept
    assert set(followed.steps["v1_to_v3", "maintained"]["row_ids"].values()) == {None}


def format_of(name: str) -> str:
    """The format of files of deletes by position."""
    return "PARQUET" if name.startswith("v2") else "PUFFIN"


@pytest.mark.parametrize("name", tables("v2_rewritten", "v3_rewritten", "v4_rewritten"))
def test_rewritten_manifests_of_deletes_take_more_deletes(followed, name):
    """Six rows were deleted before, three more are now: vectors of the same files are merged."""
    format_ = format_of(name)
    assert followed.steps[name, "maintained"]["deletes"] == {format_: 6}
    assert followed.steps[name, "deleted"]["deletes"] == {format_: 9}


@pytest.mark.parametrize(
    "name", tables("v2_compacted", "v2_sorted", "v3_compacted", "v3_z_ordered")
)
def test_compacted_files_take_deletes(followed, name):
    """Those of before have gone with the files; three rows more are deleted now."""
    assert followed.steps[name, "maintained"]["deletes"] == {}
    assert followed.steps[name, "deleted"]["deletes"] == {format_of(name): 3}


@pytest.mark.parametrize(
    "name", tables("v2_deletes_merged", "v3_vectors_merged", "v4_vectors_merged")
)
def test_merged_deletes_take_more_deletes(followed, name):
    format_ = format_of(name)
    assert followed.steps[name, "maintained"]["deletes"] == {format_: 6}
    assert followed.steps[name, "deleted"]["deletes"] == {format_: 9}


@pytest.mark.parametrize("name", tables(*COMMANDS))
def test_validate_finds_no_error_afterwards(followed, name):
    run = followed.validated[name]
    findings = [one for one in run.document["result"]["findings"] if one["severity"] == "error"]
    assert (run.exit_code, findings) == (0, [])


@pytest.mark.parametrize("name", tables(*COMMANDS))
def test_an_independent_reader_sees_the_rows_in_what_icectl_rewrote_again(followed, name):
    assert followed.rewritten[name].exit_code == 0
    metadata = read_metadata(current_metadata(followed.folder / name))
    assert metadata["format-version"] == VERSIONS[name]
    assert sorted(dict(row)["id"] for row in rows_of(metadata)) == sorted(LEFT)
