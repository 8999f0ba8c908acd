"""The best that merging sorted runs can do: all schedules of a table's life, compared."""

from itertools import accumulate


def best_schedule(base: int, batches: int, price: float) -> tuple[float, float]:
    """Return rows rewritten and mean depth of the schedule with the least of both.

    A table has one sorted run of `base` rows, and one row comes with each batch, over all values.
    After it the newest runs, at least the batch, are merged into one. So each value is in as many
    files as there are runs. What is rewritten counts in parts of what full sorts take, and a mean
    depth of 1 as `price` of that. Merges by ranges of values are a mean of such schedules.
    """
    full = sum(base + number for number in range(1, batches + 1))
    best: dict[tuple[int, ...], tuple[float, float, float]] = {(base,): (0.0, 0.0, 0.0)}
    for _ in range(batches):
        found: dict[tuple[int, ...], tuple[float, float, float]] = {}
        for runs, (_, rewritten, depth) in best.items():
            newest_first = (1, *reversed(runs))
            for count, merged in enumerate(accumulate(newest_first), 1):
                after = (*reversed(newest_first[count:]), merged)
                now = rewritten + merged / full, depth + len(after) / batches
                cost = now[0] + price * now[1]
                if after not in found or cost < found[after][0]:
                    found[after] = (cost, *now)
        best = {runs: one for runs, one in found.items() if len(runs) <= _MOST_RUNS}
    _, rewritten, depth = min(best.values())
    return rewritten, depth


_MOST_RUNS = 6
