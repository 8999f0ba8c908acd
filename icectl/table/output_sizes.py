"""Sizes and numbers of new files: bins of a rewrite."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from icectl.errors import UsageError
from icectl.units import print_size


def pack(weights: Sequence[int], capacity: int, lookback: int) -> list[list[int]]:
    """Put each item into the first open bin with room for it, or into a new one.

    The oldest bin is closed if more than `lookback` are open. An item heavier than `capacity` gets
    its own bin.
    Shape: positions in `weights`, each in one bin.
    Order: bins as they were opened; positions ascend within a bin.
    Cost: `len(weights)` times the open bins.
    """
    bins: list[list[int]] = []
    open_bins: list[list[int]] = []
    rooms: list[int] = []
    for position, weight in enumerate(weights):
        for at, room in enumerate(rooms):
            if weight <= room:
                open_bins[at].append(position)
                rooms[at] = room - weight
                break
        else:
            bin_ = [position]
            bins.append(bin_)
            open_bins.append(bin_)
            rooms.append(capacity - weight)
            if len(rooms) > lookback:
                del open_bins[0], rooms[0]
    return bins


SMALL, LARGE = 0.75, 1.8
"""Parts of the target size below and above which a file is too small or too large."""

_OVERHEAD = 5 * 1024
"""Bytes that the reference implementation adds to a bin, lest rounding make another one."""

_LOOKBACK = 10
"""Bins that stay open, as in the scans of the reference implementation."""

_SPREAD = 1.1
"""A remainder is spread over the other files if they grow by no more than this."""

_ROLL_ROOM = 1.05
"""Room of the files of a large bin beyond equal parts, lest a tiny file remain."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The target size of data files, and the sizes below and above which one is rewritten."""

    target: int
    smallest: int
    largest: int

    @property
    def roll(self) -> int:
        """The size at which a new file begins: half way from the target to the largest.

        Bins are estimates; new files may be larger.
        """
        return self.target + (self.largest - self.target) // 2

    def expected_files(self, size_bytes: int) -> int:
        """Return the number of files of some bytes; a small remainder is spread over the others."""
        if size_bytes < self.target:
            return 1
        count, remainder = divmod(size_bytes, self.target)
        spread = size_bytes // count < min(_SPREAD * self.target, self.roll)
        return count if not remainder or (remainder <= self.smallest and spread) else count + 1

    def bin_bytes(self, size_bytes: int) -> int:
        share = size_bytes // self.expected_files(size_bytes) + _OVERHEAD
        return self.target if share < self.target else min(share, self.roll)

    def bins(self, sizes: Sequence[int]) -> list[list[int]]:
        """Put files into bins of one new file each; as few small ones as possible remain.

        Shape: positions in `sizes`, each in one bin.
        """
        bins = pack(sizes, self.bin_bytes(sum(sizes)), _LOOKBACK)
        filled = [sum(sizes[at] for at in bin_) for bin_ in bins]
        order = sorted(range(len(bins)), key=lambda at: (filled[at], at))
        while len(order) > 1 and filled[order[0]] < self.smallest:
            first, second = order[:2]
            if filled[first] + filled[second] > self.roll:
                break
            bins[second] = sorted(bins[first] + bins[second])
            filled[second] += filled[first]
            bins[first] = []
            order = sorted(order[1:], key=lambda at: (filled[at], at))
        return [bin_ for bin_ in bins if bin_]

    def parts(self, size_bytes: int) -> int:
        return max(1, ceil(size_bytes / self.roll))

    def roll_of(self, size_bytes: int) -> int:
        """Return the size that files of one bin may grow to: equal parts of a large one."""
        parts = self.parts(size_bytes)
        return self.roll if parts == 1 else min(self.roll, ceil(size_bytes / parts * _ROLL_ROOM))


def sizes_of(target: int, smallest: int | None, largest: int | None) -> Sizes:
    """Return the given sizes, with the reference implementation's defaults.

    Raises: UsageError, if new files would be too small or too large themselves.
    """
    sizes = Sizes(
        target,
        int(target * SMALL) if smallest is None else smallest,
        max(int(target * LARGE), target + 1) if largest is None else largest,
    )
    if sizes.smallest >= target:
        message = (
            f"`--min-file-size` ({print_size(sizes.smallest)}) is not below the target of "
            f"{print_size(target)}: every new file would be too small"
        )
        raise UsageError(message, hint="lower it, or raise `--target-file-size`")
    if sizes.largest <= target:
        message = (
            f"`--max-file-size` ({print_size(sizes.largest)}) is not above the target of "
            f"{print_size(target)}: every new file would be too large"
        )
        raise UsageError(message, hint="raise it, or lower `--target-file-size`")
    return sizes
