"""The particulars of S3: s3fs's options, and listing one prefix with many requests at once."""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import pyarrow as pa

from icectl.errors import UsageError
from icectl.storage import location as locations
from icectl.storage.listing import ListingRows, ListingStep, run_steps
from icectl.storage.store import ListingPart, ListingSplit

_EVENT = "before-parse.s3.ListObjectsV2"


def parse_pages(filesystem: Any) -> None:
    """Have the client of an s3fs file system, which connects it, parse the objects of pages here.

    Answers have Key, Size, LastModified and other texts of each object as before, but no lists.
    """
    events = filesystem.s3.meta.events
    events.register_first(_EVENT, parse_page, unique_id=_EVENT)  # botocore's own parse it all too


def parse_page(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Take the objects out of a page; botocore parses the rest, or all of what looks strange."""
    if response_dict["status_code"] != 200:
        return
    try:
        page = ET.fromstring(response_dict["body"])  # noqa: S314 - botocore's parser too
        found = [_object(child) for child in page if _name(child) == "Contents"]
    except (ET.ParseError, KeyError, ValueError, TypeError):
        return
    if found:
        page[:] = [child for child in page if _name(child) != "Contents"]
        response_dict["body"] = ET.tostring(page)
        customized_response_dict["Contents"] = found


def _object(element: ET.Element) -> dict[str, Any]:
    members: dict[str, Any] = {_name(child): child.text or "" for child in element}
    modified = datetime.fromisoformat(members["LastModified"])
    if modified.tzinfo is None:
        raise ValueError(members["LastModified"])
    return {**members, "Size": int(members["Size"]), "LastModified": modified}


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


_TEXT_OPTIONS = {"key", "secret", "token", "username", "password", "profile"}
_CREDENTIALS = {"key", "secret", "token"}
_BOOLEANS = {"true": True, "false": False}
_UNORDERED_BUCKETS = "--x-s3"
_SPLIT_PAGES = 10
_SPLIT_LEVELS = 3

Call = Callable[[Callable[[], Any]], Any]


def s3_options(options: Mapping[str, str], concurrency: int) -> dict[str, Any]:
    """Options of s3fs from texts: `client_kwargs.region_name=…` nests, numbers and booleans count.

    Raises: UsageError, when an option is both a value and a group.
    """
    defaults: dict[str, Any] = {
        "use_listings_cache": False,
        "max_concurrency": 1,  # more would look up a file's size before reading it
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": max(10, 2 * concurrency),
        },
    }
    for name, text in options.items():
        *groups, last = name.split(".")
        place = defaults
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise UsageError(f"storage option {name}: {group} has a value already")
        place[last] = text if last in _TEXT_OPTIONS else _typed(text)
    return defaults


def with_refreshing_credentials(
    arguments: dict[str, Any], renewed: Callable[[], Mapping[str, str]]
) -> dict[str, Any]:
    """Return the same arguments of s3fs, with credentials that are asked for with each request.

    What was begun with those that end goes on with those that follow, an upload in parts too.
    """
    from aiobotocore.credentials import AioCredentials
    from aiobotocore.session import AioSession
    from botocore.credentials import ReadOnlyCredentials

    class Renewed(AioCredentials):  # type: ignore[misc]
        async def get_frozen_credentials(self) -> ReadOnlyCredentials:
            now = renewed()
            return ReadOnlyCredentials(now["key"], now["secret"], now.get("token"))

    session = AioSession()
    session._credentials = Renewed("", "")  # noqa: SLF001 - no public way sets them
    kept = {name: value for name, value in arguments.items() if name not in _CREDENTIALS}
    return {**kept, "session": session}


def _typed(text: str) -> str | int | bool:
    return int(text) if text.isascii() and text.isdigit() else _BOOLEANS.get(text.lower(), text)


@dataclass(frozen=True, slots=True)
class _Page:
    """A request for up to 1000 keys behind `after`, of which those from `until` on do not count."""

    after: str = ""
    until: str | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class _Listing:
    filesystem: Any
    bucket: str
    prefix: str
    location: str
    call: Call
    ranges: int

    @property
    def is_unordered(self) -> bool:
        """Whether keys come in no order, so that there are no ranges of them."""
        return self.bucket.endswith(_UNORDERED_BUCKETS)

    def step(self, page: _Page) -> ListingStep[_Page]:
        """Fetch one page; the first of many is followed by one page of every range."""
        answer = self._request(page)
        rows = ListingRows()
        start = len(self.prefix)
        for entry in answer.get("Contents", ()):
            key = entry["Key"]
            if page.until is not None and key >= page.until:
                return ListingStep(rows)
            if key.endswith("/") or key <= page.after:  # a directory's marker; another range's
                continue
            modified_ms = round(entry["LastModified"].timestamp() * 1000)
            rows.add(f"{self.location}/{key[start:]}", entry["Size"], modified_ms)
        if not answer.get("IsTruncated"):
            return ListingStep(rows)
        following = replace(page, token=answer["NextContinuationToken"])
        if page != _Page() or self.is_unordered:
            return ListingStep(rows, (following,))
        return ListingStep(rows, self._split(after=answer["Contents"][-1]["Key"]))

    def _split(self, after: str) -> tuple[_Page, ...]:
        """Ranges that together hold every key behind `after`."""
        found = sorted(prefix for prefix in self._prefixes() if prefix > after)
        stride = max(1, -(-len(found) // self.ranges))
        bounds = found[::stride]
        starts = [after, *bounds]
        return tuple(_Page(start, end) for start, end in zip(starts, [*bounds, None], strict=True))

    def _prefixes(self) -> list[str]:
        """Common prefixes below the listed one, of a level that has about enough of them."""
        level = [self.prefix]
        for _ in range(_SPLIT_LEVELS):
            deeper = [found for prefix in level for found in self._children(prefix)]
            if not deeper:
                break
            level = deeper
            if len(level) >= self.ranges:
                break
        return [] if level == [self.prefix] else level

    def _children(self, prefix: str) -> list[str]:
        found: list[str] = []
        token = None
        for _ in range(_SPLIT_PAGES):
            answer = self._request(_Page(token=token), Prefix=prefix, Delimiter="/")
            found += [entry["Prefix"] for entry in answer.get("CommonPrefixes", ())]
            token = answer.get("NextContinuationToken")
            if token is None:
                break
        return found

    def _request(self, page: _Page, **more: str) -> Any:
        arguments = {"Bucket": self.bucket, "Prefix": self.prefix, **self.filesystem.req_kw, **more}
        if page.token is not None:
            arguments["ContinuationToken"] = page.token
        elif page.after:
            arguments["StartAfter"] = page.after
        return self.call(partial(self.filesystem.call_s3, "list_objects_v2", **arguments))


def list_objects(
    filesystem: Any, location: str, call: Call, concurrency: int
) -> Iterator[pa.RecordBatch]:
    """Yield all objects below a location, key ranges in parallel, split at common prefixes.

    Order: none.
    """
    listing = _listing(filesystem, location, call, ranges=4 * concurrency)
    return run_steps([_Page()], listing.step, concurrency)


def split_objects(filesystem: Any, location: str, call: Call, count: int) -> ListingSplit:
    """Return the first page below a location, and ranges of the keys behind it."""
    listing = _listing(filesystem, location, call, ranges=count)
    if listing.is_unordered:
        return ListingSplit([], [ListingPart(location)])
    first = listing.step(_Page())
    parts = [ListingPart(location, page.after, page.until) for page in first.next]
    return ListingSplit(first.rows.take_all(), parts)


def list_ranges(
    filesystem: Any, parts: Sequence[ListingPart], call: Call, concurrency: int
) -> Iterator[pa.RecordBatch]:
    """Yield all objects in ranges of the keys below one location. Order: none."""
    listing = _listing(filesystem, parts[0].location, call, ranges=4 * concurrency)
    pages = [_Page(part.after, part.until) for part in parts]
    return run_steps(pages, listing.step, concurrency)


def _listing(filesystem: Any, location: str, call: Call, ranges: int) -> _Listing:
    base = location.rstrip("/")
    bucket, prefix = _split(base)
    return _Listing(
        filesystem,
        bucket=bucket,
        prefix=prefix,
        location=base,
        call=call,
        ranges=ranges,
    )


def server_time_ms(filesystem: Any, location: str, call: Call) -> int | None:
    """Return the time that a server stamps its answers with; None where it leaves that out.

    Units: milliseconds, in whole seconds.
    """
    bucket, prefix = _split(location.rstrip("/"))
    arguments = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 1, **filesystem.req_kw}
    answer = call(partial(filesystem.call_s3, "list_objects_v2", **arguments))
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return None if date is None else round(parsedate_to_datetime(date).timestamp()) * 1000


def _split(base: str) -> tuple[str, str]:
    """Bucket, and prefix of all keys below a location."""
    root = locations.root(base)
    key = base[len(root) :].strip("/")
    return root.partition("//")[2], f"{key}/" if key else ""
