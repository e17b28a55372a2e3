"""Drawing figures whose bytes depend on the numbers alone: each as PNG and as SVG.

matplotlib's own defaults (not the user's settings), no global state, and colors that color-blind
readers can tell apart [Okabe & Ito 2008]. The PNG is on white, to be put anywhere. The SVG is for a
page: transparent, its ink the page's text color and its text in the page's font, so that it is
readable on light and on dark ground; alone it is black.
"""

import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib.style
import numpy as np
from jaxtyping import Int
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pfl.artifacts.files import replacing_all

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
DASHES = ("-", "--", ":")  # with the colors, enough for eighteen curves
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.titlesize": 12,
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 130,
    "svg.fonttype": "none",
    "svg.hashsalt": "pfl",
    "text.parse_math": False,
}


NOTHING = {"Date": None, "Creator": None, "Format": None, "Type": None}  # of SVG's metadata
# Black is the page's ink; the greys of grids are the page's lines.
INK = {
    "#000000": "currentColor",
    "#e6e6e6": "var(--grid, #e6e6e6)",
    "#ededed": "var(--grid, #ededed)",
}


def draw(path: Path, size: tuple[float, float], content: Callable[[Figure], None]) -> None:
    """Fill a figure of ``size`` inches with ``content`` and store it, whole or not at all.

    ``path`` is the PNG file; the SVG file is beside it. They carry no date and no version.
    """
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes, and read in the tables.
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        content(figure)
        with replacing_all(path, path.with_suffix(".svg")) as (png, svg):
            figure.savefig(png, format="png", metadata={"Software": None})
            svg.write_text(_svg(figure), encoding="utf-8")


def _svg(figure: Figure) -> str:
    """The figure in the page's colors; what matplotlib leaves black by saying nothing, too."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=NOTHING, transparent=True)
    text = stream.getvalue()
    text = text[text.index("<svg") :].replace("<svg", '<svg fill="currentColor"', 1)
    return re.sub("|".join(INK), lambda found: INK[found[0]], text)


def curve_style(number: int) -> tuple[str, str]:
    """Dash and color of the curve with this number, from 0 on."""
    return DASHES[number // len(COLORS) % len(DASHES)], COLORS[number % len(COLORS)]


def ticks(count: int, most: int) -> Int[np.ndarray, " ticks"]:
    """Numbers 0, s, 2s … below ``count``, at most about ``most`` of them, s a round number."""
    step = next(s for e in range(9) for s in (10**e, 2 * 10**e, 5 * 10**e) if count <= s * most)
    return np.arange(0, count, step)
