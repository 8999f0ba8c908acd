"""S3 through obstore behind a server that fails: storms, cuts, pages that come again."""

import pytest

from icectl.errors import StorageError
from icectl.storage.buckets import store as native
from icectl.storage.failures import AnswerLost
from icectl.storage.open import StorageOptions, open_store
from tests.stores.failing_proxy import told

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("answer", [told(503, "SlowDown"), told(429, "TooManyRequests")])
def test_a_storm_is_waited_out_with_fewer_requests(place, answer):
    for number in range(20):
        place.put(f"a{number}", b"content")
    place.proxy.failures = [("GET", "wh/a", answer)] * 5
    assert [place.store.read(place.at(f"a{n}")) for n in range(20)] == [b"content"] * 20
    assert len(place.proxy.requests) == 25
    assert place.env.slept == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_a_storm_without_end_is_told_after_six_attempts(place):
    place.put("a", b"content")
    place.proxy.failures = [("GET", "wh/a", told(503, "SlowDown"))] * 99
    with pytest.raises(StorageError, match=r"SlowDown! \(SlowDown\)"):
        place.store.read(place.at("a"))
    assert len(place.proxy.requests) == 6


def test_a_body_that_is_cut_is_read_again_from_its_beginning(place):
    content = bytes(range(256)) * 4000
    place.put("a", content)
    place.proxy.failures = [("GET", "wh/a", "cut")] * 2
    assert place.store.read(place.at("a")) == content
    assert len(place.proxy.requests) == 3


def test_small_objects_are_one_request_and_footers_are_read_with_the_size(place):
    place.put("a", b"0123456789")
    assert place.store.read(place.at("a")) == b"0123456789"
    with place.store.open(place.at("a")) as file:
        assert file.read() == b"0123456789"
    assert [method for method, _ in place.proxy.requests] == ["GET", "GET"]


def test_a_part_is_taken_of_all_where_a_server_sends_that(place):
    place.put("a", b"0123456789")
    place.proxy.failures = [("GET", "wh/a", (200, b"0123456789"))]
    assert place.store.read_range(place.at("a"), 2, 5) == b"23456"
    assert [method for method, _ in place.proxy.requests] == ["GET", "GET"]


def test_a_create_is_never_repeated_and_what_became_of_it_is_not_known(place):
    place.store.create(place.at("first"), b"1")
    place.proxy.requests.clear()
    place.proxy.failures = [("PUT", "wh/a", "lost")]
    with pytest.raises(AnswerLost):
        place.store.create(place.at("a"), b"mine")
    assert [method for method, _ in place.proxy.requests] == ["PUT"]
    assert place.stored("a") == b"mine"
    with pytest.raises(FileExistsError):
        place.store.create(place.at("a"), b"other")
    assert place.stored("a") == b"mine"


def test_a_create_that_was_refused_is_no_unknown_one(place):
    place.store.create(place.at("first"), b"1")
    place.proxy.failures = [("PUT", "wh/a", told(403, "AccessDenied"))]
    with pytest.raises(StorageError, match="access denied") as caught:
        place.store.create(place.at("a"), b"mine")
    assert not isinstance(caught.value, AnswerLost)


def test_a_page_that_comes_again_ends_the_listing(place):
    for number in range(3):
        place.put(f"t/{number}", b"1")
    row = "<Contents><Key>wh/t/{}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z"
    row += '</LastModified><ETag>"e"</ETag></Contents>'
    page = "".join(row.format(f"{number:04}") for number in range(1000))
    again = f"<ListBucketResult><IsTruncated>true</IsTruncated>{page}"
    again += "<NextContinuationToken>next</NextContinuationToken></ListBucketResult>"
    place.proxy.failures = [("GET", "list-type=2", (200, again.encode()))] * 99_999
    with pytest.raises(StorageError, match="lists the same names again"):
        list(place.store.list(place.at("t")))


def test_names_that_obstore_cannot_express_are_listed_and_read_all_the_same(moto_place):
    place = moto_place
    for key in ("t/a", "t//b", "t/dir/", "t/dir/c"):
        place.put(key, b"x" if key != "t/dir/" else b"")
    found = [row["location"] for batch in place.store.list(place.at("t")) for row in
             batch.to_pylist()]  # fmt: skip
    assert sorted(found) == [place.at("t//b"), place.at("t/a"), place.at("t/dir/c")]
    assert place.store.read(place.at("t//b")) == b"x"
    assert list(place.store.remove([place.at("t//b"), place.at("t/a")])) == []
    found = [row["location"] for batch in place.store.list(place.at("t")) for row in
             batch.to_pylist()]  # fmt: skip
    assert found == [place.at("t/dir/c")]


def test_a_directory_marker_is_no_file(place):
    for key in ("t/dir/", "t/dir/c", "t/empty"):
        place.put(key, b"")
    found = [row["location"] for batch in place.store.list(place.at("t")) for row in
             batch.to_pylist()]  # fmt: skip
    assert sorted(found) == [place.at("t/dir/c"), place.at("t/empty")]


class Vendor:
    """Gives keys numbered from 1."""

    number = 1

    def __call__(self):
        return {"s3:": {"key": f"key-{self.number}", "secret": "a-secret"}}

    def expire(self):
        self.number += 1
        return True


def test_credentials_that_end_during_a_run_are_asked_for_anew(moto_place):
    place = moto_place
    place.put("a", b"content")
    vendor = Vendor()
    options = {
        name: value for name, value in place.options.items() if name not in ("key", "secret")
    }
    store = open_store(StorageOptions(options, renewed=vendor), place.env)
    assert store.read(place.at("a")) == b"content"
    place.proxy.failures = [("GET", "wh/a", told(400, "ExpiredToken"))]
    assert store.read(place.at("a")) == b"content"
    assert vendor.number == 2
    place.proxy.failures = [("GET", "wh/a", told(400, "ExpiredToken"))] * 2
    with pytest.raises(StorageError, match=r"credentials are not accepted \(ExpiredToken\)"):
        store.read(place.at("a"))


def test_a_bucket_of_another_region_is_followed_there(place):
    place.put("a", b"content")
    options = {**place.options, "client_kwargs.region_name": "eu-west-1"}
    store = open_store(StorageOptions(options), place.env)
    place.proxy.failures = [("GET", "wh/a", told(400, "AuthorizationHeaderMalformed"))]
    assert store.read(place.at("a")) == b"content"
    assert [method for method, _ in place.proxy.requests] == ["GET", "HEAD", "GET"]


def test_a_bucket_without_list_right_is_read_and_its_listing_is_denied(place):
    place.put("a", b"content")
    place.proxy.failures = [("GET", "list-type=2", told(403, "AccessDenied"))]
    with pytest.raises(StorageError, match=r"cannot list .*: access denied") as caught:
        list(place.store.list(place.at("t")))
    assert "AWS_PROFILE" in caught.value.hint
    assert place.store.read(place.at("a")) == b"content"


@pytest.mark.parametrize("failure", [told(503, "SlowDown"), "lost"])
def test_a_part_that_fails_once_is_sent_again(place, monkeypatch, failure):
    monkeypatch.setattr(native, "_PART_BYTES", 5 << 20)
    content = b"0123456789abcdef" * (11 << 16)
    place.proxy.failures = [("PUT", "partNumber=1", failure)]
    with place.store.open_new(place.at("large")) as file:
        file.write(content)
    assert place.stored("large") == content


def test_an_upload_that_fails_for_good_leaves_nothing(place, monkeypatch):
    monkeypatch.setattr(native, "_PART_BYTES", 5 << 20)
    place.proxy.failures = [("PUT", "partNumber=1", told(403, "AccessDenied"))]
    with (
        pytest.raises(StorageError, match="access denied"),
        place.store.open_new(place.at("large")) as file,
    ):
        file.write(bytes(11 << 20))
    assert place.store.stat(place.at("large")) is None
    uploads = place.client.list_multipart_uploads(Bucket=place.bucket)
    assert uploads.get("Uploads", []) == []


def test_keys_that_cannot_be_removed_are_told_one_by_one(place):
    for key in ("a", "b"):
        place.put(key, b"1")
    place.proxy.failures = [("POST", "delete", told(503, "SlowDown"))]
    assert list(place.store.remove([place.at("a"), place.at("b")])) == []
    assert place.store.stat(place.at("a")) is None
