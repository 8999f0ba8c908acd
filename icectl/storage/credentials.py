"""Storage credentials: their owner, where they may be sent, and renewal before they expire.

Options come from the user and from a catalog's server. The login comes as a whole from the first of
them that has one; so does the address. The login of the user or the machine is sent to the user's
address and the cloud's own addresses, never to an address that only a server names.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlsplit

from icectl.errors import Refused

Places = Mapping[str, Mapping[str, str]]
"""Options of locations that begin with a prefix, of which the longest counts."""


_LOGIN = {
    "key", "secret", "token", "bearer_token", "profile", "anon", "account_key", "sas_token",
    "client_id", "client_secret", "tenant_id", "credential",
}  # fmt: skip
_ADDRESS = {"endpoint_url", "client_kwargs.endpoint_url", "account_host"}
_BOTH = {"connection_string"}
_WHOLE_LOGINS = ({"key", "secret"}, {"bearer_token"}, {"account_key"}, {"sas_token"})
"""What a server has to send for its login to be one."""

_CLOUDS = re.compile(
    r"(?:[a-z0-9.-]+\.)?s3(?:-fips|-accelerate)?(?:\.dualstack)?(?:[.-][a-z]{2,4}(?:-[a-z]+)+-\d+)?"
    r"\.amazonaws\.(?:com|com\.cn|eu)"
    r"|(?:[a-z0-9-]+\.)+googleapis\.com"
    r"|[a-z0-9-]+(?:\.z\d+)?\.(?:blob|dfs)\."
    r"(?:core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|core\.cloudapi\.de"
    r"|storage\.azure\.net|fabric\.microsoft\.com)"
)
"""Hosts of the clouds' own storage, where no other server can answer. AWS's domain has hosts of its
customers too."""

_DOMAINS = {
    "cn": "amazonaws.com.cn",
    "eusc": "amazonaws.eu",
    "us-iso": "c2s.ic.gov",
    "us-isob": "sc2s.sgov.gov",
    "us-isof": "csp.hci.ic.gov",
    "eu-isoe": "cloud.adc-e.uk",
}
"""Of regions whose names begin like that; all others are of amazonaws.com."""


class Vendor(Protocol):
    """What hands out options of the storage that end; it crosses to other processes."""

    def __call__(self) -> Places:
        """Return the options that are valid now. Raises: StorageError; Unsupported."""

    def expire(self) -> bool:
        """Ask again next time, as the storage takes these no more; whether there is one to ask."""


class Renewed:
    """The options that hold now of the locations of one store; any thread may ask."""

    def __init__(
        self, ask: Callable[[], Mapping[str, str]], expire: Callable[[], bool] | None = None
    ) -> None:
        self._ask = ask
        self._expire = expire
        self._options: Mapping[str, str] = {}
        self._lock = Lock()

    @property
    def ends(self) -> bool:
        return self._expire is not None

    def current(self) -> Mapping[str, str]:
        """Return all options; the same object as long as they hold. Raises: what `ask` does."""
        keys = self._ask()
        with self._lock:
            if keys != self._options:
                self._options = keys
            return self._options

    def renew(self) -> bool:
        return self._expire is not None and self._expire()


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """What requests to S3 are signed with."""

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def keys_in_environment() -> AwsKeys | None:
    """Return the keys of AWS's variables; None without both a key and a secret."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    token = os.environ.get("AWS_SESSION_TOKEN") or os.environ.get("AWS_SECURITY_TOKEN")
    return AwsKeys(key, secret, token) if key and secret else None


def has_aws_settings(profile: str | None) -> bool:
    """Whether AWS's configuration says something, which only botocore reads as AWS's tools do."""
    config = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    named = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    return bool(named) or Path(config).expanduser().is_file()


def endpoint_of(service: str, region: str) -> str:
    """Return the address of one of AWS's services in a region."""
    domains = [domain for start, domain in _DOMAINS.items() if region.startswith(f"{start}-")]
    return f"https://{service}.{region}.{domains[0] if domains else 'amazonaws.com'}"


class AwsSession:
    """Credentials and settings as AWS's own tools find them, by botocore, which renews them."""

    def __init__(self, profile: str | None) -> None:
        import botocore.session

        self._session = botocore.session.Session(profile=profile)
        self._credentials: Any = None
        self._lock = Lock()

    @property
    def profile(self) -> Mapping[str, Any]:
        """All that the profile's section says."""
        config: Mapping[str, Any] = self._session.get_scoped_config()
        return config

    def keys(self) -> AwsKeys:
        """Return the keys that hold now. Raises: what botocore does."""
        with self._lock:
            if self._credentials is None:
                self._credentials = self._session.get_credentials()
            if self._credentials is None:
                from botocore.exceptions import NoCredentialsError

                raise NoCredentialsError
            credentials = self._credentials.get_frozen_credentials()
        return AwsKeys(credentials.access_key, credentials.secret_key, credentials.token)

    def forget(self) -> None:
        with self._lock:
            self._credentials = None


def is_clouds_own(host: str) -> bool:
    """Return whether a host is of a cloud's own storage."""
    return _CLOUDS.fullmatch(host.lower()) is not None


def joined(
    configured: Mapping[str, str], served: Mapping[str, str], options: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the options of a storage: `options` win over a server's, these over `configured`.

    Raises: Refused, where the user's credentials would go to an address that a server names.
    """
    users = {**configured, **options}
    if not served:
        return users
    has_login = served.get("anon", "").lower() == "true" or any(
        names <= served.keys() for names in _WHOLE_LOGINS
    )
    is_served = has_login and not options.keys() & (_LOGIN | _BOTH)
    login = served if is_served else users
    address = options if is_served else users
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


def _is_clouds_address(address: str) -> bool:
    return not address.lower().startswith("http:") and is_clouds_own(_host(address))


def _host(address: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        has_plain_port = parts.port in (None, 443)
    except ValueError:
        return ""
    return parts.hostname or "" if has_plain_port and "@" not in parts.netloc else ""
