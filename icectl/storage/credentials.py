"""Credentials that end: asked for again before they do, by whoever can."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from icectl.env import Env

_RENEWED_BEFORE_MS = 300_000
"""How long credentials still hold when new ones are asked for; half their life where that is less.

A request, or one file's upload, takes less.
"""


@dataclass(frozen=True, slots=True)
class Vended:
    """Storage options that someone gave for a time, such as a catalog.

    They are laid over the user's, and `ends_ms` is the time since 1970 at which they end; None for
    those that do not.
    """

    options: Mapping[str, str] = field(repr=False)
    ends_ms: int | None = None


Refresh = Callable[[], Vended]
"""Gives options that hold from now on. Raises: IcectlError."""


class Renewed:
    """The options that hold now, by one refresher; any thread may ask."""

    def __init__(self, options: Mapping[str, str], refresh: Refresh | None, env: Env) -> None:
        self._options = dict(options)
        self._refresh = refresh
        self._env = env
        self._lock = Lock()
        self._known = refresh is None
        self._renewed_at_ms: int | None = None

    def current(self) -> Mapping[str, str]:
        """All options; the same object as long as they hold. Raises: what the refresher does."""
        with self._lock:
            if not self._known or self._is_due():
                self._ask()
            return self._options

    def renew(self) -> bool:
        """Ask anew, as the storage takes them no more; whether there is someone to ask."""
        with self._lock:
            if self._refresh is not None:
                self._ask()
            return self._refresh is not None

    def _is_due(self) -> bool:
        return self._renewed_at_ms is not None and self._env.now_ms() >= self._renewed_at_ms

    def _ask(self) -> None:
        assert self._refresh is not None
        vended = self._refresh()
        self._options = {**self._options, **vended.options}
        self._known = True
        self._renewed_at_ms = None
        if vended.ends_ms is not None:
            life_ms = max(0, vended.ends_ms - self._env.now_ms())
            self._renewed_at_ms = vended.ends_ms - min(_RENEWED_BEFORE_MS, life_ms // 2)


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """What requests to S3 are signed with."""

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


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
        found: Mapping[str, Any] = self._session.get_scoped_config()
        return found

    def keys(self) -> AwsKeys:
        """The keys that hold now. Raises: what botocore does."""
        with self._lock:
            if self._credentials is None:
                self._credentials = self._session.get_credentials()
            if self._credentials is None:
                from botocore.exceptions import NoCredentialsError

                raise NoCredentialsError
            found = self._credentials.get_frozen_credentials()
        return AwsKeys(found.access_key, found.secret_key, found.token)

    def forget(self) -> None:
        """Look for credentials anew, as the storage takes these no more."""
        with self._lock:
            self._credentials = None
