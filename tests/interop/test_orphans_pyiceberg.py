"""Orphans in tables of a PyIceberg catalog, which expires snapshots and leaves their files."""

import json
import os
import time
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from icectl.cli import app, session
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.folders import paths_of
from tests.fault.test_orphan_incidents import HookedStore

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType(), required=False),
)
SPECS = {
    "unpartitioned": PartitionSpec(),
    "identity": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind")),
}
KINDS = ["a/b c", "50%", "ü=?", "..", "_x", None]
STRAYS = {"data/lost.parquet", "data/kind=a%2Fb+c/lost.parquet", "metadata/lost-m0.avro"}


def rows(table: Table, first: int, last: int) -> pa.Table:
    """A row of each kind in turn."""
    found = [{"id": n, "kind": KINDS[n % len(KINDS)]} for n in range(first, last)]
    return pa.Table.from_pylist(found, schema=table.schema().as_arrow())


def written(catalog: SqlCatalog, spec: PartitionSpec, version: int) -> Table:
    """Seven snapshots of which the older expire, but for one under a tag; all a week old."""
    properties = {"format-version": str(version), "write.metadata.previous-versions-max": "4"}
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=properties)
    table.append(rows(table, 0, 12))
    table.append(rows(table, 12, 24))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "kept").commit()
    table.delete(EqualTo("kind", "50%"))
    table.delete(In("id", [2, 3]))
    table.append(rows(table, 24, 30))
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    folder = directory_of(table)
    for name in STRAYS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"lost")
    make_old(folder)
    return table


def make_old(folder: Path) -> None:
    week_ago = time.time() - 7 * 86_400
    for path in paths_of(folder):
        os.utime(path, (week_ago, week_ago))


def directory_of(table: Table) -> Path:
    return Path(local(table.location()))


def local(location: str) -> str:
    return location.removeprefix("file://")


def known_to(table: Table) -> set[Path]:
    """The files that PyIceberg itself says the table consists of."""
    inspected = table.inspect
    found = set(inspected.all_files()["file_path"].to_pylist())
    found |= set(inspected.all_manifests()["path"].to_pylist())
    found |= {snapshot.manifest_list for snapshot in table.snapshots()}
    found |= set(inspected.metadata_log_entries()["file"].to_pylist())
    return {Path(local(place)) for place in found}


def shown(table: Table, wanted: Collection[int] | None = None) -> dict[int, list[Any]]:
    """The rows of snapshots, of all where none are named."""
    return {
        snapshot.snapshot_id: table.scan(snapshot_id=snapshot.snapshot_id)
        .to_arrow()
        .sort_by("id")
        .to_pylist()
        for snapshot in table.snapshots()
        if wanted is None or snapshot.snapshot_id in wanted
    }


def remove(table: Table, *options: str, store: Store | None = None) -> tuple[int, dict[str, Any]]:
    """Run `icectl remove-orphans --json`, as of the real time, for the catalog's word."""
    words = ["remove-orphans", str(directory_of(table)), "--max-fraction", "1", "--json"]
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(session, "open_store", lambda *_: store or LocalStore())
        code = app.main([*words, "--metadata-file", local(table.metadata_location), *options])
    return code, json.loads(out.getvalue())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("spec", SPECS)
def test_what_pyiceberg_left_behind_goes_and_what_it_knows_stays(catalog, spec, version):
    table = written(catalog, SPECS[spec], version)
    folder, before = directory_of(table), shown(table)
    files, needed = paths_of(folder), known_to(table)
    newest = table.current_snapshot().snapshot_id
    assert len(before) == 2
    assert needed < files
    code, document = remove(table, "--yes")
    assert code == 0, document["error"]
    hidden = {path for path in files - needed if "/_" in str(path.relative_to(folder))}
    assert paths_of(folder) == needed | hidden
    assert document["result"]["removed"] == len(files - needed - hidden) > len(STRAYS)

    table = catalog.load_table("db.t")
    assert shown(table) == before
    table.append(rows(table, 30, 36))
    table.delete(EqualTo("kind", "ü=?"))
    kinds = [row["kind"] for row in before[newest]] + KINDS
    found = table.scan().to_arrow()["kind"].to_pylist()
    assert sorted(map(str, found)) == sorted(str(kind) for kind in kinds if kind != "ü=?")


@pytest.fixture
def committing(catalog: SqlCatalog) -> Callable[[Table], None]:
    """PyIceberg commits again; its new files are as old as the others."""

    def commit(table: Table) -> None:
        catalog.load_table("db.t").append(rows(table, 30, 36))
        make_old(directory_of(table))

    return commit


@pytest.mark.parametrize("moment", ["list", "stat"])
def test_a_commit_to_the_catalog_meanwhile_ends_the_run(catalog, committing, moment):
    table = written(catalog, SPECS["identity"], 2)
    hooked = HookedStore(moment, lambda: committing(table))
    files = paths_of(directory_of(table))
    code, document = remove(table, "--yes", store=hooked)
    assert (code, document["status"], hooked.method) == (5, "refused", "")
    assert paths_of(directory_of(table)) > files
    newest = catalog.load_table("db.t")
    assert newest.scan().to_arrow().num_rows == table.scan().to_arrow().num_rows + 6
    code, document = remove(newest, "--yes")
    assert (code, document["error"]) == (0, None)
    assert known_to(newest) <= paths_of(directory_of(newest))


def forked(table: Table, tmp_path: Path) -> tuple[SqlCatalog, Table]:
    """Another catalog with the table, from whose metadata file both have gone on since."""
    other = SqlCatalog(
        "other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=f"file://{tmp_path}/elsewhere"
    )
    other.create_namespace("db")
    fork = other.register_table("db.t", table.metadata_location)
    fork.append(rows(fork, 100, 106))
    table.append(rows(table, 30, 36))
    table.delete(EqualTo("kind", "ü=?"))
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    return other, fork


@pytest.mark.parametrize("expired", [False, True])
def test_a_table_that_another_catalog_has_too_keeps_what_it_has_committed(
    catalog, tmp_path, expired
):
    """Both go on from one metadata file, in one folder, under one uuid.

    An expiry of the one may have deleted what a former snapshot of the other names.
    """
    table = written(catalog, SPECS["identity"], 2)
    other, fork = forked(table, tmp_path)
    make_old(directory_of(table))
    mine, theirs = shown(table), shown(fork)
    assert mine.keys() - theirs.keys()
    assert theirs.keys() - mine.keys()
    if expired:
        (lost,) = theirs.keys() - mine.keys() - {fork.current_snapshot().snapshot_id}
        Path(local(fork.snapshot_by_id(lost).manifest_list)).unlink()
        del theirs[lost]
    code, document = remove(table, "--yes")
    assert (code, len(document["warnings"])) == (0, 1), document
    assert fork.metadata_location.rpartition("/")[2] in document["warnings"][0]
    assert shown(catalog.load_table("db.t")) == mine
    assert shown(other.load_table("db.t"), theirs) == theirs
    assert not any((directory_of(table) / name).exists() for name in STRAYS)
    other.engine.dispose()


def test_a_broken_snapshot_of_another_catalog_is_refused_until_its_metadata_file_is_away(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = written(catalog, SPECS["identity"], 2)
    other, fork = forked(table, tmp_path)
    head, ours = fork.current_snapshot(), {one.snapshot_id for one in table.snapshots()}
    old = [one for one in fork.snapshots() if one.snapshot_id not in ours and one != head]
    Path(local(old[0].manifest_list)).write_bytes(b"Obj")
    make_old(directory_of(table))
    before = paths_of(directory_of(table))
    code, document = remove(table, "--yes")
    assert (code, document["error"]["id"]) == (5, "unreadable-fork"), document
    assert fork.metadata_location in document["error"]["message"]
    assert paths_of(directory_of(table)) == before
    Path(local(fork.metadata_location)).unlink()
    assert remove(table, "--yes")[0] == 0
    other.engine.dispose()
