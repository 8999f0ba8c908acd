"""Properties by which catalogs say how their tables' files are reached, as options of the storage.

The keys are those of PyIceberg and of Iceberg's Java libraries, in configuration files and in what
servers answer; each concerns the schemes of one kind of storage.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from icectl.storage.credentials import Places
from icectl.storage.open import StorageOptions

_S3 = {
    "s3.endpoint": "client_kwargs.endpoint_url",
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "s3.region": "client_kwargs.region_name",
    "s3.profile-name": "profile",
    "s3.anonymous": "anon",
    "s3.connect-timeout": "config_kwargs.connect_timeout",
    "s3.request-timeout": "config_kwargs.read_timeout",
    "s3.server-side-encryption": "s3_additional_kwargs.ServerSideEncryption",
    "s3.sse-kms-key-id": "s3_additional_kwargs.SSEKMSKeyId",
    "client.access-key-id": "key",
    "client.secret-access-key": "secret",
    "client.session-token": "token",
    "client.region": "client_kwargs.region_name",
    "client.profile-name": "profile",
}
_GCS = {
    "gcs.oauth2.token": "token",
    "gcs.project-id": "project",
    "gcs.service.host": "endpoint_url",
    "gcs.requester-pays": "requester_pays",
}
_ADLS = {
    "adls.connection-string": "connection_string",
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_token",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.account-host": "account_host",
    "adls.anon": "anon",
}
_KINDS = (
    (("s3", "s3a", "s3n"), _S3),
    (("gs", "gcs"), _GCS),
    (("abfs", "abfss", "wasb", "wasbs", "az"), _ADLS),
)

_NOT_FROM_SERVERS = {
    "s3.profile-name", "client.access-key-id", "client.secret-access-key",
    "client.session-token", "client.profile-name", "gcs.requester-pays",
    "adls.connection-string", "adls.tenant-id", "adls.client-id", "adls.client-secret",
}  # fmt: skip
"""What the user alone may say: logins elsewhere, who pays, an address within a login."""

_FROM_SERVERS = {*_S3, *_GCS, *_ADLS} - _NOT_FROM_SERVERS | {
    "s3.path-style-access",
    "s3.force-virtual-addressing",
    "s3.remote-signing-enabled",
}
_OF_ACCOUNTS = "adls.sas-token."
_BEARER = re.compile(r"[\x21-\x7e]+")


def of_server(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what of a server's properties concerns storage and is its own to say."""
    return {
        key: value
        for key, value in properties.items()
        if key in _FROM_SERVERS or key.startswith(_OF_ACCOUNTS)
    }


def served_places(properties: Mapping[str, Mapping[str, str]]) -> Places:
    """Return a server's options by beginnings of locations; its tokens are never names of files."""
    places = with_file_io_at(
        StorageOptions(),
        {start: _of_account(of_server(values)) for start, values in properties.items()},
    ).places
    return {start: _without_files(start, options) for start, options in places.items()}


def _of_account(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Azure's tokens carry the account they are for in their names; one goes with its name."""
    options = dict(properties)
    for key, value in properties.items():
        if key.startswith(_OF_ACCOUNTS):
            options["adls.sas-token"] = value
            options.setdefault(
                "adls.account-name", key.removeprefix(_OF_ACCOUNTS).partition(".")[0]
            )
    return options


def _without_files(start: str, options: Mapping[str, str]) -> Mapping[str, str]:
    if not start.startswith(("gs:", "gcs:")) or "token" not in options:
        return options
    others = {name: value for name, value in options.items() if name != "token"}
    is_token = _BEARER.fullmatch(options["token"]) is not None
    return {**others, "bearer_token": options["token"]} if is_token else others


def with_file_io(storage: StorageOptions, properties: Mapping[str, str]) -> StorageOptions:
    """Storage options by a catalog's properties; what the user gave for storage wins over them."""
    return with_file_io_at(storage, {"": properties})


def with_file_io_at(
    storage: StorageOptions, properties: Mapping[str, Mapping[str, str]]
) -> StorageOptions:
    """Return the same, where properties are of all locations that begin with a prefix."""
    places = dict(storage.places)
    for prefix, values in properties.items():
        for schemes, keys in _KINDS:
            options = _translated(values, keys)
            for scheme in schemes:
                start = f"{scheme}:"
                if prefix.startswith(start) or (not prefix and options):
                    places[prefix or start] = options
    return replace(storage, places=places)


def _translated(properties: Mapping[str, str], keys: Mapping[str, str]) -> Mapping[str, str]:
    options: dict[str, str] = {}
    for key, option in keys.items():  # of two keys for one option the first counts
        if properties.get(key) and option not in options:
            options[option] = properties[key]
    if keys is not _S3:
        return options
    style = properties.get("s3.path-style-access", "").lower()
    if properties.get("s3.force-virtual-addressing", "").lower() == "true" or style == "false":
        options["config_kwargs.s3.addressing_style"] = "virtual"
    elif style == "true":
        options["config_kwargs.s3.addressing_style"] = "path"
    if properties.get("s3.proxy-uri"):
        for scheme in ("http", "https"):
            options[f"config_kwargs.proxies.{scheme}"] = properties["s3.proxy-uri"]
    return options
