"""Files that statistics leave out have no row that Spark finds, in values of each type."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icectl.entries.conditions import parse_where
from icectl.entries.may_match import METRICS, may_match
from icectl.entries.rows import by_row, where
from icectl.rows.named_files import live_files
from icectl.sfc1.manifests import TreeSchema, read_root
from icectl.sfc1.reader import leaves_without
from icectl.storage.location import comparison_key
from tests.builders.filtered import COLUMNS, LEAF_EACH, literal, names, own_literal, spread
from tests.builders.inline_rows import way_to
from tests.spark.conftest import icectl, peer

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.full]


ODD = {
    f"{name} IS {test}": f"{name} is {test.lower()}"
    for name in ("v", "g", "e", "s.v")
    for test in ("NULL", "NOT NULL")
}
"""Conditions on variants and shapes: Spark's, and the same ones of icectl."""


def asked(chosen: Iterable[str], operators: str) -> dict[str, str]:
    """Conditions of Spark on columns, and the same ones of icectl."""
    found = {}
    for name in chosen:
        kind, values = names()[name].type, names()[name].values
        is_real = isinstance(values[0], float)
        found |= {f"{name} {test}": f"{name} {test}" for test in ("IS NULL", "IS NOT NULL")}
        if is_real:
            found[f"isnan({name})"] = f"{name} is nan"
        for value in [*values, *((0.0, -0.0) if is_real else ())]:
            if isinstance(value, float) and not math.isfinite(value):
                continue
            for operator in operators[:1] if isinstance(value, bool) else operators:
                theirs = f"{name} {operator} {literal(kind, value)}"
                found[theirs] = f"{name} {operator} {own_literal(kind, value)}"
        if name == "text":
            found |= {f"{name} LIKE 'sixteen%'": f"{name} LIKE 'sixteen%'"}
    return found


def kept(directory: Path, texts: Iterable[str]) -> Iterator[set[str]]:
    """The names of the files that statistics of leaves and of files do not leave out, each time."""
    context = way_to(directory)
    metadata = context.catalog.load().metadata
    snapshot, facts = metadata.snapshots[-1], TreeSchema(metadata)
    files = live_files(context, metadata, snapshot, {}, METRICS)
    root = read_root(context.store, facts, snapshot) if snapshot.root_manifest else None
    paths = [comparison_key(one.manifest_path) for one in files.manifests]
    for text in texts:
        predicate = parse_where(text, metadata)
        may = may_match(files.data, predicate, metadata.partition_specs, metadata.schemas)
        others = frozenset() if root is None else leaves_without(facts, root, predicate)
        rows = by_row(where(files.data, may), "location", "manifest")
        yield {Path(place).name for place, at in rows if paths[at] not in others}


def written(folder: Path) -> Path:
    catalog = SqlCatalog("c", uri="sqlite://", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    return spread(catalog, tuple(COLUMNS), LEAF_EACH)


def of_pyiceberg(folder: Path) -> tuple[Path, dict[str, str]]:
    """Promoted columns, too."""
    return written(folder), asked(COLUMNS, "=<>")


def of_icectl(folder: Path) -> tuple[Path, dict[str, str]]:
    """Columns of structs, of which PyIceberg has no bounds."""
    table = written(folder)
    done = icectl("compact", str(table), "--rewrite-all", "--engine", "local", "--yes")
    assert done.exit_code == 0
    return table, asked((name for name in names() if name not in COLUMNS), "=")


def of_spark(folder: Path) -> tuple[Path, dict[str, str]]:
    """Variants and shapes, of which there are counts; these have no order."""
    peer("-", "write", str(folder), script="spark_filters")
    return folder / "db" / "odd", ODD


@pytest.mark.parametrize("write", [of_pyiceberg, of_icectl, of_spark])
def test_no_file_is_left_out_in_which_spark_finds_a_row(write, tmp_path):
    table, conditions = write(tmp_path)
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({str(table): list(conditions)}))
    lines = peer(str(path), "files", script="spark_filters").splitlines()
    (told,) = (json.loads(line) for line in lines if line.startswith("{"))
    spark = {one: {Path(file).name for file in files} for one, files in told["files"].items()}
    assert len(set(map(len, spark.values()))) > 1
    counts = []
    for words in ((), ("--layout", "sfc-1"), ("--layout", "sfc-1", "--eager")):
        if words:
            assert icectl("upgrade-to-v4", str(table), *words, "--yes").exit_code == 0
        by_icectl = dict(zip(conditions, kept(table, conditions.values()), strict=True))
        missed = {one: spark[one] - files for one, files in by_icectl.items()}
        assert {one: files for one, files in missed.items() if files} == {}, words
        counts.append(sum(map(len, by_icectl.values())))
    assert len(set(counts)) == 1  # roots leave out what manifests do
    assert counts[0] < 2 * sum(map(len, spark.values()))
