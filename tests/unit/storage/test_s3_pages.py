"""Pages of S3 listings: the objects that botocore finds in them, found faster."""

from datetime import UTC, datetime

import botocore.session
import pytest
from botocore.parsers import create_parser

from icectl.storage.s3.store import parse_page

START = b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult'
NAMESPACE = b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
TOP = b"<Name>b</Name><Prefix>t/</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
TOKEN = b"<NextContinuationToken>1ueGcx&amp;PYP/BrtRp</NextContinuationToken>"
OBJECTS = (
    b"<Contents><Key>t/a%20&amp;%C3%A9</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
    b"<ETag>&quot;d41d8c&quot;</ETag><Size>434234</Size><StorageClass>STANDARD</StorageClass>"
    b"</Contents>\n<Contents><Size>0</Size><Key>t/b</Key><Owner><ID>1</ID></Owner>"
    b"<LastModified>2026-01-02T03:04:05+00:00</LastModified><ETag/></Contents>"
)
PREFIXES = b"<CommonPrefixes><Prefix>t/d/</Prefix></CommonPrefixes>"
END = b"</ListBucketResult>"


def response(body: bytes, status: int = 200) -> dict[str, object]:
    return {"status_code": status, "body": body, "headers": {}}


def parsed(answer: dict[str, object]) -> dict[str, object]:
    """What botocore makes of an answer."""
    model = botocore.session.Session().get_service_model("s3")
    shape = model.operation_model("ListObjectsV2").output_shape
    return create_parser("rest-xml").parse(answer, shape)


@pytest.mark.parametrize("namespace", [NAMESPACE, b""])
@pytest.mark.parametrize("rest", [TOKEN, PREFIXES + TOKEN])
def test_objects_are_those_that_botocore_finds(namespace, rest):
    body = START + namespace + b">" + TOP + OBJECTS + rest + END
    ours, found = response(body), {}
    parse_page(response_dict=ours, customized_response_dict=found, operation_model=None)
    expected = parsed(response(body))
    members = ("Key", "Size", "LastModified", "ETag")
    assert [[each[name] for name in members] for each in found["Contents"]] == [
        [each[name] for name in members] for each in expected.pop("Contents")
    ]
    assert found["Contents"][0]["LastModified"] == datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    assert found["Contents"][0]["Key"] == "t/a%20&%C3%A9"
    assert parsed(ours) == expected


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (START + b">" + TOP + PREFIXES + END, 200),
        (START + b">" + OBJECTS, 200),
        (b"", 200),
        (START + b">" + OBJECTS.replace(b"2026-01-02T03", b"Fri, 2 Jan 2026 03") + END, 200),
        (START + b">" + OBJECTS.replace(b"+00:00", b"") + END, 200),
        (START + b">" + OBJECTS.replace(b"434234", b"") + END, 200),
        (START + b">" + OBJECTS.replace(b"<Size>0</Size>", b"") + END, 200),
        (START + b">" + OBJECTS + END, 503),
    ],
)
def test_what_looks_strange_is_left_to_botocore(answer, status):
    ours, found = response(answer, status), {}
    parse_page(response_dict=ours, customized_response_dict=found)
    assert (ours, found) == (response(answer, status), {})
