"""`icectl label`: say whose a table is, by a property of the table."""

from dataclasses import dataclass
from typing import Annotated

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TablesArgument, command, option
from icectl.commands.launch import run_on_each_table


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequest:
    """The options of `icectl label`, as given."""

    team: Annotated[str, option("--team", "the team to name (default data)", metavar="NAME")] = (
        "data"
    )


@command(
    "label",
    examples=[("icectl label /wh/db/t --team sales", "name a team")],
    exit_codes=(4, 5, 10, 11, 12, 13, 14, 15),
)
def label(common: Common, tables: TablesArgument, request: LabelRequest, change: Change) -> Outcome:
    """Name the team that a table belongs to, unless it has one.

    One commit sets the property `team`; no file of the table is changed.
    """
    return run_on_each_table("label")(common, tables, request, change)
