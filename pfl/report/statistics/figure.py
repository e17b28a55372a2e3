"""The figure of mean ranks with the critical difference."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pfl.artifacts.figure import COLORS, draw
from pfl.report.statistics.ranks import Ranks


def draw_ranks(path: Path, ranks: Ranks) -> None:
    """Draw a row a method, the best above: its mean rank, with a bar of half a CD on both sides.

    Two methods differ where their bars do not overlap. Filled points and the shaded band are those
    that cannot be told apart from the best one. A figure in rows stays legible with many methods,
    where Demšar's, with all names along one axis, does not.
    """
    rows = sorted(ranks.means.items(), key=lambda pair: (pair[1], pair[0]))
    best, half = rows[0][1], ranks.critical / 2

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        axes.axvspan(best - half, best + half, color="0.9", lw=0, zorder=0)
        for place, (_, mean) in enumerate(rows):
            level = mean - best <= ranks.critical
            axes.errorbar(
                mean, place, xerr=half, fmt="o" if level else "s", ms=6, capsize=3, elinewidth=1.6,
                color=COLORS[0] if level else COLORS[5], mfc=COLORS[0] if level else "white",
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("mean rank over clients, 1 is best")
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        figure.suptitle(
            f"Ranks in the local test, {ranks.blocks:,} clients\n"
            f"bars: ± half the critical difference {ranks.critical:.2f}",
            x=0.01, ha="left", fontsize=10,
        )  # fmt: skip

    draw(path, (4.6, 1.3 + 0.26 * len(rows)), content)
