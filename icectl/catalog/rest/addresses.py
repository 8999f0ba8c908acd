"""Paths of the REST protocol, and which of them a server offers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

NAMESPACES = "GET /v1/{prefix}/namespaces"
TABLES = "GET /v1/{prefix}/namespaces/{namespace}/tables"
LOAD_TABLE = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
UPDATE_TABLE = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
LOAD_VIEW = "GET /v1/{prefix}/namespaces/{namespace}/views/{view}"

DEFAULT_ENDPOINTS = frozenset({NAMESPACES, TABLES, LOAD_TABLE, UPDATE_TABLE})
"""Those that icectl uses of what a server offers that does not say what it offers."""

_DEFAULT_SEPARATOR = "%1F"


def endpoints_of(listed: object) -> frozenset[str]:
    """Read the `endpoints` of a server's configuration; the default ones where it has none."""
    if not isinstance(listed, list) or not listed:
        return DEFAULT_ENDPOINTS
    return frozenset(" ".join(str(one).split()) for one in listed)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The paths of one catalog below its `uri`, everything in them encoded."""

    prefix: str = ""
    separator: str = "\x1f"

    @staticmethod
    def of(properties: Mapping[str, str]) -> "Addresses":
        """Take prefix and separator from a catalog's properties."""
        separator = unquote(properties.get("namespace-separator") or _DEFAULT_SEPARATOR)
        return Addresses(properties.get("prefix", "").strip("/"), separator)

    def namespaces(self) -> str:
        """Return the path of the list of namespaces."""
        return f"v1/{self._prefixed('namespaces')}"

    def tables(self, namespace: Iterable[str]) -> str:
        """Return the path of the list of a namespace's tables."""
        return f"{self.namespaces()}/{quote(self.joined(namespace), safe='')}/tables"

    def table(self, namespace: Iterable[str], name: str) -> str:
        """Return the path of a table."""
        return f"{self.tables(namespace)}/{quote(name, safe='')}"

    def credentials(self, namespace: Iterable[str], name: str) -> str:
        """Return the path of the credentials for a table's storage."""
        return f"{self.table(namespace, name)}/credentials"

    def view(self, namespace: Iterable[str], name: str) -> str:
        """Return the path of a view."""
        inside = quote(self.joined(namespace), safe="")
        return f"{self.namespaces()}/{inside}/views/{quote(name, safe='')}"

    def joined(self, namespace: Iterable[str]) -> str:
        """Return a namespace as queries name it, before it is encoded."""
        return self.separator.join(namespace)

    def _prefixed(self, path: str) -> str:
        return f"{quote(self.prefix, safe='/%')}/{path}" if self.prefix else path
