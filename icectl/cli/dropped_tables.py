"""The tables that an option calls dropped, and what every configured catalog says of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from icectl.catalog.identifier import TableName, dotted_name
from icectl.catalog.protocol import Warehouse
from icectl.cli.naming import NameInCatalog, configuration_of, name_in_catalog, warehouse_of
from icectl.cli.options import Common
from icectl.cli.session import storage_of
from icectl.cli.settings import parse_uuid
from icectl.cli.targets import all_below, look_at_each
from icectl.errors import IcectlError, Refused, TableNotFound
from icectl.table.context import DroppedTables


def dropped_tables(common: Common, table: str, uuids: Sequence[str] | None) -> DroppedTables:
    """Return the tables of these uuids, and how to look for them in all configured catalogs.

    The catalog that TABLE names is asked as it is written there.
    """
    own = name_in_catalog(common, table) if uuids else None
    return DroppedTables(
        frozenset(map(parse_uuid, uuids or ())),
        lambda: _cataloged(common, None if own is None else own.catalog),
    )


def _cataloged(common: Common, own: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield every table of every configured catalog, and its uuid. Raises: Refused."""
    configuration = configuration_of(common)
    others = [name for name in configuration.catalogs if own is None or name != own.lower()]
    for catalog in [*others, *([] if own is None else [own])]:
        # Properties on the command line are for the catalog of TABLE alone.
        given = common if catalog == own else replace(common, catalog_option=None)
        name = NameInCatalog(catalog, (), configuration)
        try:
            warehouse = warehouse_of(given, name, storage_of(given))
            tables = {
                dotted_name((catalog, *found.namespace, found.name)): found
                for found in all_below(warehouse, ())
            }
        except IcectlError as error:
            raise _unproven(f"catalog `{catalog}` cannot list its tables", error) from error
        look = partial(_uuid_of, warehouse, tables)
        yield from zip(tables, look_at_each(common, list(tables), look), strict=True)


def _uuid_of(warehouse: Warehouse, tables: Mapping[str, TableName], name: str) -> str | None:
    try:
        return warehouse.table(tables[name]).catalog.load(to_show=True).metadata.table_uuid
    except TableNotFound:  # dropped since then, or no Iceberg table
        return None
    except IcectlError as error:
        raise _unproven(f"the uuid of table `{name}` cannot be read", error) from error


def _unproven(what: str, error: IcectlError) -> Refused:
    return Refused(
        f"{what}, so it may be a table that `--leftover-uuid` calls dropped: {error.message}",
        hint="repair or drop it, or remove its catalog from the configuration for this run",
        id="leftover-unproven",
    )
