"""Convert errors of operating systems and storage drivers to icectl's (exit code 13), and retry.

Transient failures are retried. A failed create may have succeeded, so it is retried only under
a name that no other run uses (new_files.py).
"""

import errno
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from threading import Thread
from typing import TypeVar

from icectl.env import Env
from icectl.errors import IcectlError, StorageError, UsageError
from icectl.storage import location as locations
from icectl.units import redact

Result = TypeVar("Result")

_LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0

_LOCAL_HINTS = {
    errno.ENOSPC: "free some space there, then run the command again",
    errno.EDQUOT: "the quota is exhausted; free some space, then run the command again",
    errno.EACCES: "the user running icectl needs access to it",
    errno.EPERM: "the user running icectl needs access to it",
    errno.EROFS: "the file system is mounted read-only",
}
_LONGEST_SHOWN = 60
_NAME_HINT = (
    "file systems take names of some 255 bytes, and folders are named after partition values: with "
    "`write.object-storage.enabled` true and `write.object-storage.partitioned-paths` false they "
    "are not"
)
_TRANSIENT_STATUS = {429, 500, 502, 503, 504}
_TRANSIENT_CODES = {
    "InternalError", "RequestLimitExceeded", "RequestTimeout", "ServiceUnavailable", "SlowDown",
    "Throttling", "ThrottlingException", "TooManyRequestsException",
}  # fmt: skip
# By name: importing botocore and aiohttp to name them costs start-up time.
_UNREACHABLE = {
    "ClientConnectionError", "ConnectTimeoutError", "ConnectionRefusedError",
    "EndpointConnectionError", "NoNameNode", "NotReached", "ProxyConnectionError", "TimeoutError",
}  # fmt: skip
_NOT_SENT = {
    "ConnectTimeoutError", "ConnectionRefusedError", "EndpointConnectionError", "NoCredentials",
    "NoNameNode", "NotReached",
}  # fmt: skip
_BROKEN_OFF = {
    "BrokenOff", "ClientPayloadError", "ConnectionClosedError", "HTTPClientError",
    "IncompleteReadError", "ReadTimeoutError", "ResponseStreamingError",
}  # fmt: skip
_TRANSIENT_ERRNO = {errno.EBUSY, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT}
ENDED_CREDENTIALS = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
"""Codes of answers to credentials that held before, and may be renewed."""

_BAD_CREDENTIALS = ENDED_CREDENTIALS | {
    "AuthenticationFailed", "AuthenticationRequired", "InvalidAccessKeyId",
    "InvalidAuthenticationInfo", "InvalidToken", "SignatureDoesNotMatch",
}  # fmt: skip
_DENIED = {
    "403", "AccessDenied", "AllAccessDisabled", "AuthorizationFailure",
    "AuthorizationPermissionMismatch", "InsufficientAccountPermissions",
}  # fmt: skip
_DENIED_REASON = "access denied"
OTHER_REGION = {"301", "AuthorizationHeaderMalformed", "PermanentRedirect"}
"""Codes of answers about a bucket that is not where it was asked for."""

_NO_CREDENTIALS = {
    "CredentialRetrievalError", "NoCredentials", "NoCredentialsError",
    "PartialCredentialsError", "ProfileNotFound", "SSOError", "TokenRetrievalError",
}  # fmt: skip
_ENDPOINT_HINT = (
    "for storage other than AWS, set its address with `--storage-option endpoint_url=https://...` "
    "or AWS_ENDPOINT_URL"
)
_CREDENTIALS_HINT = (
    "credentials come from `--storage-option key=...` and `secret=env:NAME`, from AWS_PROFILE, "
    "from the AWS_* environment or from the machine's role; `--storage-option anon=true` uses none"
)
_CREDENTIALS_HINTS = {
    "gs": (
        "credentials come from `--storage-option token=...`, from GOOGLE_APPLICATION_CREDENTIALS, "
        "from gcloud's login or from the machine; `--storage-option anon=true` uses none"
    ),
    "hdfs": (
        "the user is that of HADOOP_USER_NAME or of the machine, or of the ticket that Kerberos's "
        "`kinit` got"
    ),
    "az": (
        "credentials come from `--storage-option account_key=env:NAME`, `sas_token=env:NAME` or "
        "`client_id`, `client_secret` and `tenant_id`, from the AZURE_* environment or from the "
        "machine's identity; `--storage-option anon=true` uses none"
    ),
}
_HINTS_OF = {"gs": "gs", "gcs": "gs", "hdfs": "hdfs", "http": "http", "https": "http"}
_HINTS_OF |= dict.fromkeys(("az", "abfs", "abfss", "wasb", "wasbs"), "az")
_OPTIONS_OF: Mapping[str, Sequence[str]] = {
    "s3": (
        "endpoint_url", "key", "secret", "token", "profile", "anon", "requester_pays",
        "client_kwargs.region_name",
    ),
    "gs": ("endpoint_url", "token", "bearer_token", "project", "anon", "requester_pays"),
    "az": (
        "account_name", "account_key", "sas_token", "connection_string", "tenant_id", "client_id",
        "client_secret", "account_host", "anon",
    ),
}  # fmt: skip
"""Options that users of a kind of store need; drivers have more."""
_CLUSTER_HINT = (
    "HADOOP_CONF_DIR names the folder with core-site.xml and hdfs-site.xml, which say where the "
    "name nodes are"
)
_WEB_HINT = (
    "a table's location begins with s3://, gs://, abfss://, hdfs:// or `/`; a REST catalog at this "
    "address is `uri` of `[catalog.NAME]` in icectl.toml"
)
_ENDPOINT_HINTS = {"hdfs": _CLUSTER_HINT, "http": _WEB_HINT}
_REGION_HINT = "`--storage-option client_kwargs.region_name=...` names the bucket's region"
_PASSWORD = re.compile(r"(://[^/\s@:]*):[^/\s@]*@")
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")
ACCESS_DENIED = "access-denied"
"""Id of the error where a file may not be used; other files of the store may be."""

NOT_A_FILE = "not-a-file"
"""Id of the error where a location names no file that could be there, but a directory, say."""

_IDS = {
    errno.EACCES: ACCESS_DENIED,
    errno.EPERM: ACCESS_DENIED,
    errno.EISDIR: NOT_A_FILE,
    errno.ENAMETOOLONG: NOT_A_FILE,
    errno.ENXIO: NOT_A_FILE,
}


class AnswerLost(StorageError):
    """A write was sent and no response came: it may or may not have happened."""


def local_failure(doing: str, location: str, error: OSError) -> StorageError:
    """Return the error for a local file, `doing` being what could not be done, as in `read`."""
    reason, shown = error.strerror or str(error), locations.redacted(location)
    hint = _LOCAL_HINTS.get(error.errno or 0)
    if error.errno == errno.ENAMETOOLONG:
        names = shown.split("/")
        shown = "/".join(
            name if len(name) <= _LONGEST_SHOWN else f"{name[: _LONGEST_SHOWN - 3]}..."
            for name in names
        )
        hint = _NAME_HINT if doing == "write" else None
    reason = f"{reason[:1].lower()}{reason[1:]}"
    id_ = _IDS.get(error.errno or 0)
    return StorageError(f"cannot {doing} {shown}: {reason}", hint=hint, id=id_, reason=reason)


def _unknown_option(name: str, location: str) -> UsageError:
    known = _OPTIONS_OF.get(_HINTS_OF.get(locations.scheme(location), "s3"), ())
    near = get_close_matches(name, known, n=1) or [one for one in known if one.startswith(name)]
    meant = f"did you mean `{near[0]}`? " if near else ""
    return UsageError(
        f"the storage driver has no option `{name}`",
        hint=f"{meant}options are {', '.join(f'`{one}`' for one in known)}" if known else None,
    )


def is_transient(error: Exception) -> bool:
    """Return whether the same request may well succeed in a moment."""
    return any(_is_transient(cause) for cause in _causes(error))


def remote_failure(
    doing: str, location: str, error: Exception, *, secrets: Sequence[str]
) -> Exception:
    """The error for a remote file that could not be used; FileNotFoundError, or one of icectl's.

    icectl's own come back as they are, and so do those that no driver means to raise: bugs.
    """
    if isinstance(error, IcectlError):
        return error
    if isinstance(error, TypeError) and (option := _UNKNOWN_OPTION.search(str(error))):
        return _unknown_option(option[1], location)
    if type(error).__module__ == "builtins" and not isinstance(error, OSError | ValueError):
        return error  # ValueError: drivers mean addresses and names that are none
    if isinstance(error, FileNotFoundError) and error_code(error) != "NoSuchBucket":
        return FileNotFoundError(location)
    kind = _HINTS_OF.get(locations.scheme(location), "")
    credentials_hint = _CREDENTIALS_HINTS.get(kind, _CREDENTIALS_HINT)
    endpoint_hint = _ENDPOINT_HINTS.get(kind, _ENDPOINT_HINT)
    code, said = error_code(error) or "", _first_line(error)
    names = {name for cause in _causes(error) for name in _class_names(cause)}
    known = (
        (code == "NoSuchBucket", "there is no such bucket", endpoint_hint),
        (code in _BAD_CREDENTIALS, f"the credentials are not accepted ({code})", credentials_hint),
        (code in OTHER_REGION, f"the bucket is in another region ({code})", _REGION_HINT),
        ("PermissionError" in names or code in _DENIED, _DENIED_REASON, credentials_hint),
        (names & _NO_CREDENTIALS, f"no credentials: {said}", credentials_hint),
        ("UnknownCluster" in names, said, endpoint_hint),
        (names & _UNREACHABLE, f"no response: {said}", endpoint_hint),
        (True, said, None),
    )
    reason, hint = next((reason, hint) for applies, reason, hint in known if applies)
    reason = _PASSWORD.sub(r"\1:***@", redact(reason, secrets))
    message = f"cannot {doing} {locations.redacted(location)}: {reason}"
    id_ = ACCESS_DENIED if reason == _DENIED_REASON else None
    return StorageError(message, hint=hint, id=id_, reason=reason)


@contextmanager
def remote_errors(doing: str, location: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Use storage inside. Raises: what `remote_failure` makes of an error."""
    try:
        yield
    except Exception as error:  # the seam: drivers raise what they like
        failure = remote_failure(doing, location, error, secrets=secrets)
        if failure is error:
            raise
        raise failure from error


def repeated(
    doing: str, location: str, action: Callable[[], Result], env: Env, secrets: Sequence[str] = ()
) -> Result:
    """Return the result of a request, repeated where it may help. Raises: as remote_failure."""
    return retry(
        action,
        env,
        is_transient=is_transient,
        translated=partial(remote_failure, doing, location, secrets=secrets),
    )


def retry(
    action: Callable[[], Result],
    env: Env,
    *,
    is_transient: Callable[[Exception], bool],
    translated: Callable[[Exception], Exception],
) -> Result:
    """Try up to six times, with pauses that double. Raises: the translation of the last error."""
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except Exception as error:  # the seam: drivers raise what they like
            if attempt == _ATTEMPTS - 1 or not is_transient(error):
                final = translated(error)
                if final is error:
                    raise
                raise final from error
            pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
            _LOGGER.debug("attempt %d failed, again in %s s: %s", attempt + 1, pause, error)
            env.sleep(pause)
    raise AssertionError


def in_time(work: Callable[[], Result], seconds: float) -> Result:
    """Run `work` in a thread and return its result.

    Raises: TimeoutError, while the thread keeps running; what `work` raises.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller has it
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result(timeout=seconds)


def was_refused(error: Exception) -> bool:
    """Return whether storage has answered that it did nothing, or was never reached."""
    if _class_names(error) & _NOT_SENT or any(_class_names(e) & _NOT_SENT for e in _causes(error)):
        return True
    statuses = [_status(cause) for cause in _causes(error)]
    return any(status is not None and 400 <= status < 500 for status in statuses)


def error_code(error: Exception) -> str | None:
    """Return the code of the S3 answer behind an error, as in `NoSuchBucket`."""
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            code = response.get("Error", {}).get("Code")
            return None if code is None else str(code)
    return None


def error_status(error: Exception) -> int | None:
    """Return the HTTP status of the answer behind an error."""
    statuses = (_status(cause) for cause in _causes(error))
    return next((status for status in statuses if status is not None), None)


def _first_line(error: Exception) -> str:
    for cause in _causes(error):
        answer = getattr(cause, "response", None)
        if isinstance(answer, dict) and (message := answer.get("Error", {}).get("Message")):
            return f"{message} ({_code(cause)})"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _class_names(error: BaseException) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    if _class_names(error) & (_UNREACHABLE | _BROKEN_OFF):
        return True
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNO:
        return True
    return _status(error) in _TRANSIENT_STATUS or _code(error) in _TRANSIENT_CODES


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status if isinstance(status, int) else None
    statuses = [getattr(error, name, None) for name in ("status_code", "status", "code")]
    return next((status for status in statuses if isinstance(status, int)), None)


def _code(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None
