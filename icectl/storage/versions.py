"""Previous versions of objects, which a bucket may keep after they were replaced or deleted."""

from collections.abc import Iterator
from functools import partial

from icectl.storage import location as locations
from icectl.storage.buckets.store import NativeStore
from icectl.storage.failures import repeated
from icectl.storage.kept import KeepingStore
from icectl.storage.open import SchemeStore
from icectl.storage.remote import RemoteStore
from icectl.storage.s3fs import previous_versions
from icectl.storage.store import FileStatus, Store


def versions_below(store: Store, folder: str) -> Iterator[FileStatus] | None:
    """Return the versions of objects below a folder that are not the newest ones.

    None where they can't be listed: in other stores than S3. A local folder has none.
    Raises, as they are read: StorageError.
    """
    if locations.is_local(folder):
        return iter(())
    opened = store.store if isinstance(store, KeepingStore) else store
    if not isinstance(opened, SchemeStore):
        return None
    opened = opened.of(folder, "bucket")
    if isinstance(opened, NativeStore) and opened.requests.client.kind == "s3":
        opened = opened.other()
    if not isinstance(opened, RemoteStore) or opened.writer is None:
        return None
    writer = opened.writer
    call = partial(repeated, "list", folder, env=writer.env, secrets=writer.secrets)
    return previous_versions(opened.filesystem, folder, call)
