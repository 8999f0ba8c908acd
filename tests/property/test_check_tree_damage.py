"""Whatever stands in the rows of version 4 manifests, `validate` ends with findings."""

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.cli import app
from tests.builders.broken_tree import DATA_LEAF, DELETE_LEAF, TREE_TABLES, BrokenTree, Change
from tests.builders.examples import examples
from tests.builders.rows import local
from tests.builders.table_builder import START_MS
from tests.stores.fixed_env import FixedEnv

NUMBERS = (-1, 0, 1, 2, 3, 7, 2**31 - 1)
POOLS: dict[str, tuple[Any, ...]] = {
    "int32": NUMBERS, "int64": (*NUMBERS, 2**62),
    "string": ("", "/x", "x", "file:///x", "avro", "puffin"),
    "binary": (b"", b"\0", b"\x3a0\0\0"), "list": ([], [-1], [5, 4]), "struct": (),
}  # fmt: skip
MEMBERS = ("tracking_info", "deletion_vector", "manifest_stats")
EDITS = st.lists(st.tuples(*[st.integers(0, 99)] * 3), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Healthy tables; copies of them are damaged."""
    base = tmp_path_factory.mktemp("trees")
    for name in ("grown", "listed"):
        TREE_TABLES[name](base / name)
        shutil.copytree(base / name, base / f"{name}.kept")
    return base


def changed(schema: pa.Schema, edits: list[tuple[int, int, int]]) -> Change:
    """A change of some members of some rows, each to a value that Parquet can hold there."""
    places: list[tuple[str | None, pa.Field]] = [(None, one) for one in schema]
    places += [(group, one) for group in MEMBERS for one in schema.field(group).type]
    places = [(group, one) for group, one in places if one.name != "content_stats"]

    def change(rows: list[dict[str, Any]]) -> None:
        for at, place, value in edits:
            row = rows[at % len(rows)]
            group, field = places[place % len(places)]
            pool = POOLS[str(field.type).partition("<")[0]]
            pool = (*pool, None) if field.nullable or not pool else pool
            holder = row if group is None else row[group]
            if holder is not None and (pool != (None,) or field.nullable):
                holder[field.name] = pool[value % len(pool)]

    return change


@examples(10, 50)
@given(
    name=st.sampled_from(["grown", "listed"]),
    where=st.sampled_from(["root", DATA_LEAF, DELETE_LEAF]),
    edits=EDITS,
)
def test_any_member_of_any_row_may_be_wrong(kept, name, where, edits):
    shutil.rmtree(kept / name)
    shutil.copytree(kept / f"{name}.kept", kept / name)
    broken = BrokenTree(kept / name)
    change = changed(pq.read_schema(broken.root()), edits)
    if where == "root" or name == "listed":
        broken.edit_root(change)
    else:
        broken.edit_leaf(change, int(where), keep=True)
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        words = ["validate", str(kept / name), "--level", "metadata", "--all-snapshots", "--json"]
        code = app.main(words, env=FixedEnv(START_MS + 10**9))
    assert code in (0, 4), errors.getvalue()
    assert json.loads(out.getvalue())["error"] is None


@examples(10, 30)
@given(cut=st.integers(0, 10**6), byte=st.integers(0, 255), truncate=st.booleans())
def test_any_byte_of_a_root_or_leaf_may_be_wrong(kept, cut, byte, truncate):
    shutil.rmtree(kept / "grown")
    shutil.copytree(kept / "grown.kept", kept / "grown")
    broken = BrokenTree(kept / "grown")
    files = [broken.root()]
    files += [
        local(row["location"])
        for row in broken.rows()
        if row["content_type"] in (DATA_LEAF, DELETE_LEAF)
    ]
    path = files[cut % len(files)]
    content = bytearray(path.read_bytes())
    at = cut % len(content)
    if truncate:
        del content[at:]
    else:
        content[at] = byte
    path.write_bytes(content)
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        words = ["validate", str(kept / "grown"), "--level", "metadata", "--json"]
        code = app.main(words, env=FixedEnv(START_MS + 10**9))
    assert code in (0, 4), errors.getvalue()
