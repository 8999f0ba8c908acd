"""Containers of Azure by obstore, whose options are spelled as adlfs spells them."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from icectl.errors import Refused, StorageError
from icectl.storage import location as locations
from icectl.storage.buckets.client import BucketAccess, ClientSource, client_options
from icectl.storage.credentials import Renewed
from icectl.storage.origins import is_clouds_own

_ACCOUNT = re.compile(r"[A-Za-z0-9-]{1,63}")
_SETTINGS = {
    "account_key": "account_key",
    "sas_token": "sas_key",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
}
"""Options, and what obstore calls them."""

_GIVEN = {"account_key": "access_key", "sas_key": "sas_token"}
"""Keys that obstore is handed with each request: else those of the environment go before them."""

_EXPRESSED = {*_SETTINGS, "account_name", "account_host", "anon", "connection_string"}
_IN_CONNECTION_STRINGS = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_token",
    "BlobEndpoint": "endpoint",
}


def check_account(location: str, options: Mapping[str, str], user_locations: Sequence[str]) -> None:
    """Check the account that a location names, before anything is sent there.

    It is that of the options, or of one of the `user_locations`, which the user named; without
    those, as for tables of catalogs, any of the cloud itself. Raises: Refused.
    """
    host = _host_of(location)
    known = _options(options)
    if not host or known.keys() & {"endpoint", "account_host"}:  # requests go there
        return
    account = known.get("account_name")
    if host in map(_host_of, user_locations):
        return
    is_known = host.partition(".")[0] == account if account else not user_locations
    if not is_known or not is_clouds_own(host):
        raise Refused(
            f"{locations.redacted(location)} names another account than the table's own, and "
            "credentials for storage go to no other",
            hint="if that account is right, name it: `--storage-option account_name=...`, or "
            "`account_host=...` for one that is not in Azure's own domain",
        )


def _host_of(location: str) -> str:
    authority = locations.root(location).partition("//")[2]
    return authority.partition("@")[2].lower().replace(".dfs.", ".blob.", 1)


def azure_source(authority: str, renewed: Renewed) -> ClientSource | None:
    """How obstore reaches a container, of `CONTAINER@ACCOUNT.dfs.DOMAIN` or of `CONTAINER` alone.

    None where only adlfs can, by its options. Raises: what a refresher does.
    """
    options = renewed.current()
    container, _, host = authority.partition("@")
    known = _options(options)
    has_account = bool(host or known.get("account_name") or known.get("endpoint"))
    if not options.keys() <= _EXPRESSED or not container or not has_account:
        return None

    def access(_: str | None) -> BucketAccess:
        current = _options(renewed.current())
        account = host.partition(".")[0] or current.get("account_name", "")
        endpoint = _endpoint(account, host, current)
        settings = {"account_name": account, "container_name": container, "endpoint": endpoint}
        return BucketAccess(endpoint, f"{endpoint}/{container}", settings, _keys(current))

    return ClientSource("azure", access, _connect, renewed.renew)


def _options(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options, with what a connection string holds, and what only the environment says."""
    text = options.get("connection_string")
    if text is None and not options.keys() & {"account_name", *_SETTINGS}:
        text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    pairs = [pair.partition("=") for pair in (text or "").split(";")]
    found = {
        _IN_CONNECTION_STRINGS[name]: value
        for name, _, value in pairs
        if name in _IN_CONNECTION_STRINGS
    }
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    return {**({"account_name": account} if account else {}), **found, **options}


def _endpoint(account: str, host: str, options: Mapping[str, str]) -> str:
    """Return the address of the account's blobs, which ADLS Gen2 has under another name too."""
    if "endpoint" in options:
        return options["endpoint"].rstrip("/")
    blobs = options.get("account_host") or host
    if not blobs and not _ACCOUNT.fullmatch(account):
        raise StorageError(f"`{account}` is not an account name")
    blobs = blobs or f"{account}.blob.core.windows.net"
    return f"https://{blobs.replace('.dfs.', '.blob.', 1)}"


def _keys(options: Mapping[str, str]) -> Mapping[str, Any]:
    if options.get("anon", "").lower() == "true":
        return {"skip_signature": True}
    keys = {ours: options[theirs] for theirs, ours in _SETTINGS.items() if theirs in options}
    if "sas_key" in keys:
        keys["sas_key"] = keys["sas_key"].removeprefix("?")
    return keys


def _connect(access: BucketAccess, attempts: Any) -> Any:
    from obstore.store import AzureStore

    keys = dict(access.keys)
    given = {name: keys.pop(ours) for ours, name in _GIVEN.items() if ours in keys}

    def provide() -> Any:
        name = next(iter(given))
        return {name: given[name], "expires_at": None}

    config: Any = {**access.settings, **keys}
    return AzureStore(
        config=config,
        client_options=client_options(access),
        retry_config=attempts,
        credential_provider=provide if given else None,
    )
