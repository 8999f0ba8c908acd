"""Large objects by s3fs: parts that fail, and answers that are lost."""

import pytest

from icectl.errors import StorageError
from icectl.storage import s3fs as s3_upload
from icectl.storage.open import StorageOptions, open_store
from tests.stores.s3_servers import BY_S3FS

pytestmark = pytest.mark.s3

CONTENT = b"0123456789abcdef" * (11 << 16)


@pytest.fixture
def uploading(s3_server, fixed_env, monkeypatch):
    """A store of a bucket of its own, in parts of 5 MiB, and how to make requests fail."""
    monkeypatch.setattr(s3_upload, "_PART_BYTES", 5 << 20)
    s3_server.client.create_bucket(Bucket="uploads")
    store = open_store(StorageOptions(s3_server.options | BY_S3FS, concurrency=2), fixed_env)
    filesystem = store.of("s3://uploads/a").filesystem
    call = filesystem.call_s3
    failing = {}

    def failed(method, *args, **kwargs):
        failure, count = failing.get(method, (None, 0))
        if count:
            failing[method] = failure, count - 1
            if failure == "after":
                call(method, *args, **kwargs)
            raise ConnectionResetError
        return call(method, *args, **kwargs)

    monkeypatch.setattr(filesystem, "call_s3", failed)
    yield store, failing, s3_server.client
    for item in s3_server.client.list_objects_v2(Bucket="uploads").get("Contents", ()):
        s3_server.client.delete_object(Bucket="uploads", Key=item["Key"])
    s3_server.client.delete_bucket(Bucket="uploads")


def write(store):
    with store.open_new("s3://uploads/a") as file:
        file.write(CONTENT)


@pytest.mark.parametrize(
    ("method", "failure"),
    [
        ("create_multipart_upload", "before"),
        ("upload_part", "before"),
        ("upload_part", "after"),
        ("complete_multipart_upload", "before"),
        ("complete_multipart_upload", "after"),
    ],
)
def test_a_request_that_fails_once_is_made_again(uploading, method, failure):
    store, failing, _ = uploading
    failing[method] = failure, 1
    write(store)
    assert store.read("s3://uploads/a") == CONTENT


@pytest.mark.parametrize("method", ["upload_part", "complete_multipart_upload"])
def test_an_upload_that_fails_for_good_leaves_nothing(uploading, method):
    store, failing, client = uploading
    failing[method] = "before", 100
    with pytest.raises(StorageError):
        write(store)
    assert store.stat("s3://uploads/a") is None
    assert client.list_multipart_uploads(Bucket="uploads").get("Uploads", []) == []
