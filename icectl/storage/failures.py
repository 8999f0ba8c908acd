"""What libraries and operating systems raise, told in icectl's errors (13)."""

import errno

from icectl.errors import StorageError
from icectl.storage import location as locations

_HINTS = {
    errno.ENOSPC: "free some space there, then run the command again",
    errno.EDQUOT: "the quota is used up; free some space, then run the command again",
    errno.EACCES: "the user running icectl needs access to it",
    errno.EPERM: "the user running icectl needs access to it",
    errno.EROFS: "the file system is mounted read-only",
}


class AnswerLost(StorageError):
    """A write was sent and no answer came: it may or may not have happened."""


def local_failure(doing: str, location: str, error: OSError) -> StorageError:
    """The error for a local file that could not be used; `doing` says for what, as in `read`."""
    reason = error.strerror or str(error)
    return StorageError(
        f"cannot {doing} {locations.shown(location)}: {reason[:1].lower()}{reason[1:]}",
        hint=_HINTS.get(error.errno or 0),
    )
