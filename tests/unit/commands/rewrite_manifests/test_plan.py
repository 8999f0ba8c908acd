"""The reasons that a plan gives for rewriting leaves of sfc-1."""

import pytest

from icectl.commands.rewrite_manifests.plan import plan_leaves
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from icectl.table.manifest_groups import ManifestsWithEntries, RewriteOptions
from tests.builders.entry_rows import data, entries, key
from tests.builders.plain_metadata import plain_metadata

SCHEMA = Schema(0, (NestedField(1, "category", PrimitiveType("string"), required=False),))
BY_CATEGORY = PartitionSpec(
    0, (PartitionField((1,), 1000, "category", parse_transform("identity")),)
)
UNPARTITIONED = PartitionSpec(1, ())


@pytest.mark.parametrize(
    ("spec_id", "partition_key", "reason"),
    [
        (0, key("a"), "1 partition is spread over 6 places"),
        (1, b"", "entries are spread over 6 places"),
    ],
)
def test_the_spec_of_spread_entries_counts_and_not_that_of_new_ones(spec_id, partition_key, reason):
    specs = (BY_CATEGORY, UNPARTITIONED)
    metadata = plain_metadata(
        SCHEMA, format_version=4, partition_specs=specs, default_spec_id=1 - spec_id
    )
    form = ManifestContent.DATA, 1, 1, 1, 1
    leaves = tuple(
        ManifestFile(f"/t/{at}", 1000, spec_id, *form, file_format=FileFormat.PARQUET)
        for at in range(6)
    )
    rows = [
        data(f"/t/f{at}", manifest=at, spec_id=spec_id, partition_key=partition_key)
        for at in range(6)
    ]
    listed = ManifestsWithEntries(leaves, entries(*rows))
    (group,) = plan_leaves(metadata, "main", listed, RewriteOptions(100_000)).groups
    assert (group.spec_id, group.rewritten, group.reason) == (None, (*range(6),), reason)
