"""The certificates by which catalogs' servers are trusted, and icectl by them."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from icectl.errors import UsageError

_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Read the certificates that a catalog's properties name, `ssl.cabundle` and `ssl.client.*`.

    Where they name no authority, the environment does, or those of the machine are trusted.
    Raises: UsageError.
    """
    trusted = properties.get("ssl.cabundle") or next(
        (os.environ[name] for name in _VARIABLES if os.environ.get(name)), None
    )
    certificate, key = properties.get("ssl.client.cert"), properties.get("ssl.client.key")
    what = "ssl.cabundle"
    try:
        is_folder = trusted is not None and Path(trusted).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else trusted, capath=trusted if is_folder else None
        )
        if certificate:
            what = "ssl.client.cert"
            context.load_cert_chain(certificate, key)
    except OSError as error:  # SSLError among them
        reason = error.strerror or str(error)
        raise UsageError(
            f"catalog property `{what}`: {reason}", hint="give certificates and keys as PEM files"
        ) from error
    return context
