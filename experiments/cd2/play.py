"""One run: the stage `train`, for a reading of its method too, with more tests at its end.

    python -m experiments.cd2.play FOLDER [--minutes 9]

FOLDER/run.json says what to play, see :class:`Play`. FOLDER gets what the stage writes, its models,
what each client's model achieved in each tested round (watched.csv), and extra.json: two more ways
to answer together (:mod:`experiments.cd2.ensembles`). With --minutes a run that is not at its end
by then stops after a round, with exit code 3, and goes on when it is called again.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from experiments.cd2.ensembles import highest_confidence, shared_part
from experiments.cd2.readings import CD2, cd2_settings, read
from pfl.artifacts.files import write_text
from pfl.evaluation.accuracies import ClientAccuracies
from pfl.runtime.scratch import code_sha256, file_sha256
from pfl.runtime.values import whole_or_auto
from pfl.training.checkpoint import load_federation
from pfl.training.methods.cd2pfed.cd2pfed import round_ratio
from pfl.training.networks import build
from pfl.training.problem import LocalProblem, holdout, local_problem
from pfl.training.settings import Training
from pfl.training.warm_start import beginning_from, checkpoint_at
from stages._training import train_and_report
from stages.train import load_data

UNFINISHED = 3
MODELS, EXTRA, WATCHED = "models.safetensors", "extra.json", "watched.csv"


@dataclass(frozen=True)
class Play:
    """What to play.

    Attributes:
        method: one of those of `train`.
        seed: of the training.
        own: the method's own settings.
        rounds: the section `rounds`.
        files: images, index and clients, by the stage's flags.
        reading: of :mod:`experiments.cd2.readings`; empty for the package's.
    """

    method: str
    seed: int
    own: Mapping[str, object]
    rounds: Mapping[str, object]
    files: Mapping[str, str]
    reading: str = ""


class TimeIsUpError(Exception):
    """The run is to go on another time."""


@dataclass
class Watcher:
    """Writes each tested round's accuracy of each client; stops the run when time is up."""

    path: Path
    ends: float
    rounds: int
    start: float = field(default_factory=time.monotonic)

    def __call__(self, number: int, made: ClientAccuracies | None) -> None:
        """Told of each round."""
        if made is not None:
            with self.path.open("a") as file:
                file.write(",".join(map(str, (number, *made.local.clients))) + "\n")
        if number < self.rounds and time.monotonic() - self.start > self.ends:
            raise TimeIsUpError


def problem_of(play: Play) -> tuple[LocalProblem, object, dict[str, object]]:
    """The stage's problem and facts, and whose samples are whose."""
    rounds = play.rounds
    training = Training.of("rounds", play.seed, rounds)
    size = whole_or_auto(rounds["image-size"], "rounds.image-size")
    paths = [Path(play.files[name]) for name in ("images", "index", "clients-file")]
    kept, augment = holdout(training), bool(rounds["augment"])
    owners, data = load_data(*paths, size, kept, augment)
    checkpoint = checkpoint_at(Path(str(rounds["begin-from"])))
    _, side, _, channels = data.tests.pooled.stored.shape
    network = partial(build, str(rounds["network"]), channels, side, data.classes)
    problem = local_problem(
        training,
        beginning_from(network, checkpoint),
        lambda model: read(play.reading, play.method, model, play.own),
        data,
    )
    facts: dict[str, object] = {
        "method": play.method, "settings": play.own, "network": rounds["network"],
        "image-size": str(rounds["image-size"]), "augment": augment,
        "evaluate-every": training.evaluate_every, "test": training.test,
        "training": training.facts, "holdout": kept.facts,
        "begin-from": file_sha256(checkpoint) if checkpoint else None,
    }  # fmt: skip
    if play.reading:
        facts |= {"reading": play.reading, "read-by": code_sha256(("experiments",))}
    return problem, owners, facts


def play_to_the_end(folder: Path, minutes: float) -> None:
    """Train unless that is done, then make the further tests.

    Raises:
        TimeIsUpError: the time is over before the rounds are.
    """
    play = Play(**json.loads((folder / "run.json").read_text()))
    problem, owners, facts = problem_of(play)
    out, training = folder / MODELS, problem.training
    if not out.exists():
        inputs = tuple(Path(path) for path in play.files.values())
        watch = Watcher(folder / WATCHED, 60 * minutes, training.rounds)
        work = folder / "scratch"
        train_and_report(problem, owners, facts, inputs, folder, out, work, "train", watch)  # type: ignore[arg-type]
    federation, _ = load_federation(out)
    extra = {"highest-confidence": highest_confidence(problem, federation)}
    if play.method == CD2:
        ratio = round_ratio(cd2_settings(play.own), training.rounds, training.rounds)
        extra["shared-part"] = shared_part(problem, federation, ratio)
    write_text(folder / EXTRA, json.dumps(extra))


def play_or_exit(folder: Path, minutes: float) -> None:
    """Play, and end the process with ``UNFINISHED`` if the time is over before the rounds are."""
    try:
        play_to_the_end(folder, minutes)
    except TimeIsUpError:
        sys.exit(UNFINISHED)


def watched(folder: Path) -> np.ndarray:
    """Accuracy by tested round and client; a round that was played twice counts once."""
    lines = [line.split(",") for line in (folder / WATCHED).read_text().splitlines()]
    rounds = {int(number): [float(value) for value in values] for number, *values in lines}
    return np.array([rounds[number] for number in sorted(rounds)])


def write_play(folder: Path, play: Play) -> None:
    """Say in ``folder`` what to play there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(asdict(play), indent=1, sort_keys=True))


def main() -> None:
    """Play what the folder says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    play_or_exit(options.folder, options.minutes)


if __name__ == "__main__":
    main()
