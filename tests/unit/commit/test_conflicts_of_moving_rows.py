"""Whether rewritten groups may be committed on another head: rows that change their partition."""

import pytest

from icectl.commands.compact.plan import Branch, plan
from icectl.commands.compact.plan_options import CompactOptions
from icectl.commit.rewritten_groups import GroupResult, conflict, head_of
from icectl.entries.partition_key import encode_key
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.table.live_files import files_of_snapshot
from icectl.table.output_sizes import Sizes
from tests.builders.entry_rows import data, entries, equality
from tests.builders.plain_metadata import plain_metadata

AT = NestedField(1, "at", PrimitiveType("timestamp"), required=False)
BY_YEAR = PartitionSpec(0, (PartitionField((1,), 1000, "y", parse_transform("year")),))
METADATA = plain_metadata(Schema(0, (AT,)), BY_YEAR)
KEY = encode_key([PrimitiveType("int")], [-1])
HEAD = Branch("main", Snapshot(5, 0, sequence_number=9))


def live(*rows):
    return files_of_snapshot(METADATA, (), entries(*rows))


@pytest.mark.parametrize(
    ("file_format", "reason"),
    [(FileFormat.AVRO, None), (FileFormat.ORC, "equality deletes came for `f0`, whose rows move")],
)
def test_r112_deletes_that_come_for_rows_of_orc_files_that_may_move_are_a_conflict(
    file_format, reason
):
    placed = {"partition_key": KEY, "sequence_number": 3}
    rows = [data(f"f{at}", file_format=file_format, **placed) for at in range(5)]
    options = CompactOptions(Sizes(1000, 750, 1800), 0, every=True)
    (group,) = plan(METADATA, HEAD, live(*rows), options).groups
    result = GroupResult(0, group.tasks, entries(data("new", **placed)))
    assert conflict(result, head_of(live(*rows), [result])) is None
    came = equality("e", partition_key=KEY, sequence_number=10, equality_ids=[1])
    assert conflict(result, head_of(live(*rows, came), [result])) == reason
