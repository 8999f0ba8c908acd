"""Who said what of a storage: credentials go to an address of whoever gave them, or of the cloud.

Options come from the user and from a catalog's server. The login is one thing, taken whole from the
strongest that has one; so is the address. A user's login, or the machine's own, is shown to the
user's address and to those of the cloud itself, and never to one that a server names.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from icectl.errors import Refused

_LOGIN = {
    "key",
    "secret",
    "token",
    "bearer_token",
    "profile",
    "anon",
    "account_key",
    "sas_token",
    "client_id",
    "client_secret",
    "tenant_id",
    "credential",
}
_ADDRESS = {"endpoint_url", "client_kwargs.endpoint_url", "account_host"}
_BOTH = {"connection_string"}
_WHOLE_LOGINS = (
    {"key", "secret"},
    {"bearer_token"},
    {"account_key"},
    {"sas_token"},
)
"""What a server has to send for its login to be one."""

_CLOUDS = re.compile(
    r"(?:[a-z0-9.-]+\.)?s3(?:-fips|-accelerate)?(?:\.dualstack)?(?:[.-][a-z]{2,4}(?:-[a-z]+)+-\d+)?"
    r"\.amazonaws\.(?:com|com\.cn|eu)"
    r"|(?:[a-z0-9-]+\.)+googleapis\.com"
    r"|[a-z0-9-]+(?:\.z\d+)?\.(?:blob|dfs)\."
    r"(?:core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|core\.cloudapi\.de"
    r"|storage\.azure\.net|fabric\.microsoft\.com)"
)
"""Hosts of the clouds' own storage, where nobody else can answer. AWS's domain has hosts of its
customers too."""


def is_clouds_own(host: str) -> bool:
    """Return whether a host is of a cloud's own storage."""
    return _CLOUDS.fullmatch(host.lower()) is not None


def joined(
    configured: Mapping[str, str], served: Mapping[str, str], options: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the options of a storage: `options` win over a server's, these over `configured`.

    Raises: Refused, where the user's credentials would go to an address that a server names.
    """
    own = {**configured, **options}
    if not served:
        return own
    is_served = _logs_in(served) and not options.keys() & (_LOGIN | _BOTH)
    login = served if is_served else own
    address = options if is_served else own
    rest = {**configured, **served, **options}
    settings = {name: value for name, value in rest.items() if name not in _LOGIN | _BOTH}
    settings |= {name: login[name] for name in _LOGIN | _BOTH if name in login}
    if "account_name" in login or "connection_string" in login:
        settings.pop("account_name", None)
        settings |= {name: login[name] for name in ("account_name",) if name in login}
    if address.keys() & (_ADDRESS | _BOTH):
        settings = {name: value for name, value in settings.items() if name not in _ADDRESS}
        return settings | {name: address[name] for name in _ADDRESS if name in address}
    named = [served[name] for name in _ADDRESS if name in served]
    if named and not is_served and not all(map(_is_clouds_address, named)):
        raise Refused(
            f"the catalog's server names {named[0].rpartition('@')[2]} for the storage, "
            "but the credentials for it are yours or this machine's",
            hint="if that address is right, name it yourself: `--storage-option "
            "endpoint_url=...`, or the catalog property `s3.endpoint`, `gcs.service.host` or "
            "`adls.account-host`",
        )
    return settings


def _logs_in(served: Mapping[str, str]) -> bool:
    if served.get("anon", "").lower() == "true":
        return True
    return any(names <= served.keys() for names in _WHOLE_LOGINS)


def _is_clouds_address(address: str) -> bool:
    return not address.lower().startswith("http:") and is_clouds_own(_host(address))


def _host(address: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        has_plain_port = parts.port in (None, 443)
    except ValueError:
        return ""
    return parts.hostname or "" if has_plain_port and "@" not in parts.netloc else ""
