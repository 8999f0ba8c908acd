"""Layouts are recognised in one place, and each has what reads, writes and checks it."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from icectl.commands.rewrite_manifests import plan as rewrite_manifests
from icectl.commands.validate import lists
from icectl.commit import snapshot_writer
from icectl.format.layout import Layout, layout_of, layout_of_manifest, layout_of_table
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.table import manifest_lists
from tests.builders.scenarios import FACTS

PACKAGE = Path(manifest_lists.__file__).parents[1]
SNAPSHOT = Snapshot(snapshot_id=1, timestamp_ms=0)
MANIFEST = ManifestFile(
    manifest_path="file:///t/m",
    manifest_length=1,
    partition_spec_id=0,
    content=ManifestContent.DATA,
    sequence_number=1,
    min_sequence_number=1,
    added_snapshot_id=1,
)


@pytest.mark.parametrize(
    ("snapshot", "layout"),
    [
        (replace(SNAPSHOT, root_manifest="file:///t/root.parquet"), Layout.SFC_1),
        (replace(SNAPSHOT, manifest_list="file:///t/list.avro"), Layout.MANIFEST_LISTS),
        (replace(SNAPSHOT, manifests=("file:///t/m.avro",)), Layout.MANIFEST_LISTS),
        (SNAPSHOT, Layout.MANIFEST_LISTS),
    ],
)
def test_a_snapshot_has_the_layout_of_what_it_names(snapshot, layout):
    assert layout_of(snapshot) is layout


@pytest.mark.parametrize(
    ("version", "layout"),
    [(number, Layout.MANIFEST_LISTS) for number in (1, 2, 3)] + [(4, Layout.SFC_1)],
)
def test_commits_to_version_4_have_roots(version, layout):
    assert layout_of_table(replace(FACTS.metadata, format_version=version)) is layout


@pytest.mark.parametrize(
    ("manifest", "layout"),
    [
        (MANIFEST, Layout.MANIFEST_LISTS),
        (replace(MANIFEST, dead=b"bitmap"), Layout.SFC_1),
        (replace(MANIFEST, file_format=FileFormat.PARQUET), Layout.SFC_1),
    ],
)
def test_only_a_root_lists_manifests_in_parquet_or_with_dead_rows(manifest, layout):
    assert layout_of_manifest(manifest) is layout


@pytest.mark.parametrize("layout", Layout)
def test_each_layout_has_a_reader_a_writer_and_checks(layout):
    assert callable(manifest_lists.reader_of(FACTS.metadata, layout).manifests)
    if layout is not Layout.MANIFEST_LISTS:  # which modules above have functions of their own for
        assert callable(import_module(snapshot_writer._OTHER_WRITERS[layout]).writer)
    assert callable(import_module(lists._CHECKS[layout]).check)
    planner = "plan_leaves" if layout is Layout.SFC_1 else "plan"
    assert callable(getattr(rewrite_manifests, planner))


def test_what_names_the_layout_stands_once():
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    for text, home in (('"sfc-1"', "format/layout.py"), ("10_000, 200", "sfc1/content_stats.py")):
        found = [path.relative_to(PACKAGE).as_posix() for path in texts if text in texts[path]]
        assert found == [home], text
