"""Threads of a search for rows: one where several would only wait for one another."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from icectl.commands import matching
from icectl.commands.rows.read import blank_task, condition_job
from icectl.entries.conditions import Constant
from icectl.entries.partition_key import encode_key
from icectl.env import Deadline, SystemEnv
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType
from icectl.progress import SilentProgress
from icectl.rows.find_job import FindJob, FoundRows
from icectl.storage.local.store import LocalStore
from icectl.table.context import TableContext
from icectl.table.rewrite_tasks import InputFile
from tests.builders.plain_metadata import plain_metadata

COLUMN = NestedField(1, "id", PrimitiveType("long"), required=False)
METADATA = plain_metadata(
    Schema(0, (COLUMN,)), PartitionSpec(0, ()), format_version=2, location="t", last_column_id=1,
    table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
)  # fmt: skip
SMALL, LARGE = 300_000, 3 << 20


@pytest.mark.parametrize(
    ("location", "size_bytes", "concurrency", "in_this_one"),
    [
        ("/t/f", SMALL, 8, True),
        ("file:///t/f", SMALL, 8, True),
        ("/t/f", SMALL, 9, False),
        ("/t/f", LARGE, 8, False),
        ("s3://t/f", SMALL, 8, False),
    ],
)
def test_small_columns_of_local_files_are_read_by_one_thread(
    monkeypatch, location, size_bytes, concurrency, in_this_one
):
    threads = []

    def noted(*_: Any) -> list[FoundRows]:
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr(matching, "try_find", noted)
    env = SystemEnv()
    no_catalog: Any = None
    of_run = env, SilentProgress(), Deadline(env, None), concurrency
    context = TableContext(LocalStore(), no_catalog, *of_run)
    file = InputFile(location, FileFormat.PARQUET, LARGE, 9, 0, encode_key((), ()), 0)
    task = replace(blank_task(METADATA), inputs=(file,), expected_bytes=size_bytes)
    everything = Constant(value=True)
    job = FindJob(condition_job(METADATA, everything), everything)
    assert [*matching._ThreadSearcher(context).search([task] * 5, job)] == [[]] * 5
    assert ({threading.get_ident()} == {*threads}) == in_this_one
