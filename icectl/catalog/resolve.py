"""The catalog of what TABLE on the command line names: a location, or a configured catalog."""

import re
from collections.abc import Callable
from pathlib import Path

from icectl.catalog.files import (
    FileSystemCatalog,
    NamedFileCatalog,
    SingleFileCatalog,
    read_only_file,
    silent,
)
from icectl.catalog.metadata_files import no_metadata_file
from icectl.catalog.protocol import Catalog, CatalogAccess, Warehouse
from icectl.env import Env
from icectl.errors import UsageError
from icectl.storage import location as locations
from icectl.storage.store import Store

_FILE_ENDINGS = (".json", ".json.gz")
_WITHOUT_BUCKET = re.compile(r"s3[an]?:(?!//[^/])", re.IGNORECASE)


def resolve(
    table: str,
    store: Store,
    env: Env,
    *,
    read_only: bool,
    metadata_file: str | None = None,
    warn: Callable[[str], None] = silent,
) -> Catalog:
    """The catalog for a TABLE that is a location: a directory or URI, or one metadata file to read.

    `metadata_file` is the value of `--metadata-file`: a location, or a name in `metadata/`. `warn`
    is told of what is odd and does no harm. Raises: TableNotFound; Refused, when one metadata file
    is named and the command is not read-only; UsageError.
    """
    location = located(table)
    if location.endswith(_FILE_ENDINGS) and not _is_local_directory(location):
        if metadata_file is not None:
            raise UsageError(
                f"TABLE already names the metadata file {locations.redacted(location)}",
                hint="with `--metadata-file`, TABLE is the table's directory",
            )
        catalog = SingleFileCatalog(store, location)
        if read_only:
            return catalog
        if store.stat(location) is None:
            raise no_metadata_file(location)
        raise read_only_file(location)
    if metadata_file is None:
        return FileSystemCatalog(store, location, env, warn)
    if "/" not in metadata_file:
        file = locations.join(location, "metadata", metadata_file)
    else:
        file = located(metadata_file)
    return NamedFileCatalog(store, location, env, file)


def located(location: str) -> str:
    """Return the absolute location, without a final slash. Raises: UsageError, without a bucket."""
    if not locations.scheme(location):
        return str(Path(location).absolute())
    if _WITHOUT_BUCKET.match(location):
        raise UsageError(
            f"`{location}` names no bucket", hint="a location there looks like s3://bucket/db/table"
        )
    trimmed = location.rstrip("/")
    return location if trimmed.endswith(":") else trimmed


def _is_local_directory(location: str) -> bool:
    try:
        return Path(locations.local_path(location)).is_dir()
    except ValueError:
        return False


def open_warehouse(access: CatalogAccess) -> Warehouse:
    """Return a catalog, importing the module of its kind alone. Raises: UsageError; Unsupported."""
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
