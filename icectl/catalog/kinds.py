"""The kinds of catalogs, and how each is opened."""

from icectl.catalog.warehouse import CatalogAccess, Warehouse


def open_warehouse(access: CatalogAccess) -> Warehouse:
    """Return a configured catalog, and import only the module of its kind, with its library.

    Raises: UsageError; Unsupported, for a library that is not installed.
    """
    match access.settings.kind:
        case "sql":
            from icectl.catalog import sql

            return sql.connect(access)
        case "rest":
            from icectl.catalog.rest import warehouse as rest

            return rest.connect(access)
        case "glue":
            from icectl.catalog import glue

            return glue.connect(access)
        case _:
            from icectl.catalog.hive import warehouse as hive

            return hive.connect(access)
