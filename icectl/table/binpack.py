"""Packing things into bins: first fit, with so many bins open as one looks back to."""

from collections.abc import Sequence


def pack(weights: Sequence[int], capacity: int, lookback: int) -> list[list[int]]:
    """Put each thing into the first open bin with room for it, or into a new one.

    Where more bins than `lookback` are open, the oldest is closed. A thing heavier than `capacity`
    has a bin of its own.
    Shape: positions in `weights`, each in one bin.
    Order: bins as they were opened; positions ascend within a bin.
    Cost: `len(weights)` times the bins open at a time.
    """
    bins: list[list[int]] = []
    rooms: list[int] = []
    for position, weight in enumerate(weights):
        first = max(0, len(bins) - lookback)
        at = next((at for at in range(first, len(bins)) if weight <= rooms[at]), None)
        if at is None:
            bins.append([position])
            rooms.append(capacity - weight)
        else:
            bins[at].append(position)
            rooms[at] -= weight
    return bins
