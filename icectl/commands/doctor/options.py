"""`icectl doctor`: what this machine has, and which catalogs and stores can be reached."""

from typing import Annotated

import typer

from icectl.cli.document import Outcome
from icectl.cli.options import Common, command
from icectl.cli.registry import load_run

PlacesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CATALOG...",
        help="catalogs to try, or locations such as s3://bucket/warehouse (default: every "
        "configured catalog)",
        show_default=False,
    ),
]


@command(
    "doctor",
    examples=[
        ("icectl doctor", "check this machine and every configured catalog"),
        ("icectl doctor prod", "try one catalog"),
        ("icectl doctor s3://bucket/warehouse", "try whether a location can be listed"),
    ],
    exit_codes=(10, 13),
)
def doctor(common: Common, places: PlacesArgument = None) -> Outcome:
    """Check this machine, and the access to catalogs and stores.

    icectl checks Python, libraries, Java, Spark, the settings file and credentials, and never shows
    secrets. It lists the namespaces of each catalog and the files of each location, for at most 20
    seconds each. If a location is a table, icectl shows its format version. Nothing is changed. The
    exit code is 13 if a catalog or location is unreachable.
    """
    return load_run("doctor")(common, places or [])
