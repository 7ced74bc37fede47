"""A curve in a terminal: bars over time, and marks below for what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ROWS = 4
EIGHTHS = " ▁▂▃▄▅▆▇█"
PLAIN = "   ...###"


def curve(
    samples: Sequence[tuple[float, float]],
    marks: Mapping[str, Sequence[float]],
    *,
    top: float,
    width: int,
    fancy: bool = True,
) -> list[str]:
    """Draw values between 0 and `top` over time, one column for each stretch of it, and a line of marks.

    A stretch without a sample goes on with the value before it. Of marks in one column the last kind that is given is seen.
    """
    if not samples:
        return []
    first, last = samples[0][0], samples[-1][0]
    stretch = max(last - first, 0.001) / width

    def column(at: float) -> int:
        return min(width - 1, max(0, int((at - first) / stretch)))

    heights = _heights([(column(at), value) for at, value in samples], top=top, width=width)
    drawn = [_row(heights, row, fancy=fancy) for row in reversed(range(ROWS))]
    label = len(f"{top:g}")
    axis = "│" if fancy else "|"
    lines = [f"{f'{top:g}' if row == 0 else '':>{label}} {axis}{each}".rstrip() for row, each in enumerate(drawn)]
    below = [" "] * width
    for mark, moments in marks.items():
        for at in moments:
            below[column(at)] = mark
    lines.append(f"{'0':>{label}} {'└' if fancy else '+'}{('─' if fancy else '-') * width}")
    lines.append(f"{'':>{label}}  {''.join(below)}".rstrip())
    return lines


def _heights(samples: Sequence[tuple[int, float]], *, top: float, width: int) -> list[int]:
    """Return for each column how many eighths of a row are filled, all rows together."""
    known = dict(samples)  # the last of each column
    heights, value = [], samples[0][1]
    for column in range(width):
        value = known.get(column, value)
        heights.append(round(min(1.0, max(0.0, value / top)) * ROWS * 8))
    return heights


def _row(heights: Sequence[int], row: int, *, fancy: bool) -> str:
    shades = EIGHTHS if fancy else PLAIN
    return "".join(shades[min(8, max(0, height - row * 8))] for height in heights)
