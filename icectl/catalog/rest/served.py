"""One table as a REST server has it: loading it, and sending it changes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from icectl.catalog import identifier as missing
from icectl.catalog.http import Answer
from icectl.catalog.identifier import TableName, dotted_name
from icectl.catalog.metadata_files import metadata_version
from icectl.catalog.pointer import folder_of
from icectl.catalog.protocol import Capabilities, LoadedTable
from icectl.catalog.rest import wire
from icectl.catalog.rest.client import Config, NotThereError, Refusal, RestClient
from icectl.catalog.rest.vended import Vended
from icectl.catalog.rest.wire import KNOWN_UPDATES, NEWEST_VERSION
from icectl.env import Env
from icectl.errors import CorruptTable, IcectlError, TableNotFound, Unsupported
from icectl.files.metadata_file import check_texts, read_metadata
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import parse_metadata
from icectl.format.metadata_oddities import parse_generously
from icectl.storage import location as locations


@dataclass(frozen=True, slots=True)
class Product:
    """A product that keeps deleting for itself; `keeper` is what does it there.

    `keeps_history`: it has a history of its own, of which the metadata show the newest alone: one
    snapshot, no log, and a number in the file's name that counts nothing.
    """

    keeper: str
    shows: Callable[[Config], bool]
    keeps_history: bool = False


def _host(config: Config) -> str:
    return (urlsplit(config.uri).hostname or "").lower()


def _is_nessie(config: Config) -> bool:
    """Its configuration has properties of its own; branches of it share their files."""
    return any(name.startswith("nessie.") for name in (*config.announced, *config.properties))


def _is_s3_tables(config: Config) -> bool:
    sources = (config.announced, config.properties)
    federated = any("s3tablescatalog" in source.get("warehouse", "") for source in sources)
    signed = any(source.get("rest.signing-name", "").lower() == "s3tables" for source in sources)
    at = re.fullmatch(
        r"s3tables(-fips)?\.[a-z0-9-]+\.(api\.aws|amazonaws\.com(\.cn)?)", _host(config)
    )
    return signed or federated or at is not None


def _is_databricks(config: Config) -> bool:
    domains = (".databricks.com", ".azuredatabricks.net", ".databricks.us")
    return "/unity-catalog/" in f"{urlsplit(config.uri).path}/" and _host(config).endswith(domains)


def _is_snowflake(config: Config) -> bool:
    """Horizon; Open Catalog, which is Polaris, lies below /polaris/ and leaves it to clients."""
    path = urlsplit(config.uri).path
    return _host(config).endswith(".snowflakecomputing.com") and "/polaris/" not in f"{path}/"


PRODUCTS = (
    Product("`nessie-gc`, which knows all of Nessie's branches", _is_nessie, keeps_history=True),
    Product("the maintenance of the table bucket in S3 Tables", _is_s3_tables),
    Product("the predictive optimization of Databricks", _is_databricks),
    Product("Snowflake", _is_snowflake),
)
"""Recognised by address and configuration alone: nothing more is asked of the server."""


def product_of(config: Config) -> Product | None:
    """Return the product behind a catalog that keeps deleting for itself; None: clients do it."""
    return next((product for product in PRODUCTS if product.shows(config)), None)


_BUSY_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Before a commit is sent again that the server had no time for."""


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A table by its names; `read` reads its files, `warn` is told of what had to be put right."""

    client: RestClient
    namespace: tuple[str, ...]
    name: str
    vended: Vended
    read: Callable[[str], bytes]
    warn: Callable[[str], None]

    def load(self, *, to_show: bool = False) -> LoadedTable:
        self.client.check_offers(wire.LOAD_TABLE, "reading a table")
        try:
            answer = self.client.get(self.path, table=self.vended)
        except NotThereError as error:
            raise self._not_found(error.refusal) from error
        return self._loaded(answer, to_show=to_show)

    def loaded_from(self, answer: Mapping[str, Any]) -> LoadedTable:
        """Make a loaded table of the server's answer to a commit. Raises: as load."""
        return self._loaded({**answer, "config": {}}, to_show=False, is_load=False)

    @property
    def path(self) -> str:
        return self.client.config.addresses.table(self.namespace, self.name)

    @property
    def url(self) -> str:
        return f"{self.client.config.uri}/{self.path}"

    @property
    def shown(self) -> str:
        return f"`{dotted_name((*self.namespace, self.name))}` of catalog `{self.client.name}`"

    @property
    def keeps_history(self) -> bool:
        product = product_of(self.client.config)
        return product is not None and product.keeps_history

    def stored(self, location: str) -> TableMetadata:
        return read_metadata(self.read(location))

    def post(self, body: Mapping[str, Any], key: str) -> Answer:
        """Send a commit; again only where the server says that it had no time for it.

        `key` is the same for what is the same commit. Raises: NotReachedError; NoAnswerError;
        StorageError, for the login.
        """
        headers = {"Idempotency-Key": key}
        for seconds in _BUSY_SECONDS:
            answer = self.client.post(self.path, body, headers, self.vended)
            if answer.status != 429:
                return answer
            self.client.env.sleep(seconds)
        return self.client.post(self.path, body, headers, self.vended)

    def _loaded(
        self, answer: Mapping[str, Any], *, to_show: bool, is_load: bool = True
    ) -> LoadedTable:
        members, location = answer.get("metadata"), answer.get("metadata-location")
        if not isinstance(members, dict):
            raise self.client.odd(self.url, "its response has no table metadata")
        if not isinstance(location, str) or not location:
            raise Unsupported(
                f"the server does not say where the metadata of {self.shown} is: the table is "
                "staged and not created yet, or the server hides it",
                hint="maintain it with the server's own tools",
            )
        try:
            check_texts(members)
            metadata = (
                parse_generously(members, locations.parent(locations.parent(location)))
                if to_show
                else parse_metadata(members)
            )
        except CorruptTable as error:
            what = error.what
            raise CorruptTable(f"{self.shown}: {what}", rule=error.rule, hint=error.hint) from error
        if is_load:
            self.vended.learn(answer)
        product = product_of(self.client.config)
        return LoadedTable(
            metadata,
            location,
            None if self.keeps_history else metadata_version(location).version,
            folder_of(metadata),
            Capabilities(
                is_certain=True,
                publishes=True,
                numbers_versions=False,
                cleans_metadata=False,
                maintained_by=None if product is None else product.keeper,
                updates=KNOWN_UPDATES,
                newest_version=NEWEST_VERSION,
                # where others delete, files may be needed that no metadata here shows
                commits_in_sequence=product is None,
            ),
        )

    def _not_found(self, refusal: Refusal) -> IcectlError:
        if self._is_view():
            return Unsupported(f"{self.shown} is a view", hint="a view has no files")
        client, space = self.client, self.namespace
        try:
            names = client.pages(client.config.addresses.tables(space), {}, "identifiers")
            beside = [name["name"] for name in names]
        except NotThereError:
            return no_namespace(client, space)
        except (IcectlError, KeyError, TypeError):
            return TableNotFound(f"there is no table {self.shown}", hint=f"the server: {refusal}")
        return missing.no_table(client.name, TableName(space, self.name), beside)

    def _is_view(self) -> bool:
        if not self.client.offers(wire.LOAD_VIEW):
            return False
        try:
            self.client.get(self.client.config.addresses.view(self.namespace, self.name))
        except (NotThereError, IcectlError):
            return False
        return True


def no_namespace(client: RestClient, namespace: tuple[str, ...]) -> TableNotFound:
    """Make the error for a namespace that is not there: it lists those beside it, or above."""
    for depth in reversed(range(len(namespace))):
        try:
            known = [dotted_name(name) for name in client.namespaces(namespace[:depth])]
        except NotThereError:
            continue
        except IcectlError:
            break
        return missing.no_namespace(client.name, namespace, known)
    return TableNotFound(
        f"catalog `{client.name}` has no namespace `{dotted_name(namespace)}`",
        hint=f"`icectl inspect {client.name}` lists its namespaces",
    )


def time_ordered_uuid(env: Env) -> str:
    """Return a version 7 UUID, the form that idempotency keys have."""
    random, ms = env.new_uuid(), f"{env.now_ms():012x}"
    return f"{ms[:8]}-{ms[8:]}-7{random[15:]}"
