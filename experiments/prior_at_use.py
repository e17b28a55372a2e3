"""What a client's prior, even shares and shares by EM are worth where a model is used.

    python -m experiments.prior_at_use DATA [DATA ...] [--clients 20 --seeds 0 1 2]

Each DATA is a folder with index.h5 and features.h5. Each seed deals the samples to clients anew,
and each client's personalized head is tested on its own test samples, where its prior should hold,
and on those of the next client, where it should not, as ``pfl predict --prior`` would do: with its
own prior, with even shares, and with ``em``, the shares estimated from all the samples tested,
without labels, where a likelihood ratio test tells them from the client's prior. Prints a table of
mean accuracy over clients, negative log-likelihood in nats, and at how many clients the test did.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from experiments.data import deal, summed, tuned
from pfl.cli.deployment.head import CalibratedHead
from pfl.data.client_features.by_client import by_client
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import dequantize
from pfl.evaluation.prior_shift import estimate_prior
from pfl.evaluation.reliability.sums import log_probabilities
from pfl.fedhip.families.table import Family
from pfl.fedhip.moments import Moments
from pfl.fedhip.selection.candidates import PersonalizeSettings
from pfl.fedhip.selection.choice import PERSONALIZED, Alternatives, choose, prepare_choice
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order
from pfl.runtime.process import keep_memory

PRIORS = ("own", "uniform", "em")
OWN, NEXT = "the client's own", "the next client's"
HEADINGS = ("data", "samples", *PRIORS, "shares differ")


@dataclass(frozen=True)
class Samples:
    """Features and labels of one client."""

    features: Float[np.ndarray, "n m"]
    labels: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Used:
    """One head on one set of samples: accuracy and likelihood by prior, and what the test said."""

    accuracy: dict[str, float]
    nll: dict[str, float]
    differs: bool


def personalized(alternatives: Alternatives, own: Samples) -> CalibratedHead:
    """The head that a client with these samples uses."""
    chosen = choose(alternatives, own.features, own.labels)
    kept = chosen.kept[PERSONALIZED]
    return CalibratedHead(
        kept.scale * kept.head.weight, kept.scale * kept.head.bias, kept.prior,
        chosen.log_ratio, alternatives.shares,
    )  # fmt: skip


def use(head: CalibratedHead, at: Samples) -> Used:
    """Test a head with each of ``PRIORS``."""
    classes = len(head.bias)
    estimate = estimate_prior(log_probabilities(head.scores(at.features)), head.shares)
    counted = head.with_counts(len(at.labels) * estimate.shares) if estimate.differs else head
    even = head.with_shares(np.full(classes, 1.0 / classes))
    scores = {
        name: one.scores(at.features)
        for name, one in zip(PRIORS, (head, even, counted), strict=True)
    }
    return Used(
        {name: float(np.mean(of.argmax(1) == at.labels)) for name, of in scores.items()},
        {name: _nll(of, at.labels) for name, of in scores.items()},
        estimate.differs,
    )


def _nll(scores: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"]) -> float:
    return -float(np.mean(log_probabilities(scores)[np.arange(len(labels)), labels]))


def measure(folder: Path, clients: int, concentration: str, seed: int) -> dict[str, list[Used]]:
    """Every client's head on its own test samples and on the next client's."""
    index, dealt = deal(folder, clients, concentration, seed)
    with open_features(folder / "features.h5") as features:
        zero = Moments.zero(features.m, len(index.classes), features.step)
        server = tuned(summed(by_client(features, index, dealt.train), zero))
        alternatives = prepare_choice(server, PersonalizeSettings(Family.AUTO))
        train, tests = (
            [
                Samples(dequantize(part.rows, features.step), part.labels)
                for part in by_client(features, index, split)
            ]
            for split in (dealt.train, dealt.test)
        )
    heads = list(in_order(lambda own: personalized(alternatives, own), iter(train), cores()))
    neighbors = [*tests[1:], tests[0]]
    return {
        name: [use(head, at) for head, at in zip(heads, of, strict=True) if len(at.labels)]
        for name, of in ((OWN, tests), (NEXT, neighbors))
    }


def main() -> None:
    """Print the table, two lines a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--concentration", default="0.1", help="of the Dirichlet, or iid")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    keep_memory()
    print(f"| {' | '.join(HEADINGS)} |\n|---|---|{'---:|' * 4}")
    with threadpool_limits(1):
        for folder in options.data:
            runs = [
                measure(folder, options.clients, options.concentration, seed)
                for seed in options.seeds
            ]
            for name in (OWN, NEXT):
                print(_line(folder.name, name, [one for run in runs for one in run[name]]))


def _line(data: str, samples: str, used: list[Used]) -> str:
    cells = [
        f"{100 * np.mean([one.accuracy[p] for one in used]):.1f}, "
        f"{np.mean([one.nll[p] for one in used]):.3f}"
        for p in PRIORS
    ]
    told = f"{sum(one.differs for one in used)} of {len(used)}"
    return f"| {' | '.join([data, samples, *cells, told])} |"


if __name__ == "__main__":
    main()
