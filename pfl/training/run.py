"""All rounds of one method, with tests on the way, going on where a killed run had stopped."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfl.errors import InputError
from pfl.evaluation.accuracies import ClientAccuracies
from pfl.evaluation.metrics import LOCAL_TEST, MEAN_PROBABILITY, NEW_TEST, UPLOAD_BYTES, VALIDATION
from pfl.runtime.progress import progress
from pfl.runtime.workers import Run, workers
from pfl.training.checkpoint import load_federation, save_federation
from pfl.training.evaluation import score_all, score_clients
from pfl.training.problem import LocalProblem, Problem
from pfl.training.rounds import ClientRound, Federation, RoundSummary, begin, play_round
from pfl.training.settings import Models
from pfl.training.tested import trained_places

log = logging.getLogger(__name__)
STATE = "state.safetensors"

Row = dict[str, int | float]  # one line of rounds.csv, by column; what was not measured is absent
# (round, its tests if there were some): what is to be done when a round is finished.
Watch = Callable[[int, ClientAccuracies | None], None]
Score = Callable[[LocalProblem, Federation, Run, Sequence[ClientRound]], ClientAccuracies]
OTHER = {Models.DOWNLOADED: Models.TRAINED, Models.TRAINED: Models.DOWNLOADED}


@dataclass(frozen=True)
class Result:
    """What a run gives.

    Attributes:
        federation: after the last round.
        history: a row for every round.
        accuracies: all tests after the last round, of the models that the settings name.
        other: the tests of the other ones on clients' own samples.
    """

    federation: Federation
    history: list[Row]
    accuracies: ClientAccuracies
    other: ClientAccuracies


def unwatched(number: int, made: ClientAccuracies | None) -> None:
    """Nothing is done."""


def train_and_test(
    problem: LocalProblem, folder: Path, processes: int, watch: Watch = unwatched
) -> Result:
    """Play every round that ``folder`` does not hold yet, then test.

    After each round but the last, which is tested first, the whole state goes to ``folder``, so a
    kill loses at most one round; the result is the same to the last bit. The clients' models, both
    those downloaded and those just trained, are tested on their own samples as often as the
    settings say, and after the last round; nothing depends on what that shows. ``watch`` is told of
    each round when it is kept; an error that it raises stops the run there.

    Raises:
        InputError: training diverged (the last good state stays), or a worker was killed.
    """
    federation, history = _resume(problem, folder / STATE)
    start, before, rounds = time.monotonic(), federation.round, problem.training.rounds
    with workers(problem, processes) as run:
        left, name = range(before + 1, rounds + 1), problem.algorithm.name
        for number in progress(left, rounds, "round", name, initial=before):
            begun = federation
            federation, summary = play_round(problem, begun, run)
            history.append(round_row(summary))
            if number < rounds:
                made = None
                if problem.training.tests(number):
                    made, other = _tests(problem, begun, federation, summary, run, score_clients)
                    history[-1] |= mean_row(made) | other_row(problem, other)
                save_federation(folder / STATE, federation, {"history": history})
                watch(number, made)
        # In the log, not in the reports, where it would give equal runs different bytes.
        played, seconds = rounds - before, time.monotonic() - start
        log.info("%d rounds in %.1f s, %.2f s a round.", played, seconds, seconds / played)
        made, other = _tests(problem, begun, federation, summary, run, score_all)
    history[-1] |= mean_row(made) | other_row(problem, other)
    watch(rounds, made)
    return Result(federation, history, made, other)


def _tests(
    problem: LocalProblem, begun: Federation, ended: Federation, summary: RoundSummary, run: Run,
    score: Score,
) -> tuple[ClientAccuracies, ClientAccuracies]:  # fmt: skip
    """Tests after a round: by ``score`` of the models that the settings name, and of the others."""
    trained = trained_places(problem, begun, summary.updates)
    downloaded: list[ClientRound] = []
    named, others = downloaded, trained
    if problem.training.test == Models.TRAINED:
        named, others = trained, downloaded
    made = score(problem, ended, run, named)
    return made, score_clients(problem, ended, run, others) if trained else made


def _resume(problem: LocalProblem, path: Path) -> tuple[Federation, list[Row]]:
    if not path.exists():
        return begin(problem), []
    try:
        federation, facts = load_federation(path)
    except InputError as error:  # Rather made again than believed.
        log.warning("The rounds kept so far cannot be used, all are played again: %s", error)
        return begin(problem), []
    log.info("Going on: %d of %d rounds were finished before.", federation.round,
             problem.training.rounds)  # fmt: skip
    return federation, facts["history"]


def round_row(summary: RoundSummary) -> Row:
    """What every round tells."""
    counts = {"round": summary.round, "clients": len(summary.participants)}
    terms = {f"train:{name}": value for name, value in summary.terms.items()}
    return counts | {UPLOAD_BYTES: summary.upload_bytes} | terms


def mean_row(accuracies: ClientAccuracies) -> Row:
    """Means over the clients that have such samples, and the ensemble's; absent if not known."""
    named = {LOCAL_TEST: accuracies.local, VALIDATION: accuracies.validation}
    means = {
        name: float(np.nanmean(of.clients))
        for name, of in named.items()
        if of is not None and not np.isnan(of.clients).all()
    }
    new = accuracies.new
    return means if new is None else means | {NEW_TEST: new.ensemble[MEAN_PROBABILITY]}


def other_row(problem: Problem, other: ClientAccuracies) -> Row:
    """The same of the models that the settings do not name, as in ``local-test:trained``."""
    means = mean_row(other).items()
    return {other_name(problem, name): value for name, value in means if name != NEW_TEST}


def other_name(problem: Problem, test: str) -> str:
    """How reports call a test of the models that the settings do not name."""
    return f"{test}:{OTHER[problem.training.test]}"
