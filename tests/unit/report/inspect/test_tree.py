"""The metadata tree as text, Mermaid and HTML."""

import io

import pytest

from icectl.plan.inspect.tree import LeftOut, Node
from icectl.report.console import Console, ConsoleOptions
from icectl.report.inspect.tree import mermaid, print_tree
from icectl.report.inspect.tree_page import tree_page
from tests.stores.fixed_env import FixedEnv


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def data(row: int) -> Node:
    facts = {"record_count": 1_000, "size_bytes": 2_048}
    return Node(f"data_{row}", "data", f"/wh/t/data/{row}.parquet", facts)


def manifest(index: int, content: str, *children: Node, left_out: LeftOut = LeftOut()) -> Node:  # noqa: B008
    facts = {"content": content, "live_file_count": len(children) + left_out.count, "size_bytes": 7}
    location = f"/wh/t/metadata/m{index}.avro"
    return Node(f"manifest_{index}", "manifest", location, facts, children, left_out)


DELETE = Node(
    "delete_0",
    "position-deletes",
    '/wh/t/data/"quoted"<b>.parquet',
    {"record_count": 1, "size_bytes": 10, "applies_to_count": 2},
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


def printed(out: io.StringIO) -> list[str]:
    options = ConsoleOptions(color="never")
    print_tree(Console(out, io.StringIO(), io.StringIO(), FixedEnv(), options), ROOT, "/wh/t")
    return out.getvalue().splitlines()


def test_text_draws_branches_and_numbers_deletes() -> None:
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


def test_names_are_cut_to_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    lines = printed(Terminal())
    assert max(map(len, lines)) <= 77
    assert '        |   `-- [1] dat...ed"<b>.parquet  1 position delete' in "\n".join(lines)


def test_mermaid_quotes_names_and_draws_what_deletes_apply_to() -> None:
    lines = mermaid(ROOT, "/wh/t").splitlines()
    assert lines[0] == "flowchart LR"
    told = "1 position delete, 10 B, on 2 files"
    assert f'  delete_0["data/#quot;quoted#quot;#lt;b#gt;.parquet<br/>{told}"]' in lines
    assert "  manifest_0 --> data_0" in lines
    assert '  manifest_0_more["2 more files, 4.9 KiB"]' in lines
    assert lines[-2:] == [
        "  delete_0 -.->|deletes from| data_0",
        "  delete_0 -.->|deletes from| data_1",
    ]


def test_page_escapes_names_and_links_deletes_with_data_files() -> None:
    page = tree_page(ROOT, "/wh/t")
    assert "&quot;quoted&quot;&lt;b&gt;.parquet" in page
    assert "<b>.parquet" not in page
    assert 'deleted from by <a href="#delete_0">[1]</a>' in page
    assert '<a href="#data_0">file 1</a>, <a href="#data_1">file 2</a>' in page
    assert page.count("<div") == page.count("</div>")
    assert "src=" not in page
    assert "://" not in page
