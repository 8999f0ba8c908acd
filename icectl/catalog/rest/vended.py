"""Credentials that a server hands out with a table, for the storage of its files.

They end. Whatever uses the storage asks here for the current ones; half-way to their end they are
fetched again, so that what began with the old ones may go on for a while. A copy of this crosses to
other processes, and fetches for itself there.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icectl.catalog.configured import is_secret_property
from icectl.catalog.file_io import of_server, served_places
from icectl.catalog.rest import wire
from icectl.catalog.rest.client import NotThereError, RestClient, hide_nothing, texts
from icectl.errors import IcectlError, Refused, StorageError, Unsupported
from icectl.storage.credentials import Places
from icectl.storage.open import StorageOptions
from icectl.units import read_count

_LOGGER = logging.getLogger(__name__)
_UNTOLD_LIFE_MS = 30 * 60_000
"""How long temporary credentials are taken to be valid whose end is unknown."""

_TEMPORARY = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token")
_KEYS = ("s3.access-key-id", *_TEMPORARY, "adls.account-key", "adls.connection-string")
_ADDRESSES = ("s3.endpoint", "gcs.service.host")
_NAMES_ADDRESS = {*_ADDRESSES, "endpoint_url", "client_kwargs.endpoint_url"}
_PREFIXES = {"gcp": "gs:", "adls": "abfss:"}


@dataclass(slots=True)
class Vended:
    """What a server says of the storage of one table; options that are `configured` win over it.

    `hide` takes secrets. Nothing is asked before the first use.
    """

    client: RestClient
    namespace: tuple[str, ...]
    name: str
    configured: StorageOptions
    hide: Callable[[str], None]
    token: str | None = field(default=None, repr=False)
    _places: Places | None = field(default=None, repr=False)
    _renews_at_ms: int | None = None
    _ends_at_ms: int | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __call__(self) -> Places:
        """Return the options of the storage by beginnings of locations, as they are valid now.

        Raises: Unsupported, where a server signs each request itself; StorageError.
        """
        with self._lock:
            now_ms = self.client.env.now_ms()
            if self._places is None:
                self._load()
            elif self._renews_at_ms is not None and now_ms >= self._renews_at_ms:
                self._renew(now_ms)
            assert self._places is not None
            return self._places

    def expire(self) -> bool:
        """Fetch new credentials with the next use, as the storage takes these no more."""
        with self._lock:
            if self._ends_at_ms is None:
                return False
            self._renews_at_ms = 0
            return True

    def renew_token(self) -> bool:
        """Load the table by the catalog's own login, which brings a new token, or no longer any."""
        with self._lock:
            ended, self.token = self.token, None
            try:
                self._load()
            except (IcectlError, NotThereError):
                self.token = ended
            return self.token != ended

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process without what is bound to this one."""
        storage = self.configured.crossing()
        values = (self.client, self.namespace, self.name, storage, hide_nothing)
        state = (self.token, self._places, self._renews_at_ms, self._ends_at_ms)
        return type(self), (*values, *state)

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Take what the answer to a load, or for credentials, says of the storage."""
        config, listed = texts(answer.get("config")), answer.get("storage-credentials")
        granted = {
            _prefix(str(credential.get("prefix", ""))): texts(credential.get("config"))
            for credential in (listed if isinstance(listed, list) else ())
            if isinstance(credential, dict)
        }
        with self._lock:
            for group in (config, *granted.values()):
                for key, value in group.items():
                    if is_secret_property(key, value):
                        self.hide(value)
            if "token" in config:
                token = config["token"]
                if not token.isascii() or not token.isprintable() or " " in token:
                    raise self.client.odd(
                        self.client.config.uri, "it returned an invalid token for a table"
                    )
                self.token = token
            base = {**self.client.config.storage, **of_server(config)}
            all_said = {**self.client.configured, **base}
            signs = all_said.get("s3.remote-signing-enabled", "").lower() == "true"
            has_keys = granted or "key" in self.configured.options
            if signs and not has_keys and not all_said.keys() & {*_KEYS}:
                raise Unsupported(
                    f"the server of catalog `{self.client.name}` signs each request to the storage "
                    "itself and hands out no credentials, which icectl needs",
                    hint="let the server vend credentials, or give your own with "
                    "`--storage-option` key=KEY and secret=env:NAME",
                )
            special = {prefix: {**base, **settings} for prefix, settings in granted.items()}
            said = {"": base, **special}
            self._check_encrypted(said.values())
            self._places = served_places(said)
            self._set_end([config, *granted.values()])

    def _check_encrypted(self, said: Iterable[Mapping[str, str]]) -> None:
        """Raises: Refused, where a server that is reached by TLS names an address without it."""
        users = {*self.client.configured, *self.configured.options} & _NAMES_ADDRESS
        if users or not self.client.config.uri.startswith("https:"):
            return
        for settings in said:
            for key in _ADDRESSES:
                if settings.get(key, "https:").lower().startswith("http:"):
                    raise Refused(
                        f"the server of catalog `{self.client.name}` gives a storage address "
                        f"without TLS, in `{key}`",
                        hint=f"if that address is right, set the catalog property `{key}` to it",
                    )

    def _set_end(self, settings: list[dict[str, str]]) -> None:
        now_ms = self.client.env.now_ms()
        ends = [
            end_ms
            for group in settings
            for key, value in group.items()
            if "expires-at" in key and (end_ms := read_count(value)) is not None
        ]
        temporary = any(key.startswith(_TEMPORARY) for group in settings for key in group)
        self._ends_at_ms = min(ends, default=now_ms + _UNTOLD_LIFE_MS if temporary else None)
        self._renews_at_ms = None
        if self._ends_at_ms is not None:
            self._renews_at_ms = now_ms + max(0, self._ends_at_ms - now_ms) // 2

    def _renew(self, now_ms: int) -> None:
        """Fetch new credentials; the old ones stay while they are valid, if that fails."""
        try:
            if self.client.offers(wire.CREDENTIALS):  # without the whole table
                path = self.client.config.addresses.credentials(self.namespace, self.name)
                self.learn(self.client.get(path, table=self))
            else:
                self._load()
        except (IcectlError, NotThereError) as error:
            assert self._ends_at_ms is not None
            if now_ms < self._ends_at_ms:
                _LOGGER.debug("cannot renew the credentials of the storage: %s", error)
                return
            raise StorageError(
                f"catalog `{self.client.name}` did not renew the expired storage credentials of "
                f"`{self.name}`: {error}",
                hint="run the command again",
            ) from error

    def _load(self) -> None:
        path = self.client.config.addresses.table(self.namespace, self.name)
        try:
            self.learn(self.client.get(path, table=self))
        except NotThereError as error:
            raise StorageError(f"the table `{self.name}` is gone: {error}") from error


def _prefix(start: str) -> str:
    """Return a beginning of locations; servers also write the kind of storage alone."""
    return start if ":" in start or not start else _PREFIXES.get(start, f"{start}:")
