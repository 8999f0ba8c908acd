"""Buckets of S3 by obstore: what of s3fs's options and of AWS's settings it can express."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obstore.store import S3Store

from icectl.errors import StorageError
from icectl.storage.buckets.client import BucketAccess, ClientSource, client_options
from icectl.storage.credentials import (
    AwsKeys,
    AwsSession,
    Renewed,
    endpoint_of,
    has_aws_settings,
    keys_in_environment,
)

_EXPRESSED = {
    "key", "secret", "token", "anon", "profile", "endpoint_url", "requester_pays",
    "client_kwargs.region_name", "client_kwargs.endpoint_url",
    "config_kwargs.s3.addressing_style", "config_kwargs.connect_timeout",
    "config_kwargs.read_timeout", "s3_additional_kwargs.ServerSideEncryption",
    "s3_additional_kwargs.SSEKMSKeyId", "s3_additional_kwargs.BucketKeyEnabled",
}  # fmt: skip
_ENCRYPTION = {
    "s3_additional_kwargs.ServerSideEncryption": "server_side_encryption",
    "s3_additional_kwargs.SSEKMSKeyId": "sse_kms_key_id",
    "s3_additional_kwargs.BucketKeyEnabled": "sse_bucket_key_enabled",
}
_TIMEOUTS = {
    "config_kwargs.connect_timeout": "connect_timeout",
    "config_kwargs.read_timeout": "read_timeout",
}
"""Options in seconds, and what obstore calls them."""

_SECONDS = re.compile(r"[1-9][0-9]{0,4}")
_BOOLEANS = {"true", "false"}
_OTHER_WAYS_IN = {"use_fips_endpoint", "use_dualstack_endpoint", "services"}
"""What a profile can say that only botocore understands."""

_OTHER_WAYS_OF_S3 = {
    "use_accelerate_endpoint", "use_dualstack_endpoint", "payload_signing_enabled",
    "signature_version",
}  # fmt: skip
_OTHER_ENVIRONMENT = {"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "FSSPEC_CONFIG_DIR"}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[A-Za-z0-9-]{1,63}")
_UNORDERED_BUCKETS = "--x-s3"


def s3_source(bucket: str, renewed: Renewed) -> ClientSource | None:
    """How obstore reaches a bucket; None where only s3fs can. Raises: what asking for keys does."""
    options = renewed.current()
    if not _is_expressed(bucket, options) or _has_other_settings():
        return None
    profile = options.get("profile")
    session = None
    has_keys = _is_anonymous(options) or "key" in options or keys_in_environment()
    if not has_keys or has_aws_settings(profile):  # AWS's own settings say something, or must
        session = AwsSession(profile)
        of_s3 = session.profile.get("s3")
        names = set(of_s3) if isinstance(of_s3, dict) else set()
        if _OTHER_WAYS_IN & session.profile.keys() or _OTHER_WAYS_OF_S3 & names:
            return None
    named = options.get("client_kwargs.region_name")
    region = _setting(session, "region", named, os.environ.get("AWS_DEFAULT_REGION"))
    region = region or "us-east-1"  # botocore's default is the oldest one

    def access(other_region: str | None) -> BucketAccess:
        current = renewed.current()
        endpoint = _endpoint(bucket, current, session, other_region or region)
        configured = _configured_endpoint(current, session)
        is_virtual = _is_virtual(bucket, current, session, configured)
        settings = {
            "bucket": bucket,
            **{ours: current[name] for name, ours in _ENCRYPTION.items() if name in current},
            "virtual_hosted_style_request": is_virtual,
            "request_payer": current.get("requester_pays", "").lower() == "true",
        }
        return BucketAccess(
            endpoint,
            endpoint if is_virtual else f"{endpoint}/{bucket}",
            settings,
            _keys(current, session),
            other_region or region,
            _setting(session, "ca_bundle", os.environ.get("AWS_CA_BUNDLE")),
            {ours: f"{current[name]}s" for name, ours in _TIMEOUTS.items() if name in current},
        )

    def renew() -> bool:
        if session is not None and "key" not in options:
            session.forget()
            return True
        return renewed.renew()

    return ClientSource("s3", access, _connect, renew)


def _connect(access: BucketAccess, attempts: Any) -> Any:
    keys = access.keys
    provide: Any = (lambda: {**keys, "expires_at": None}) if keys else None
    config: Any = {
        **access.settings,
        **({} if keys else {"skip_signature": True}),
        "region": access.region,
        "endpoint": access.endpoint,
        "aws_endpoint_url_s3": access.endpoint,  # else those of the environment count
        "conditional_put": "etag",
        "unsigned_payload": False,
    }
    return S3Store(
        config=config,
        client_options=client_options(access),
        retry_config=attempts,
        credential_provider=provide,
    )


def _is_expressed(bucket: str, options: Mapping[str, str]) -> bool:
    """Return whether obstore has all that the options say; what is strange is s3fs's to refuse."""
    return (
        options.keys() <= _EXPRESSED
        and ("key" in options) == ("secret" in options)
        and not ("token" in options and "key" not in options)
        and all(
            options.get(name, "true").lower() in _BOOLEANS for name in ("anon", "requester_pays")
        )
        and all(_SECONDS.fullmatch(options.get(name, "1")) for name in _TIMEOUTS)
        and options.get("config_kwargs.s3.addressing_style", "auto") in {"auto", "path", "virtual"}
        and _BUCKET.fullmatch(bucket) is not None
        and not bucket.endswith(_UNORDERED_BUCKETS)
    )


def _has_other_settings() -> bool:
    """Return whether the environment says something that only botocore and fsspec understand."""
    return (
        bool(_OTHER_ENVIRONMENT & os.environ.keys())
        or any(name.upper().startswith("FSSPEC_S3") for name in os.environ)
        or Path("~/.config/fsspec").expanduser().is_dir()
    )


def _is_anonymous(options: Mapping[str, str]) -> bool:
    return options.get("anon", "").lower() == "true"


def _keys(options: Mapping[str, str], session: AwsSession | None) -> Mapping[str, Any]:
    """Credentials as obstore takes them; empty for requests that are not signed."""
    if _is_anonymous(options):
        return {}
    keys: AwsKeys | None
    if "key" in options:
        keys = AwsKeys(options["key"], options["secret"], options.get("token"))
    else:
        keys = keys_in_environment() if session is None else session.keys()
        assert keys is not None
    return {"access_key_id": keys.key, "secret_access_key": keys.secret, "token": keys.token}


def _setting(session: AwsSession | None, name: str, *stronger: str | None) -> str | None:
    """Return the first of the stronger values that says something, else what the profile says."""
    value = next((value for value in stronger if value), None)
    if value is None and session is not None:
        value = session.profile.get(name)
    return value or None


def _configured_endpoint(options: Mapping[str, str], session: AwsSession | None) -> str | None:
    """Return the address that someone names, by options, environment or profile."""
    named = options.get("endpoint_url") or options.get("client_kwargs.endpoint_url")
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return named
    variables = map(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    return _setting(session, "endpoint_url", named, *variables)


def _is_virtual(
    bucket: str, options: Mapping[str, str], session: AwsSession | None, configured: str | None
) -> bool:
    """Return whether the bucket's name is part of the host, as botocore decides."""
    style = options.get("config_kwargs.s3.addressing_style")
    if style is None and session is not None:
        of_s3 = session.profile.get("s3")
        style = of_s3.get("addressing_style") if isinstance(of_s3, dict) else None
    if configured is not None:
        return style == "virtual"
    return style != "path" and _HOST.fullmatch(bucket) is not None


def _endpoint(
    bucket: str, options: Mapping[str, str], session: AwsSession | None, region: str
) -> str:
    configured = _configured_endpoint(options, session)
    if not _REGION.fullmatch(region):
        raise StorageError(f"`{region}` is not an AWS region")
    base = (configured or endpoint_of("s3", region)).rstrip("/")
    if not _is_virtual(bucket, options, session, configured):
        return base
    scheme, _, host = base.partition("://")
    return f"{scheme}://{bucket}.{host}"
