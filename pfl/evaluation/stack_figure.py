"""What each client's personalized head is made of."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from pfl.artifacts.figure import COLORS, draw, ticks


def draw_stack(
    path: Path, stack: Float[np.ndarray, "clients families"], families: Sequence[str]
) -> None:
    """Draw one bar a client: the share of each family in the weights of its personalized head.

    A client that left has NaN, and no bar.
    """
    clients = len(stack)
    share = stack / stack.sum(axis=1, keepdims=True)

    def content(figure: Figure) -> None:
        axes = figure.subplots()
        bottom = np.zeros(clients)
        for i, family in enumerate(families):
            part = np.nan_to_num(share[:, i])
            if part.any():
                axes.bar(
                    np.arange(clients), part, 0.92 if clients <= 200 else 1.0, bottom,
                    color=COLORS[i], label=family,
                )  # fmt: skip
                bottom += part
        axes.set(ylim=(0, 1), xlim=(-0.6, clients - 0.4), xlabel="client")
        axes.set_xticks(ticks(clients, 20))
        axes.set_ylabel("share of the weight")
        axes.set_title("What each client's personalized head is the sum of")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="family")

    draw(path, (float(np.clip(4.5 + 0.22 * min(clients, 40), 7, 12)), 4.0), content)
