"""Decide whether TABLE on the command line is a location or a name in a configured catalog."""

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from icectl.catalog.configured import Configuration, passwords_in, read_configuration
from icectl.catalog.identifier import TableName, dotted_name, parse_name, without_quoted
from icectl.catalog.metadata_files import METADATA_FOLDER, is_metadata_file_name, metadata_version
from icectl.catalog.protocol import CatalogAccess, Warehouse
from icectl.catalog.resolve import open_warehouse
from icectl.cli.options import Common
from icectl.cli.settings import DEFAULT_CATALOG, Settings, is_secret, split_pair
from icectl.errors import TableNotFound, UsageError
from icectl.storage import location as locations
from icectl.storage.open import StorageOptions


@dataclass(frozen=True, slots=True)
class NameInCatalog:
    """A configured catalog, and the parts of a name in it: none, namespaces, or a table's."""

    catalog: str
    parts: tuple[str, ...]
    configuration: Configuration

    @property
    def table(self) -> TableName:
        """The table of that name. Raises: UsageError, where the name is too short for one."""
        if len(self.parts) < 2:
            shown = dotted_name((self.catalog, *self.parts))
            what = "namespace" if self.parts else "catalog"
            listed = target_of(self.catalog, self.parts)
            raise UsageError(
                f"`{shown}` names a {what}; a table is CATALOG.NAMESPACE.TABLE",
                hint=f"`icectl inspect {listed}` lists its tables; {quote(f'{shown}.**')} "
                "means all tables in it",
            )
        return TableName(self.parts[:-1], self.parts[-1])


def name_in_catalog(common: Common, table: str) -> NameInCatalog | None:
    """Return the name that TABLE is; None where it is a location.

    A `/` outside of quotes makes it a location, and so does an existing path, unless it is a
    catalog's name too.
    Raises: UsageError, for what may be both; TableNotFound, for a catalog that is not configured.
    """
    if common.catalog is not None:
        return NameInCatalog(common.catalog, parse_name(table), configuration_of(common))
    if "/" in without_quoted(table):
        return None
    is_path = Path(table).exists()
    try:
        catalog, *parts = parse_name(table)
    except UsageError:
        if is_path:
            return None
        raise
    configuration = configuration_of(common)
    is_known = catalog in configuration or bool(common.catalog_option)
    if is_path and is_known:
        path, inside = quote(f"./{table}"), dotted_name(tuple(parts))
        raise UsageError(
            f"`{table}` is both a path and a name in catalog `{catalog}`",
            hint=f"`{path}` means the path, `--catalog {quote(catalog)} {quote(inside)}` the name"
            if parts
            else f"`{path}` means the path, `{quote(in_quotes(catalog))}` the catalog",
        )
    if is_path:
        return None
    if is_known:
        return NameInCatalog(catalog, tuple(parts), configuration)
    if not parts:
        configured = ", ".join(f"`{known}`" for known in sorted(configuration.catalogs))
        raise TableNotFound(
            f"there is no directory `{table}`, and no catalog of that name",
            hint="TABLE is a directory, a URI such as s3://bucket/db/table, one metadata file, or "
            "a name such as catalog.namespace.table"
            + (f"; configured catalogs: {configured}" if configured else ""),
        )
    raise configuration.unknown(catalog, tuple(parts))


def in_default_catalog(settings: Settings, table: str) -> str:
    """Return TABLE behind the default catalog if it is a name that begins with no catalog.

    Raises: UsageError, for what may be a path too; TableNotFound, if the default catalog is not
    configured.
    """
    default = settings.read(DEFAULT_CATALOG)
    if default is None or "/" in without_quoted(table):
        return table
    try:
        first = parse_name(table)[0]
    except UsageError:  # it is `.`, or no name at all
        return table
    configuration = configured_catalogs(settings)
    if first in configuration:
        return table
    if default not in configuration:
        error = configuration.unknown(default)
        error.message += f", which {settings.origin(DEFAULT_CATALOG).name} names"
        raise error
    full_name = f"{dotted_name((default,))}.{table}"
    if Path(table).exists():
        raise UsageError(
            f"`{table}` is both a path and a name in the default catalog `{default}`",
            hint=f"`{quote(f'./{table}')}` means the path, `{quote(full_name)}` the name",
        )
    return full_name


def name_in_hints(common: Common, table: str) -> str:
    """Return what hints call the table: TABLE, behind its catalog where an option named that."""
    return table if common.catalog is None else f"{dotted_name((common.catalog,))}.{table}"


def changed_in_hints(name: str) -> tuple[str, ...]:
    """Return the words for a table of this name in commands that change it.

    A metadata file becomes its table's directory, with `--metadata-file` where a catalog has named
    it. One outside of a folder `metadata` keeps its name: its table may lie anywhere.
    """
    folder, file = locations.parent(name), locations.name(name)
    is_file = "/" in name and is_metadata_file_name(file)
    if not is_file or locations.name(folder) != METADATA_FOLDER:
        return (name,)
    table = locations.parent(folder)
    is_of_catalog = metadata_version(file).kind != "file-system"
    return (table, "--metadata-file", file) if is_of_catalog else (table,)


def options_in_hints(common: Common, *, with_catalog: bool = False) -> str:
    """Return the options that reach the same table again, each behind a space.

    Of an option with a secret in it only the name is shown: `--storage-option secret=...`.
    `with_catalog`: tables are called by their names in the catalog of `--catalog`.
    """
    words = ["--catalog", common.catalog] if with_catalog and common.catalog is not None else []
    for option, texts in (
        ("--catalog-option", common.catalog_option), ("--storage-option", common.storage_option)
    ):  # fmt: skip
        for text in texts or ():
            key, _, value = text.partition("=")
            is_hidden = is_secret(key) and not value.startswith("env:")
            words += [option, f"{key}=..." if is_hidden or passwords_in(value) else text]
    if common.config is not None:
        words += ["--config", common.config]
    return "".join(f" {quote(word)}" for word in words)


def may_be_short(common: Common, table: str) -> bool:
    """Return whether TABLE may be a name too short for a table's, by its spelling alone."""
    unquoted = without_quoted(table)
    return "/" not in unquoted and unquoted.count(".") < (1 if common.catalog is not None else 2)


def warehouse_of(common: Common, name: NameInCatalog, storage: StorageOptions) -> Warehouse:
    """Return the catalog of a name, unread. Raises: UsageError; TableNotFound; Unsupported."""
    shell, console = common.shell, common.shell.console
    options = dict(
        split_pair(text, "--catalog-option", text.partition("="))
        for text in common.catalog_option or ()
    )
    settings = name.configuration.settings(name.catalog, os.environ, options)
    for secret in settings.secrets:
        console.hide(secret)
    for line in settings.lines():
        console.detail(line)
    return open_warehouse(
        CatalogAccess(settings, shell.env, storage, console.warn, console.hide, shell.deadline)
    )


def in_quotes(catalog: str) -> str:
    """Return a catalog's name as no file is likely to be called."""
    doubled = catalog.replace('"', '""')
    return f'"{doubled}"'


def target_of(catalog: str, parts: tuple[str, ...]) -> str:
    """Return what a command can call something in a catalog; no path has that name."""
    shown = dotted_name((catalog, *parts))
    if Path(shown).exists():
        shown = in_quotes(catalog) + (f".{dotted_name(parts)}" if parts else "")
    return quote(shown)


def configuration_of(common: Common) -> Configuration:
    """Return the catalogs that are configured."""
    return configured_catalogs(common.shell.settings)


def configured_catalogs(settings: Settings) -> Configuration:
    """Return the catalogs that are configured, in these settings or PyIceberg's.

    PyIceberg's file is not looked for in the working directory, which may be anybody's.
    """

    def folders() -> list[Path]:
        try:
            return [Path.home()]
        except RuntimeError:  # a user without a home
            return []

    return read_configuration(os.environ, settings.catalogs, folders)
