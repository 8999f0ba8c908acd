"""Credentials that end: asked for again before they do, by whoever can."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

Places = Mapping[str, Mapping[str, str]]
"""Options of locations that begin with a prefix, of which the longest counts."""


class Vendor(Protocol):
    """Whoever hands out options of the storage that end; it crosses to other processes."""

    def __call__(self) -> Places:
        """Return the options that are valid now. Raises: StorageError; Unsupported."""

    def expire(self) -> bool:
        """Ask anew next time, as the storage takes these no more; whether there is one to ask."""


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
        """Whether someone renews the options."""
        return self._expire is not None

    def current(self) -> Mapping[str, str]:
        """Return all options; the same object as long as they hold.

        Raises: what whoever is asked does.
        """
        keys = self._ask()
        with self._lock:
            if keys != self._options:
                self._options = keys
            return self._options

    def renew(self) -> bool:
        """Ask anew, as the storage takes them no more; whether there is someone to ask."""
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


_DOMAINS = {
    "cn": "amazonaws.com.cn",
    "eusc": "amazonaws.eu",
    "us-iso": "c2s.ic.gov",
    "us-isob": "sc2s.sgov.gov",
    "us-isof": "csp.hci.ic.gov",
    "eu-isoe": "cloud.adc-e.uk",
}
"""Of regions whose names begin like that; all others are of amazonaws.com."""


def endpoint_of(service: str, region: str) -> str:
    """Return the address of one of AWS's services in a region."""
    domains = [domain for start, domain in _DOMAINS.items() if region.startswith(f"{start}-")]
    return f"https://{service}.{region}.{domains[0] if domains else 'amazonaws.com'}"


class AwsSession:
    """Credentials and settings as AWS's own tools find them, by botocore.

    Environment, profiles, SSO, assumed and web-identity roles, containers and instances; botocore
    renews those that end.
    """

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
        """Look for credentials anew, as the storage takes these no more."""
        with self._lock:
            self._credentials = None
