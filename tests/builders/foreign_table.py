"""Tables by other writers, opened where they lie now."""

import json
from pathlib import Path
from typing import Any

from icectl.catalog.resolve import resolve
from icectl.env import SystemEnv
from icectl.format.metadata import TableMetadata
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from icectl.table.context import open_table


def facts_of(fixtures_dir: Path, name: str) -> dict[str, Any]:
    """What independent readers found out about a table."""
    return json.loads((fixtures_dir / "expected.json").read_text())["tables"][name]


def open_foreign(fixtures_dir: Path, name: str) -> tuple[Store, TableMetadata]:
    """A table's metadata, and a store that finds the files it names."""
    facts = facts_of(fixtures_dir, name)
    directory = fixtures_dir / name
    path_map = tuple((item["from"], f"{directory}/") for item in facts["prefix_map"])
    store = open_store(StorageOptions(path_map=path_map), SystemEnv())
    catalog = resolve(f"{directory}/{facts['metadata_file']}", store, SystemEnv(), read_only=True)
    return store, open_table(catalog).metadata
