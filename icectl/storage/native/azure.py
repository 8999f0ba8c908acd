"""Containers of Azure by obstore, whose options are spelled as adlfs spells them."""

import os
from collections.abc import Mapping
from typing import Any

from icectl.storage.credentials import Renewed
from icectl.storage.native.client import BucketAccess, ClientSource, client_options

_SETTINGS = {
    "account_key": "account_key",
    "sas_token": "sas_key",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
}
"""Options, and what obstore calls them."""

_EXPRESSED = {*_SETTINGS, "account_name", "account_host", "anon", "connection_string"}
_IN_CONNECTION_STRINGS = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_token",
    "BlobEndpoint": "endpoint",
}


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
    if text is None and not options.keys() & {"account_name", "account_key", "sas_token"}:
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
    told = options.get("account_host") or host or f"{account}.blob.core.windows.net"
    return f"https://{told.replace('.dfs.', '.blob.', 1)}"


def _keys(options: Mapping[str, str]) -> Mapping[str, Any]:
    if options.get("anon", "").lower() == "true":
        return {"skip_signature": True}
    found = {ours: options[theirs] for theirs, ours in _SETTINGS.items() if theirs in options}
    if "sas_key" in found:
        found["sas_key"] = found["sas_key"].removeprefix("?")
    return found


def _connect(access: BucketAccess, attempts: Any) -> Any:
    from obstore.store import AzureStore

    config: Any = {**access.settings, **access.keys}
    return AzureStore(config=config, client_options=client_options(access), retry_config=attempts)
