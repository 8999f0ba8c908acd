"""The report of an erasure in a file, and its signature in another one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from icectl.cli.document import json_parts, put_in_place
from icectl.env import Env
from icectl.errors import StorageError, Unsupported, UsageError
from icectl.units import print_instant

Sign = Callable[[bytes], bytes]
"""Returns the signature of a content."""


def signer_of(file: str) -> Sign:
    """Return what signs with the private key of a PEM file: Ed25519, without a password.

    Raises: UsageError; Unsupported, without the package for it.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        hint = "`pip install 'icectl[sign]'`, in the environment of icectl, installs it"
        raise Unsupported("the package that signs reports is not installed", hint=hint) from error
    try:
        key = load_pem_private_key(Path(file).read_bytes(), password=None)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"`--sign-key`: cannot read {file}: {reason}") from error
    except (ValueError, TypeError):  # its message may tell of the key
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        hint = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
        message = f"`--sign-key`: {file} is not a private Ed25519 key without a password"
        raise UsageError(message, hint=hint)
    return key.sign


def check_place(file: str, inputs: Mapping[str, str | None]) -> None:
    """Check that a report can be written, and not over a file that is read. Raises: UsageError.

    `inputs` are files by the names of their options.
    """
    path = Path(file)
    if not path.parent.is_dir():
        raise UsageError(f"`--report`: there is no folder for {file}")
    if path.is_dir():
        raise UsageError(f"`--report`: {file or 'the empty name'} is a folder")
    for name, other in inputs.items():
        if other and path.resolve() == Path(other).resolve():
            raise UsageError(f"`--report` would replace the file of `{name}`")


def write_report(file: str, built: Mapping[str, Any], sign: Sign | None, env: Env) -> None:
    """Write the JSON document of a run, with the time, and its signature beside it.

    Raises: StorageError.
    """
    dated = {"at": print_instant(env.now_ms()), **built}
    content = "".join(json_parts(dated, indent=2)) + "\n"
    try:
        put_in_place(Path(file), [content], env)
        if sign is not None:
            Path(f"{file}.sig").write_bytes(sign(content.encode()))
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write the report to {file}: {reason}") from error
