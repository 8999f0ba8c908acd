"""The advice where a run has made metadata that only a catalog can make current."""

from icectl.report.console import Console

_WAYS = (
    ("PyIceberg", "there is no call for it: name the table as CATALOG.NAMESPACE.TABLE instead"),
    ("Spark", "DROP TABLE t (without PURGE), then CALL c.system.register_table('db.t', 'NEW')"),
    ("REST", 'POST .../register {"name": "t", "metadata-location": "NEW", "overwrite": true}'),
    (
        "SQL",
        (
            "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, "
            "metadata_location = 'NEW' WHERE ... AND metadata_location = 'OLD'"
        ),
    ),
    (
        "Hive",
        (
            "ALTER TABLE t SET TBLPROPERTIES ('metadata_location' = 'NEW', "
            "'previous_metadata_location' = 'OLD')"
        ),
    ),
    ("Glue", "aws glue update-table with the parameter metadata_location, --version-id as read"),
)
"""How each kind of catalog is pointed at a file: none of them but SQL's looks at what is there."""


def print_new_metadata_file(
    console: Console, location: str | None, also: str | None = None
) -> None:
    """Print where the file is, and what to do with it; nothing where there is none."""
    if location is None:
        return
    console.say(f"new metadata file: {location}")
    console.say("point the catalog at it" + (f"; {also}" if also else ""))
    console.say("(NEW is that file, OLD the one it follows; nobody may commit meanwhile):")
    for kind, way in _WAYS:
        console.say(f"  {kind:<9}  {way}")
