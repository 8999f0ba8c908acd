import pytest

from icectl.plan.compact_task import (
    DeleteFile,
    DeletionVector,
    InputFile,
    MergeDeletesTask,
    RewriteTask,
    task_from_json,
    task_json,
)
from icectl.spec.manifest import FileFormat

INPUT = InputFile(
    "s3://b/t/data/a.parquet",
    FileFormat.PARQUET,
    1000,
    10,
    0,
    b"\x00\xff",
    7,
    first_row_id=30,
    split=(4, 400),
    vector=DeletionVector("s3://b/t/data/d.puffin", 4, 40, 3, 8),
    position_deletes=(0,),
    equality_deletes=(1,),
)
DELETES = (
    DeleteFile("p.avro", FileFormat.AVRO, 90, 2, 8, 0, b"\x00\xff"),
    DeleteFile("e.parquet", FileFormat.PARQUET, 91, 1, 9, 1, b"", (1, 4)),
)


@pytest.mark.parametrize(
    "task",
    [
        RewriteTask("0-1", 0, (INPUT,), DELETES, 1, None, 9, 2000, 900),
        RewriteTask("0-2", 0, (INPUT,), (), 0, b"\x00\xff", 0, 2000, 900),
        MergeDeletesTask("1-0", 1, (INPUT,), DELETES[:1], "vectors"),
    ],
)
def test_a_task_crosses_as_text_unchanged(task) -> None:
    assert task_from_json(task_json(task)) == task
