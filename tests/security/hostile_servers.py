"""Hostile servers: REST catalogs and S3 stores that want what is not theirs, or answer nonsense."""

from collections.abc import Callable
from typing import Any

from tests.catalogs.rest_fake import Fake
from tests.catalogs.rest_servers import Reply, Seen, refusal
from tests.security.hostile import ODD, VARIABLE, Scene
from tests.security.test_rest_server import DEEP, bomb

Catalog = Callable[[Scene, Fake], None]
CATALOGS: dict[str, Catalog] = {}
Store = Callable[[Scene, Seen], Reply]
STORES: dict[str, Store] = {}


def catalog(make: Catalog) -> Catalog:
    """Have a way to make a catalog hostile."""
    CATALOGS[make.__name__] = make
    return make


def store(answer: Store) -> Store:
    """Have a store that answers so."""
    STORES[answer.__name__] = answer
    return answer


# -- catalogs -----------------------------------------------------------------------------------


@catalog
def overrides_of_the_address(scene: Scene, fake: Fake) -> None:
    fake.config["overrides"] = {"uri": f"http://{scene.address}/?Action=CreateUser#"}


@catalog
def overrides_of_the_login(scene: Scene, fake: Fake) -> None:
    said = {
        "oauth2-server-uri": f"http://{scene.address}/steal", "credential": f"env:{VARIABLE}",
        "token": f"env:{VARIABLE}", "header.x-leak": f"env:{VARIABLE}",
        "rest.sigv4-enabled": "true", "rest.signing-name": "iam", "auth.type": "sigv4",
        "client.profile-name": "admin", "ssl.cabundle": str(scene.home / "id.key"),
        "py-catalog-impl": "evil.Catalog", "s3.endpoint": f"http://{scene.address}",
        "s3.signer.uri": f"http://{scene.address}", "rest-metrics-reporting-enabled": "true",
    }  # fmt: skip
    fake.config = {"defaults": said, "overrides": said}


@catalog
def credentials_of_the_table(scene: Scene, fake: Fake) -> None:
    said = {
        "s3.endpoint": f"http://{scene.address}",
        "s3.secret-access-key": f"env:{VARIABLE}",
        "gcs.service.host": f"http://{scene.address}",
        "gcs.oauth2.token": str(scene.home / "id.key"),
        "adls.connection-string": f"BlobEndpoint=http://{scene.address}",
        "token": f"env:{VARIABLE}",
        "uri": f"http://{scene.address}",
        "hdfs.host": scene.address,
    }
    credentials = [{"prefix": "", "config": said}, {"prefix": str(scene.folder), "config": said}]
    fake.extra = {"config": said, "storage-credentials": credentials}


@catalog
def redirects(scene: Scene, fake: Fake) -> None:
    fake.before = lambda seen: Reply(
        307 if seen.method == "POST" else 302, b"", {"Location": f"http://{scene.address}/x"}
    )


@catalog
def redirects_of_commits(scene: Scene, fake: Fake) -> None:
    away = Reply(308, b"", {"Location": f"http://{scene.address}/x"})
    fake.before = lambda seen: away if seen.method == "POST" else None


@catalog
def metadata_on_a_server(scene: Scene, fake: Fake) -> None:
    fake.extra = {"metadata-location": f"http://{scene.address}/v1.metadata.json"}


@catalog
def metadata_of_a_secret(scene: Scene, fake: Fake) -> None:
    fake.extra = {"metadata-location": str(scene.home / "id.key")}


@catalog
def metadata_in_another_account(_: Scene, fake: Fake) -> None:
    fake.extra = {"metadata-location": "abfss://c@attacker.example/t/metadata/v1.metadata.json"}


@catalog
def answers_of_many_levels(_: Scene, fake: Fake) -> None:
    fake.before = lambda seen: None if seen.path.endswith("/config") else Reply(404, DEEP)


@catalog
def answers_that_inflate(_: Scene, fake: Fake) -> None:
    inflating = bomb(80 << 20)
    fake.before = lambda seen: None if seen.path.endswith("/config") else inflating


@catalog
def answers_of_other_lengths(_: Scene, fake: Fake) -> None:
    longer = Reply(200, b"{}", {"Content-Length": "1" + "0" * 15, "Connection": "close"})
    fake.before = lambda seen: longer if "/tables" in seen.path else None


@catalog
def errors_that_repeat_the_request(_: Scene, fake: Fake) -> None:
    def repeat(seen: Seen) -> Reply | None:
        if seen.path.endswith("/config"):
            return None
        return refusal(400, f"{ODD} {seen.headers} {seen.body!r}", ODD)

    fake.before = repeat


@catalog
def commits_that_fail(_: Scene, fake: Fake) -> None:
    """By the protocol nobody knows whether they have landed."""
    fake.before = lambda seen: refusal(500, ODD) if seen.method == "POST" else None


@catalog
def answers_of_other_types(_: Scene, fake: Fake) -> None:
    odd: list[Any] = [[], 5, None, "x", {"metadata": []}, {"metadata-location": 5, "metadata": {}}]
    fake.before = lambda seen: (
        Reply(body=odd[len(seen.path) % len(odd)]) if "/tables" in seen.path else None
    )


# -- stores -------------------------------------------------------------------------------------

_METADATA = "wh/t/metadata/v1.metadata.json"


def _listed(*names: str, size: str = "9", more: str = "false") -> Reply:
    """A page of a listing."""
    contents = "".join(
        f"<Contents><Key>{name}</Key><Size>{size}</Size><ETag>x</ETag>"
        "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>"
        for name in names
    )
    text = (
        '<?xml version="1.0"?><ListBucketResult><Name>b</Name><KeyCount>1</KeyCount>'
        f"<MaxKeys>1000</MaxKeys><IsTruncated>{more}</IsTruncated>{contents}</ListBucketResult>"
    )
    return _xml(text)


def _xml(text: str, status: int = 200) -> Reply:
    return Reply(status, text.encode(), {"Content-Type": "application/xml"})


def _is_listing(seen: Seen) -> bool:
    return "list-type=" in seen.path


@store
def store_that_redirects(scene: Scene, _: Seen) -> Reply:
    """By its own endpoint: what an operator has named may send a client on, without its keys."""
    return Reply(403, b"", {"Location": f"http://{scene.address}/x"})


@store
def listing_that_is_no_listing(_: Scene, seen: Seen) -> Reply:
    if _is_listing(seen):
        return _xml("<html>" + "<a>" * 5000)
    return Reply(404, b"")


@store
def listing_of_entities(_: Scene, seen: Seen) -> Reply:
    if not _is_listing(seen):
        return Reply(404, b"")
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 20))
    return _xml(
        f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "x">{levels}]>'
        "<ListBucketResult><Contents><Key>&e19;</Key></Contents></ListBucketResult>"
    )


@store
def names_of_a_store(_: Scene, seen: Seen) -> Reply:
    """Keys with what XML can spell of control characters, and ways out of the table."""
    if _is_listing(seen):
        odd = "wh/t/metadata/v1&#10;::error::x&#27;&#x202e;.metadata.json"
        return _listed(odd, "wh/t/metadata/../../../x", "/etc/passwd", _METADATA)
    return Reply(404, b"")


@store
def sizes_that_are_wrong(_: Scene, seen: Seen) -> Reply:
    if _is_listing(seen):
        return _listed(_METADATA, size="9" * 18)
    if seen.method == "HEAD":
        return Reply(200, b"", {"Content-Length": "9" * 18, **_DATED})
    return Reply(200, b"{}", _DATED)


@store
def sizes_below_zero(_: Scene, seen: Seen) -> Reply:
    if _is_listing(seen):
        return _listed(_METADATA, size="-1")
    return Reply(200, b"{}", {"Content-Range": "bytes 5-1/-7", **_DATED})


@store
def metadata_of_a_store(scene: Scene, seen: Seen) -> Reply:
    """Metadata that name a file of this machine."""
    if _is_listing(seen):
        return _listed(_METADATA)
    members = (scene.table / "metadata" / "v1.metadata.json").read_bytes()
    place = str(scene.table).encode()
    return Reply(200, members.replace(b'"location":"' + place, b'"location":"s3://b/wh/t'), _DATED)


@store
def errors_of_a_store(_: Scene, seen: Seen) -> Reply:
    said = f"<Error><Code>X&#10;::error::y</Code><Message>{seen.headers}</Message></Error>"
    return _xml(said.replace("\x1b", ""), 400)


_DATED = {"ETag": '"x"', "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
