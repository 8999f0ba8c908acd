"""Show what a table is made of."""

from icectl.cli.options import Common, TableArgument, command
from icectl.report.document import Outcome, TableIdentity


@command(
    "inspect",
    examples=[
        ("icectl inspect /warehouse/db/orders", "what the table is now"),
        ("icectl inspect s3://bucket/db/orders --json", "the same for a script"),
    ],
    exit_codes=(10, 13, 14, 15),
)
def inspect(common: Common, table: TableArgument) -> Outcome:
    """Show a table's state, contents, history and health."""
    from icectl.cli.session import open_session

    session = open_session(common, table, read_only=True)
    loaded = session.catalog.load()
    metadata = loaded.metadata
    return Outcome(
        command="inspect",
        result={"format_version": metadata.format_version, "location": metadata.location},
        render=lambda console: console.print(f"format version {metadata.format_version}"),
        table=TableIdentity(
            location=metadata.location,
            uuid=metadata.table_uuid,
            format_version=metadata.format_version,
            metadata_location=loaded.metadata_location,
        ),
    )
