"""Buckets of Google Cloud Storage by obstore, whose options are spelled as gcsfs spells them."""

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from icectl.errors import StorageError, Unsupported
from icectl.format.json_members import parse_json
from icectl.storage.buckets.client import BucketAccess, ClientSource, client_options
from icectl.storage.credentials import Renewed

_EXPRESSED = {"token", "bearer_token", "anon", "project", "endpoint_url", "requester_pays"}
_ONLY_GCSFS_KNOWS = {"cache", "browser"}
"""Ways to log in that ask a person, or what gcsfs has kept of that."""

_ENDPOINT = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_UNSIGNED = {"skip_signature": True, "bearer_token": "none"}
"""obstore asks for a token to write with even so, and gets one that says nothing."""

_FILES = {"service_account": "service_account", "authorized_user": "application_credentials"}
"""Kinds of files that obstore reads, and what it calls them."""


def gcs_source(bucket: str, renewed: Renewed) -> ClientSource | None:
    """Return how obstore reaches a bucket; None where only gcsfs can, by its options.

    Raises: what a refresher does.
    """
    options = renewed.current()
    if not options.keys() <= _EXPRESSED or options.get("token") in _ONLY_GCSFS_KNOWS or not bucket:
        return None
    logins = _Logins()

    def access(_: str | None) -> BucketAccess:
        current = renewed.current()
        endpoint = _endpoint(current)
        settings = {"bucket": bucket, "base_url": endpoint, "project": _paying(current)}
        return BucketAccess(
            endpoint, f"{endpoint}/{bucket}", settings, _keys(current, logins.token)
        )

    return ClientSource("gcs", access, _connect, renewed.renew, logins.token_of)


def _endpoint(options: Mapping[str, str]) -> str:
    """Return the address of the service.

    Emulators are named as Google's own libraries have them named.
    """
    value = options.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST") or _ENDPOINT
    return (value if "://" in value else f"http://{value}").rstrip("/")


def _paying(options: Mapping[str, str]) -> str | None:
    """Return the project that pays for requests in place of the bucket's owner."""
    value = options.get("requester_pays", "")
    if value.lower() in {"", "false"}:
        return None
    return options.get("project") if value.lower() == "true" else value


def _keys(options: Mapping[str, str], login: Callable[[str], str]) -> Mapping[str, Any]:
    """Credentials as obstore takes them; with none it asks the machine that it runs on.

    Raises: StorageError; Unsupported, where only Google's own library knows their kind.
    """
    value = options.get("token", "google_default")
    has_emulator = "endpoint_url" not in options and "STORAGE_EMULATOR_HOST" in os.environ
    if options.get("anon", "").lower() == "true" or value == "anon":
        return _UNSIGNED
    if "bearer_token" in options:
        return {"bearer_token": options["bearer_token"]}
    if value == "cloud":
        return {}
    if value.lstrip().startswith("{"):
        return {"service_account_key": value}
    if value == "google_default":
        if has_emulator:
            return _UNSIGNED
        file = default_credentials()
        return {} if file is None else _from_file(file, login)
    if os.path.exists(value) or value.endswith(".json"):
        return _from_file(value, login)
    return {"bearer_token": value}


def default_credentials() -> str | None:
    """Return the file of application default credentials, where there is one."""
    value = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if value:
        return value
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser("~/.config/gcloud")
    known = os.path.join(folder, "application_default_credentials.json")
    return known if os.path.exists(known) else None


def _from_file(path: str, login: Callable[[str], str]) -> Mapping[str, Any]:
    """Return what a file of credentials makes obstore enter with."""
    try:
        kind = parse_json(Path(path).read_bytes()).get("type", "service_account")
    except (OSError, ValueError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not such a JSON file"
        raise StorageError(
            f"the credentials of {path} cannot be read: {reason}",
            hint="`--storage-option token=...` or GOOGLE_APPLICATION_CREDENTIALS names the file of "
            "a service account or of `gcloud auth application-default login`",
        ) from error
    if kind in _FILES:
        return {_FILES[kind]: path}
    return {"bearer_token": login(path)}


class _Logins:
    """Tokens by Google's own library, for federated identities and those that stand for others."""

    def __init__(self) -> None:
        self._credentials: dict[str, Any] = {}
        self._lock = Lock()

    def token(self, path: str) -> str:
        """Return the token that holds now, of a file of credentials.

        Raises: Unsupported, without that library; what it does.
        """
        return self._token(path, f"the credentials of {path}")

    def token_of(self, access: BucketAccess) -> str | None:
        """Return the token that holds now; None where nothing is signed. Raises: as token."""
        keys = access.keys
        if keys.get("skip_signature"):
            return None
        if "bearer_token" in keys:
            return str(keys["bearer_token"])
        for kind in ("service_account_key", *_FILES.values()):
            if kind in keys:
                return self._token(keys[kind], "these credentials")
        return self._token("", "the credentials of this machine")

    def _token(self, given: str, shown: str) -> str:
        """Return a token by a file of credentials, their text, or of the machine where empty."""
        try:
            import google.auth
            import google.auth.transport.requests
        except ImportError as error:
            raise Unsupported(
                f"{shown} need google-auth ({error})",
                hint="install it with icectl: `pip install 'icectl[gcs]'`",
            ) from error
        with self._lock:
            if given not in self._credentials:
                self._credentials[given] = _loaded(given)
            found = self._credentials[given]
            if not found.valid:
                found.refresh(google.auth.transport.requests.Request())
            token: str = found.token
            return token


def _loaded(given: str) -> Any:
    """Return credentials of Google's own library, as _Logins has them."""
    import google.auth.compute_engine

    if not given:
        of_machine: Any = google.auth.compute_engine.Credentials
        return of_machine(scopes=[_SCOPE])
    load: Any = google.auth.load_credentials_from_file
    if given.lstrip().startswith("{"):
        load, given = google.auth.load_credentials_from_dict, parse_json(given.encode())
    with warnings.catch_warnings():  # it warns of files from untrusted sources
        warnings.simplefilter("ignore", DeprecationWarning)
        return load(given, scopes=[_SCOPE])[0]


def _connect(access: BucketAccess, attempts: Any) -> Any:
    from obstore.store import GCSStore

    settings = dict(access.settings)
    payer = settings.pop("project")
    config: Any = {**settings, **access.keys}
    client: Any = client_options(access)
    if payer is not None:
        client["default_headers"] = {"x-goog-user-project": payer}
    return GCSStore(config=config, client_options=client, retry_config=attempts)
