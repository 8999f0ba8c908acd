"""The metadata tree as text, Mermaid and HTML."""

import io
from dataclasses import replace

from icectl.cli.console import Console, ConsoleOptions
from icectl.commands.inspect.tree_plan import LeftOut, Node
from icectl.commands.inspect.tree_report import mermaid, print_tree, tree_page
from tests.builders.terminal import Terminal
from tests.stores.fixed_env import FixedEnv


def data(row: int) -> Node:
    facts = {"record_count": 1_000, "size_bytes": 2_048, "status": "added", "position": row}
    return Node(f"data_{row}", "data", f"/wh/t/data/{row}.parquet", facts)


def manifest(index: int, content: str, *children: Node, left_out: LeftOut = LeftOut()) -> Node:  # noqa: B008
    facts = {"content": content, "live_file_count": len(children) + left_out.count, "size_bytes": 7}
    location = f"/wh/t/metadata/m{index}.avro"
    return Node(f"manifest_{index}", "manifest", location, facts, children, left_out)


DELETE = Node(
    "delete_0",
    "position-deletes",
    '/wh/t/data/"quoted"<b>.parquet',
    {"record_count": 1, "size_bytes": 10, "applies_to_count": 2, "status": "added", "position": 0},
    applies_to=("data_0", "data_1"),
)
LISTED = (
    manifest(0, "data", data(0), data(1), left_out=LeftOut(2, 5_000)),
    manifest(1, "deletes", DELETE),
)
LIST = Node(
    "list", "manifest-list", "/wh/t/metadata/snap-5.avro", {"manifest_count": 3}, LISTED,
    LeftOut(1, 9),
)  # fmt: skip
SNAPSHOT = Node(
    "snapshot",
    "snapshot",
    None,
    {
        "snapshot_id": "5",
        "operation": None,
        "committed_at": "2026-05-04T11:14:41Z",
        "refs": ["main"],
    },
    (LIST,),
)
ROOT = Node(
    "metadata",
    "metadata-file",
    "/wh/t/metadata/v3.metadata.json",
    {"format_version": 2},
    (SNAPSHOT,),
)


DEAD = Node(
    "dead_0_0", "data", "/wh/t/data/2.parquet", {**data(2).facts, "dead": True}
)  # fmt: skip
LEAF_FACTS = {"status": "existing", "entry_count": 3, "affiliated_to": None}
LEAF = manifest(0, "data", data(0), data(1))
DELETES = manifest(1, "deletes")
VECTOR_FACTS = {
    "status": "added", "referenced_manifest": "/wh/t/metadata/m0.avro", "position_count": 1,
    "fresh_count": 1, "size_bytes": 18,
}  # fmt: skip
ADDED_VECTOR = "inline vector  added delete vector of m0.avro, kills 1 entry, 1 of them new"
EMPTY_DELETES = "m1.avro  manifest of deletes, existing, 0 of 3 entries live, 7 B"
OLD_FACTS = {**VECTOR_FACTS, "status": "deleted", "fresh_count": 0}
TREE_ROOT = replace(
    ROOT,
    children=(
        replace(
            SNAPSHOT,
            children=(
                Node(
                    "root",
                    "root-manifest",
                    "/wh/t/metadata/root.parquet",
                    {"entry_count": 5, "size_bytes": 1_024},
                    (
                        replace(LEAF, facts={**LEAF.facts, **LEAF_FACTS}),
                        Node(
                            "vector_0", "manifest-dv", None, VECTOR_FACTS, (DEAD,), LeftOut(),
                            ("manifest_0",),
                        ),
                        Node(
                            "vector_1", "manifest-dv", None, OLD_FACTS, applies_to=("manifest_0",)
                        ),
                        replace(
                            DELETES,
                            facts={
                                **DELETES.facts,
                                **LEAF_FACTS,
                                "affiliated_to": "/wh/t/metadata/m0.avro",
                            },
                            applies_to=("manifest_0",),
                        ),
                        replace(data(4), facts={**data(4).facts, "in_root": True}),
                    ),
                ),
            ),
        ),
    ),
)  # fmt: skip


def printed(out: io.StringIO, root: Node = ROOT, verbosity: int = 0) -> list[str]:
    options = ConsoleOptions(color="never", verbosity=verbosity)
    print_tree(Console(out, io.StringIO(), io.StringIO(), FixedEnv(), options), root, "/wh/t")
    return out.getvalue().splitlines()


def test_text_draws_branches_and_numbers_deletes():
    assert printed(io.StringIO()) == [
        "v3.metadata.json  metadata file, format version 2",
        "`-- snapshot 5  operation unknown, 2026-05-04T11:14:41Z, main",
        "    `-- snap-5.avro  manifest list, 3 manifests",
        "        |-- m0.avro  manifest of data, 4 files, 7 B",
        "        |   |-- data/0.parquet  1,000 records, 2.0 KiB, deletes [1]",
        "        |   |-- data/1.parquet  1,000 records, 2.0 KiB, deletes [1]",
        "        |   `-- 2 more files, 4.9 KiB",
        "        |-- m1.avro  manifest of deletes, 1 file, 7 B",
        '        |   `-- [1] data/"quoted"<b>.parquet  1 position delete, 10 B, on 2 files',
        "        `-- 1 more manifest, 9 B",
    ]


def test_a_root_tells_what_vectors_kill_and_names_it_when_verbose():
    told = printed(io.StringIO(), TREE_ROOT)
    assert told[2:] == [
        "    `-- root.parquet  root manifest, 5 entries, 1.0 KiB",
        "        |-- m0.avro  manifest of data, existing, 2 of 3 entries live, 7 B",
        "        |   |-- data/0.parquet  1,000 records, 2.0 KiB",
        "        |   `-- data/1.parquet  1,000 records, 2.0 KiB",
        f"        |-- {ADDED_VECTOR}, 18 B",
        "        |-- inline vector  replaced delete vector of m0.avro, 1 position, 18 B",
        f"        |-- {EMPTY_DELETES}, affiliated to m0.avro",
        "        `-- data/4.parquet  added, 1,000 records, 2.0 KiB",
    ]
    named = printed(io.StringIO(), TREE_ROOT, verbosity=1)
    assert [line for line in named if line not in told] == [
        "        |   `-- data/2.parquet  dead, 1,000 records, 2.0 KiB"
    ]


def test_mermaid_draws_vectors_and_affiliation():
    lines = mermaid(TREE_ROOT, "/wh/t").splitlines()
    assert [line for line in lines if "-.->" in line] == [
        "  vector_0 -.->|kills| dead_0_0",
        "  vector_0 -.->|applies to| manifest_0",
        "  vector_1 -.->|applies to| manifest_0",
        "  manifest_1 -.->|affiliated to| manifest_0",
    ]
    assert "  class vector_0,vector_1 manifestDeleteVector" in lines
    assert "  classDef rootManifest fill:#f3e5f5,stroke:#4a148c,stroke-width:2px" in lines


def test_names_are_cut_to_fit_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "77")
    lines = printed(Terminal())
    assert max(map(len, lines)) <= 77
    assert '        |   `-- [1] dat...ed"<b>.parquet  1 position delete' in "\n".join(lines)


def test_mermaid_quotes_names_and_draws_what_deletes_apply_to():
    lines = mermaid(ROOT, "/wh/t").splitlines()
    assert lines[0] == "flowchart LR"
    told = "1 position delete, 10 B, on 2 files"
    assert f'  delete_0["data/#quot;quoted#quot;#lt;b#gt;.parquet<br/>{told}"]' in lines
    assert "  manifest_0 --> data_0" in lines
    assert '  manifest_0_more["2 more files, 4.9 KiB"]' in lines
    arrows = [line for line in lines if "-.->" in line]
    assert arrows == [
        "  delete_0 -.->|deletes from| data_0",
        "  delete_0 -.->|deletes from| data_1",
    ]
    assert "  class data_0,data_1 dataFile" in lines


def test_page_escapes_names_and_links_deletes_with_data_files():
    page = tree_page(ROOT, "/wh/t")
    assert "&quot;quoted&quot;&lt;b&gt;.parquet" in page
    assert "<b>.parquet" not in page
    assert 'rows deleted by <a href="#delete_0">[1]</a>' in page
    assert '<a href="#data_0">file 1</a>, <a href="#data_1">file 2</a>' in page
    assert page.count("<div") == page.count("</div>")
    assert "<pre>flowchart LR\n" in page
    assert "delete_0 -.-&gt;|deletes from| data_1\n" in page
    assert "src=" not in page
    assert "://" not in page
