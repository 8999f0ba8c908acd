"""The plan of a label: pure."""

from collections.abc import Sequence

from icectl.commands.label.options import LabelRequest

from icectl.format.metadata import TableMetadata
from icectl.format.updates import SetProperties, Update


def plan(metadata: TableMetadata, request: LabelRequest) -> Sequence[str]:
    """Return the team to name; none if the table has one."""
    return () if "team" in metadata.properties else (request.team,)


def updates(metadata: TableMetadata, teams: Sequence[str]) -> Sequence[Update]:
    """Return the updates of the metadata, none if another writer has named a team."""
    return [SetProperties({"team": team}) for team in teams if "team" not in metadata.properties]
