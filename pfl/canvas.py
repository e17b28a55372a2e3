"""Drawing PNG files whose bytes depend on the numbers alone.

matplotlib's own defaults (not the user's settings), the Agg canvas, no global state, and colors
that color-blind readers can tell apart [Okabe & Ito 2008].
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib.style
import numpy as np
from jaxtyping import Int
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pfl.artifacts import replacing

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.titlesize": 12,
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 130,
    "text.parse_math": False,
}


def draw(path: Path, size: tuple[float, float], content: Callable[[Figure], None]) -> None:
    """Fill a figure of ``size`` inches with ``content`` and store it as PNG, whole or not at all.

    The file carries no date and no version.
    """
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes, and read in the tables.
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        content(figure)
        with replacing(path) as part:
            figure.savefig(part, format="png", metadata={"Software": None})


def ticks(count: int, most: int) -> Int[np.ndarray, " ticks"]:
    """Numbers 0, s, 2s … below ``count``, at most about ``most`` of them, s a round number."""
    step = next(s for e in range(9) for s in (10**e, 2 * 10**e, 5 * 10**e) if count <= s * most)
    return np.arange(0, count, step)
