"""Objects that the storage puts together of ranges of others, and merges of data files by that."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from icectl.errors import StorageError
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.s3fs import LEAST_PART_BYTES as LEAST
from icectl.storage.store import CopyRefused
from tests.s3.conftest import Bucket
from tests.stores.assemblies import assemble_of_replaced, assembled, begun
from tests.stores.failing_proxy import told
from tests.stores.fixed_env import FixedEnv
from tests.stores.merges import merge
from tests.stores.s3_servers import S3Server

pytestmark = pytest.mark.s3

SIZES = {"large": LEAST + 77_777, "larger": LEAST + 5, "small": 300_000, "tiny": 9}
NUMBERS = itertools.count()
CONTENT = {name: random.Random(name).randbytes(size) for name, size in SIZES.items()}


class Objects:
    """Objects of a bucket, and a store that counts its requests, and fails some of them."""

    def __init__(self, server: S3Server, name: str, env: FixedEnv, **options: str) -> None:
        self.root, self.client, self.bucket = f"s3://{name}", server.client, name
        self.client.create_bucket(Bucket=name)
        for key, content in CONTENT.items():
            self.client.put_object(Bucket=name, Key=key, Body=content)
        own = {"default_block_size": str(LEAST + next(NUMBERS))}  # or s3fs is that of another test
        given = StorageOptions(server.options | own | options, concurrency=4)
        self.store = open_store(given, env)
        self.filesystem = self.store.of(f"{self.root}/a").filesystem
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.failing: dict[str, tuple[str, int]] = {}
        call = self.filesystem._call_s3

        async def counted(method: str, *args: Any, **kwargs: Any) -> Any:
            self.requests.append((method, kwargs))
            failure, count = self.failing.get(method, (None, 0))
            if count:
                self.failing[method] = failure, count - 1
                if failure == "after":
                    await call(method, *args, **kwargs)
                raise ConnectionResetError
            return await call(method, *args, **kwargs)

        self.filesystem._call_s3 = counted
        self.filesystem.call_s3 = lambda *args, **kwargs: self._synchronous(counted, args, kwargs)

    def _synchronous(self, call: Any, args: Any, kwargs: Any) -> Any:
        from fsspec.asyn import sync

        return sync(self.filesystem.loop, call, *args, **kwargs)

    def made_of(self, *parts: Any) -> bytes:
        return assembled(self.store, self.root, "new", CONTENT, parts)

    def stored(self) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key="new")["Body"].read()

    def left(self) -> tuple[list[Any], set[str]]:
        """Uploads that were begun, and objects."""
        uploads = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        listed = self.client.list_objects_v2(Bucket=self.bucket)["Contents"]
        return uploads, {item["Key"] for item in listed}

    @property
    def counts(self) -> Counter[str]:
        return Counter(method for method, _ in self.requests)


@pytest.fixture(scope="session", params=["versitygw", pytest.param("moto", marks=pytest.mark.full)])
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """The servers, of which the one that holds to S3's rules of parts is asked each time."""
    server: S3Server = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def objects(s3_server: S3Server, fixed_env: FixedEnv) -> Objects:
    return Objects(s3_server, f"assembled-{next(NUMBERS)}", fixed_env)


ALL = [(key, 0, size) for key, size in SIZES.items()]


@pytest.mark.parametrize(
    "parts",
    [
        [b"PAR1", ("large", 4, 5000), ("larger", 4, SIZES["larger"]), ("small", 0, 9)],
        [("tiny", 0, 9), b"", ("small", 1, 2)],
        [*ALL, *ALL[::-1], *ALL],
        [("large", 0, LEAST - 1), ("large", LEAST - 1, LEAST), ("tiny", 0, 1)],
        [bytes(22 << 20), ("large", 0, SIZES["large"])],
    ],
    ids=["filled", "small", "all", "adjacent", "bytes"],
)
def test_an_object_has_the_bytes_of_its_parts_in_order(objects, parts):
    assert objects.made_of(*parts) == objects.stored()


def test_ranges_are_copied_by_the_storage_on_condition_and_shorter_ones_pass_here(objects):
    objects.made_of(("large", 0, LEAST), ("large", LEAST, SIZES["large"]), ("small", 0, 99), b"end")
    assert objects.counts == {
        "get_object": 3, "create_multipart_upload": 1, "upload_part_copy": 1, "upload_part": 1,
        "complete_multipart_upload": 1,
    }  # fmt: skip
    told = dict(objects.requests)
    assert told["upload_part_copy"]["CopySourceRange"] == f"bytes=0-{SIZES['large'] - 1}"
    head = objects.client.head_object(Bucket=objects.bucket, Key="large")
    assert told["upload_part_copy"]["CopySourceIfMatch"] == head["ETag"]
    assert told["complete_multipart_upload"]["IfNoneMatch"] == "*"
    assert len(told["upload_part"]["Body"]) == 99 + 3


def test_encryption_goes_with_the_upload_and_who_pays_with_every_request(moto_server, fixed_env):
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:r:1:key/k"}
    options = {f"s3_additional_kwargs.{name}": value for name, value in encryption.items()}
    name = f"assembled-{next(NUMBERS)}"
    objects = Objects(moto_server, name, fixed_env, requester_pays="true", **options)
    assert objects.made_of(*ALL) == objects.stored()
    told = dict(objects.requests)
    assert {"get_object", "upload_part_copy", "upload_part"} < told.keys()
    assert {given["RequestPayer"] for _, given in objects.requests} == {"requester"}
    assert encryption.items() <= told["create_multipart_upload"].items()
    made = objects.client.head_object(Bucket=name, Key="new")
    assert encryption.items() <= made.items()


def test_a_source_that_is_written_over_is_told(objects):
    def replace() -> None:
        objects.client.put_object(Bucket=objects.bucket, Key="large", Body=bytes(LEAST))

    with pytest.raises(StorageError, match="was replaced during the run"):
        assemble_of_replaced(objects.store, objects.root, SIZES, replace, read=True)
    assert objects.left() == ([], set(SIZES))


@pytest.mark.parametrize(
    ("method", "failure"),
    [
        ("create_multipart_upload", "before"),
        ("upload_part_copy", "before"),
        ("upload_part_copy", "after"),
        ("complete_multipart_upload", "before"),
        ("complete_multipart_upload", "after"),
    ],
)
def test_a_request_that_fails_once_is_made_again(objects, method, failure):
    objects.failing[method] = failure, 1
    assert objects.made_of(*ALL) == objects.stored()


@pytest.mark.parametrize("method", ["upload_part_copy", "upload_part", "complete_multipart_upload"])
def test_an_object_that_fails_for_good_leaves_nothing(objects, method):
    objects.failing[method] = "before", 100
    with pytest.raises(StorageError):
        objects.made_of(*ALL)
    assert objects.left() == ([], set(SIZES))


def test_an_object_that_is_there_already_is_not_overwritten(objects):
    objects.client.put_object(Bucket=objects.bucket, Key="new", Body=b"of another")
    with pytest.raises(StorageError):
        objects.made_of(*ALL)
    assert objects.stored() == b"of another"


def test_files_of_other_buckets_are_not_copied_by_the_storage(objects):
    new = begun(objects.store, f"{objects.root}/new")
    with pytest.raises(CopyRefused, match="another bucket"), new as assembly:
        assembly.open("s3://elsewhere/a")
    assert objects.store.assemble("/tmp/a") is None


def test_what_does_not_copy_ranges_is_found_out_and_left_clean(rclone_server, fixed_env):
    objects = Objects(rclone_server, f"assembled-{next(NUMBERS)}", fixed_env)
    with pytest.raises(CopyRefused):
        objects.made_of(*ALL)
    listed = objects.client.list_objects_v2(Bucket=objects.bucket)["Contents"]
    assert {item["Key"] for item in listed} == set(SIZES)


def new_file(bucket: Bucket, before: set[str]) -> bytes:
    (key,) = (key for key in bucket.keys("t") - before if key.endswith(".parquet"))
    found = bucket.client.get_object(Bucket=bucket.name, Key=f"wh/t/{key}")["Body"].read()
    return bytes(found)


def test_data_files_are_merged_by_the_storage_to_what_a_local_merge_makes(
    bucket, merge_inputs, capsys
):
    merge_inputs.build(bucket.directory / "t", bucket.location("t"))
    bucket.upload("t")
    before = bucket.keys("t")
    _, told = merge(bucket.location("t"), bucket.arguments, capsys)
    assert "pass through the workers" not in told
    assert new_file(bucket, before) == merge_inputs.merged
    assert bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", []) == []


REFUSED = told(501, "NotImplemented")


def test_what_a_storage_will_not_copy_passes_through_the_worker(
    place, merge_inputs, tmp_path, capsys
):
    server = S3Server(place.options["endpoint_url"], place.options, place.client)
    bucket = Bucket(server, place.bucket, tmp_path)
    merge_inputs.build(tmp_path / "t", bucket.location("t"))
    bucket.upload("t")
    before = bucket.keys("t")
    place.proxy.failures = [("PUT", "partNumber=1", REFUSED)]
    _, told = merge(bucket.location("t"), bucket.arguments, capsys)
    assert place.proxy.failures == []
    assert "the storage copies no ranges" in told
    assert new_file(bucket, before) == merge_inputs.merged
    assert place.client.list_multipart_uploads(Bucket=place.bucket).get("Uploads", []) == []
