"""Partition transforms of one value, and the bucket hash."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform by name, with its parameter where it has one; others are carried as `unknown`.

    `name` is one of identity, bucket, truncate, year, month, day, hour, void, unknown;
    `text` is what the table stores, printed again unchanged (R-007).
    """

    name: str
    text: str
    width: int | None = None
