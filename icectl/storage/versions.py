"""Versions of objects, which a bucket may keep after they were replaced or deleted."""

from collections.abc import Iterator, Sequence
from functools import partial

from icectl.storage import location as locations
from icectl.storage.buckets.store import NativeStore
from icectl.storage.failures import repeated
from icectl.storage.kept import store_behind
from icectl.storage.open import SchemeStore
from icectl.storage.remote import RemoteStore
from icectl.storage.s3fs import object_versions
from icectl.storage.store import FailedRemoval, ObjectVersion, Store


def versions_below(store: Store, folder: str) -> Iterator[ObjectVersion] | None:
    """Return the versions of objects below a folder.

    None where they can't be listed: in other stores than S3. A local folder has none.
    Raises, as they are read: StorageError.
    """
    if locations.is_local(folder):
        return iter(())
    opened = _s3(store, folder)
    if opened is None or opened.writer is None:
        return None
    writer = opened.writer
    call = partial(repeated, "list", folder, env=writer.env, secrets=writer.secrets)
    return object_versions(opened.filesystem, folder, call)


def read_version(store: Store, version: ObjectVersion) -> bytes:
    """Return the content of a version that was listed. Raises: FileNotFoundError; StorageError."""
    opened = _s3(store, version.location)
    assert opened is not None
    assert opened.writer is not None
    return opened.writer.content(version.location, VersionId=version.id)[1]


def remove_versions(
    store: Store, folder: str, versions: Sequence[ObjectVersion]
) -> Sequence[FailedRemoval]:
    """Delete versions that were listed below a folder; those that stay, with reasons.

    What marks an object as deleted goes last, and stays if a version of it does: else that would
    be there again.
    Raises: StorageError.
    """
    opened = _s3(store, folder)
    if not versions or opened is None or opened.writer is None:
        return ()
    failed = list(opened.writer.remove_versions([it for it in versions if not it.is_marker]))
    staying = {item.location for item in failed}
    markers = [it for it in versions if it.is_marker and it.location not in staying]
    return (*failed, *opened.writer.remove_versions(markers))


def _s3(store: Store, folder: str) -> RemoteStore | None:
    opened = store_behind(store)
    if not isinstance(opened, SchemeStore):
        return None
    opened = opened.of(folder, "bucket")
    if isinstance(opened, NativeStore) and opened.requests.client.kind == "s3":
        opened = opened.other()
    return opened if isinstance(opened, RemoteStore) else None
