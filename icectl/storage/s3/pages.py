"""Pages of S3 listings parsed faster than botocore does, which spends most of a listing on it."""

import xml.etree.ElementTree as ET
from datetime import datetime
from typing import Any

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
