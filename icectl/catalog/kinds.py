"""The kinds of catalogs, and how each is opened."""

from icectl.catalog.warehouse import CatalogAccess, Warehouse


def open_warehouse(means: CatalogAccess) -> Warehouse:
    """Return a configured catalog, and import only the module of its kind, with its library.

    Raises: UsageError; Unsupported, for a library that is not installed.
    """
    match means.settings.kind:
        case "sql":
            from icectl.catalog import sql

            return sql.connect(means)
        case "rest":
            from icectl.catalog.rest import warehouse as rest

            return rest.connect(means)
        case "glue":
            from icectl.catalog import glue

            return glue.connect(means)
        case _:
            from icectl.catalog.hive import warehouse as hive

            return hive.connect(means)
