"""Servers that expire snapshots and delete files themselves, as far as they can be recognised."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from icectl.catalog.rest.client import Config


@dataclass(frozen=True, slots=True)
class Product:
    """A product that keeps deleting for itself; `keeper` is what does it there.

    `keeps_history`: it has a history of its own, of which the metadata show the newest alone: one
    snapshot, no log, and a number in the file's name that counts nothing.
    """

    name: str
    keeper: str
    shows: Callable[[Config], bool]
    keeps_history: bool = False


def _host(config: Config) -> str:
    return (urlsplit(config.uri).hostname or "").lower()


def _is_nessie(config: Config) -> bool:
    """Its configuration has properties of its own; branches of it share their files."""
    return any(name.startswith("nessie.") for name in config.properties)


def _is_s3_tables(config: Config) -> bool:
    federated = "s3tablescatalog" in config.properties.get("warehouse", "")
    signed = config.properties.get("rest.signing-name", "").lower() == "s3tables"
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
    Product(
        "Nessie",
        "`nessie-gc`, which knows all of Nessie's branches",
        _is_nessie,
        keeps_history=True,
    ),
    Product("Amazon S3 Tables", "the maintenance of the table bucket in S3 Tables", _is_s3_tables),
    Product(
        "Databricks Unity Catalog", "the predictive optimization of Databricks", _is_databricks
    ),
    Product("Snowflake", "Snowflake", _is_snowflake),
)
"""Recognised by address and configuration alone: nothing more is asked of the server."""


def product_of(config: Config) -> Product | None:
    """Return the product behind a catalog that keeps deleting for itself; None: clients do it."""
    return next((product for product in PRODUCTS if product.shows(config)), None)
