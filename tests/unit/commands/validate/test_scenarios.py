"""What `validate` says of the paper's pictures of version 4: what the paper says of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from icectl.catalog.files import FILE_SYSTEM
from icectl.checks.rules import RuleChoice
from icectl.commands.validate.lists import CheckTally
from icectl.commands.validate.sfc1 import check
from icectl.format.metadata_json import parse_metadata
from icectl.format.snapshot import Snapshot
from icectl.storage.store import FileStatus
from icectl.table.reader import Reader
from tests.builders.commits import loaded_at
from tests.builders.expiry import context_of
from tests.builders.scenarios import METADATA, SCENARIOS, Files, Scenario
from tests.stores.fixed_env import FixedEnv

NOT_DRAWN = {"V4-067", "V4-104", "V4-105", "V4-147", "V4-162"}
"""Of row ids, lowest sequence numbers and statistics of leaves, which most pictures leave out."""

SAID: Mapping[str, set[tuple[str, str]]] = {
    "SC-01": {("V4-091", "S1")},
    "SC-02": {("V4-113", "S1")},  # which is a snapshot of version 3 in the paper
    "SC-06": {("V4-107", "M3")},
    "SC-10": {("V4-107", "M2"), ("V4-108", "M2")},
    "SC-13": {("V4-107", "M2")},
    "SC-14": {("V4-107", "M2"), ("V4-108", "M2")},
    "SC-17": {("V4-107", "DVM4"), ("V4-107", "DM3"), ("V4-108", "DVM4")},
    "SC-19": {("V4-080", "S3"), ("V4-087", "S3")},
    # S3 also loses DV1 with its leaf, and has DV3 as EXISTING although it was not there before.
    "SC-20": {
        ("V4-107", "M4"), ("V4-121", "snapshot 103"), ("V4-121", "snapshot 104"),
        ("V4-160", "snapshot 104"), ("V4-161", "snapshot 104"),
    },
    "SC-25": {("V4-087", "S3"), ("V4-087", "S4")},
}  # fmt: skip


@dataclass
class Store(Files):
    """Files in memory, with what a check asks of a store beside their bytes."""

    def read(self, location: str) -> bytes:
        if location not in self.contents:
            raise FileNotFoundError(location)
        return self.contents[location]

    def stat(self, location: str) -> FileStatus | None:
        found = self.contents.get(location)
        return None if found is None else FileStatus(location, len(found), 0)


def findings(name: str) -> set[tuple[str, str]]:
    """(rule, file or snapshot) of errors and warnings in a scenario."""
    scenario = Scenario(name, Store())
    scenario.build()
    snapshots: list[Snapshot] = []
    for one in scenario.snapshots:
        parent = snapshots[-1].snapshot_id if snapshots else None
        made = scenario.snapshot(one["snapshot"])
        snapshots.append(replace(made, parent_snapshot_id=parent))
    metadata = replace(parse_metadata(METADATA), snapshots=tuple(snapshots), next_row_id=10**6)
    loaded = loaded_at("file:///t/metadata/v1.metadata.json", metadata, FILE_SYSTEM)
    context = context_of(store=scenario.files, env=FixedEnv())  # type: ignore[arg-type]
    found = CheckTally(RuleChoice())
    check(Reader(context, loaded), snapshots, found)
    return {
        (one.rule, one.subject.rpartition("/")[2].partition(".")[0])
        for one in found.findings
        if one.severity != "info" and one.rule not in NOT_DRAWN
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_picture_is_judged_as_the_paper_judges_it(name):
    assert findings(name) == SAID.get(name, set())
