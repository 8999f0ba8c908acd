"""Maintaining tables by their names, in every kind of catalog."""

from typing import Any

from icectl.format.properties import LAST_ORPHAN_SCAN
from tests.builders.compactions import build
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata, local, read_metadata
from tests.catalogs.server import NAME
from tests.fault.changing import run


def test_tables_are_found_and_the_search_for_orphans_is_noted(server):
    for name in ("kept_a", "kept_b"):
        build(server.warehouse / name, 2, "identity")
        server.register(name, str(current_metadata(server.warehouse / name)))
    lost = stray(server.warehouse / "kept_a" / "data", "lost.parquet", days=7)
    age(server.warehouse, 5)
    age(lost, 7)
    # The servers have other tests' tables, too.
    namespace = ".".join((NAME, *server.namespace))
    words = ["maintain", f"{namespace}.kept_*", "--only", "remove-orphans", "--yes", "--json"]

    def statuses() -> tuple[int, dict[str, Any]]:
        code, document = run(words)
        rows = document["result"]["tables"]
        return code, {row["table"].removeprefix(f"{namespace}."): row["status"] for row in rows}

    assert statuses() == (0, {"kept_a": "done", "kept_b": "nothing-to-do"})
    assert not lost.exists()
    noted = read_metadata(local(server.current("kept_b")))["properties"]
    assert LAST_ORPHAN_SCAN.name in noted
    assert statuses() == (0, {"kept_a": "nothing-to-do", "kept_b": "nothing-to-do"})
