"""Signatures and credentials for AWS, held against botocore's."""

import datetime as dt
from pathlib import Path
from unittest.mock import patch

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from icectl.catalog.aws import identity_of, signed_headers
from icectl.catalog.http import Request
from icectl.errors import StorageError, UsageError
from icectl.storage.credentials import AwsKeys

AT_MS = 1_700_000_000_123
PARTS = st.text(st.sampled_from("abcXYZ019-._~%2F%C3%A4%1F"), min_size=1, max_size=12).filter(
    lambda part: part.strip(".") != ""
)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


def of_botocore(request: Request, keys: AwsKeys, service: str, region: str) -> str:
    """The header as botocore computes it for the same moment."""
    now = dt.datetime.fromtimestamp(AT_MS // 1000, dt.UTC)
    theirs = AWSRequest(request.method, request.url, dict(request.headers), request.body)
    credentials = Credentials(keys.key, keys.secret, keys.token)
    with patch.object(botocore.auth, "get_current_datetime", lambda: now):
        botocore.auth.SigV4Auth(credentials, service, region).add_auth(theirs)
    return str(theirs.headers["Authorization"])


@given(
    st.sampled_from(["https://h.example", "http://H.example:8181", "https://h.example:443"]),
    st.lists(PARTS, max_size=4),
    st.dictionaries(st.text("abc-", min_size=1), st.text("xyz%209-_.~"), max_size=3),
    st.dictionaries(st.sampled_from(["X-A", "x-b", "Content-Type", "User-Agent"]), VALUES),
    st.binary(max_size=20),
    st.one_of(st.none(), VALUES),
)
def test_signatures_are_those_of_botocore(host, path, query, headers, body, token):
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    url = f"{host}/{'/'.join(path)}" + (f"?{asked}" if asked else "")
    request = Request("POST", url, headers, body)
    keys = AwsKeys("AKIA", "se/cret+", token)
    found = signed_headers(request, keys, "glue", "eu-west-1", AT_MS)
    assert found["Authorization"] == of_botocore(request, keys, "glue", "eu-west-1")
    assert found.get("X-Amz-Security-Token") == token
    assert headers.items() <= found.items()


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that says nothing of AWS; the file that its configuration would be."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path / "config"


KEYS = {"glue.access-key-id": "A", "glue.secret-access-key": "B"}


def test_given_keys_win_over_the_environment_and_that_over_profiles(nothing, monkeypatch):
    nothing.write_text(
        "[default]\nregion = eu-north-1\naws_access_key_id = C\naws_secret_access_key = D\n"
        "[profile other]\naws_access_key_id = E\naws_secret_access_key = F\n"
    )
    found = identity_of("it", {}, ("glue",), None)
    assert (found.keys(), found.region) == (AwsKeys("C", "D"), "eu-north-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "G")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "H")
    monkeypatch.setenv("AWS_REGION", "eu-west-9")
    found = identity_of("it", {}, ("glue",), None)
    assert (found.keys(), found.region) == (AwsKeys("G", "H"), "eu-west-9")
    assert identity_of("it", {}, ("glue",), "other").keys() == AwsKeys("E", "F")
    found = identity_of("it", KEYS, ("client", "glue"), None)
    assert (found.keys(), found.origin) == (AwsKeys("A", "B"), "`glue.access-key-id` of it")


@pytest.mark.usefixtures("nothing")
def test_half_of_a_pair_of_keys_and_none_at_all_are_refused():
    with pytest.raises(UsageError, match=r"it has one of `glue\.access-key-id` and"):
        identity_of("it", {"glue.access-key-id": "A"}, ("glue",), None)
    with pytest.raises(StorageError, match="there are no AWS credentials for it"):
        identity_of("it", {}, ("glue",), None)
    with pytest.raises(UsageError, match=r"it: The config profile \(nobody\) could not be found"):
        identity_of("it", {}, ("glue",), "nobody")
