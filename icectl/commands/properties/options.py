"""`icectl properties`: show and change the properties of a table."""

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import Change, Common, TableArgument, command
from icectl.cli.registry import load_run

VERBS = ("set", "unset")


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesRequest:
    """The options of `icectl properties`, as given."""

    verb: Annotated[
        str | None,
        typer.Argument(
            metavar="VERB", help="set or unset; without it, properties are shown",
            show_default=False,
        ),
    ] = None  # fmt: skip
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROPERTY...", help="KEY=VALUE to set, KEY to unset", show_default=False
        ),
    ] = None


@command(
    "properties",
    examples=[
        ("icectl properties /wh/db/t", "show every property"),
        (
            "icectl properties /wh/db/t set history.expire.max-snapshot-age-ms=604800000",
            "keep snapshots a week",
        ),
        ("icectl properties prod.db.t unset write.data.path --dry-run", "what would change"),
    ],
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
    choices={"verb": VERBS},
)
def properties(
    common: Common, table: TableArgument, request: PropertiesRequest, change: Change
) -> Outcome:
    """Show the properties of a table, set some, or unset some.

    A change is one commit that changes no file of the table and adds no snapshot. icectl first
    checks the values of properties that it reads. It refuses names of Iceberg's own metadata
    fields, such as format-version. If another writer changes one of the properties concurrently,
    the command exits with code 11.
    """
    return load_run("properties")(common, table, request, change)
