"""All rounds of one method, with tests on the way, going on where a killed run had stopped."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pfl.errors import InputError
from pfl.evaluation.accuracies import ClientAccuracies
from pfl.evaluation.metrics import LOCAL_TEST, MEAN_PROBABILITY, NEW_TEST, UPLOAD_BYTES, VALIDATION
from pfl.runtime.progress import progress
from pfl.runtime.workers import workers
from pfl.training.checkpoint import load_federation, save_federation
from pfl.training.evaluation import score_all, score_clients
from pfl.training.problem import LocalProblem
from pfl.training.rounds import Federation, RoundSummary, begin, play_round

log = logging.getLogger(__name__)
STATE = "state.safetensors"

Row = dict[str, int | float]  # one line of rounds.csv, by column; what was not measured is absent


@dataclass(frozen=True)
class Result:
    """What a run gives.

    Attributes:
        federation: after the last round.
        history: a row for every round.
        accuracies: all tests after the last round.
    """

    federation: Federation
    history: list[Row]
    accuracies: ClientAccuracies


def train_and_test(problem: LocalProblem, folder: Path, processes: int) -> Result:
    """Play every round that ``folder`` does not hold yet, then test.

    After each round the whole state goes to ``folder``, so a kill loses at most one round; the
    result is the same to the last bit. The clients' models are tested on their own samples as often
    as the settings say, and after the last round; nothing depends on what that shows.

    Raises:
        InputError: training diverged (the last good state stays), or a worker was killed.
    """
    federation, history = _resume(problem, folder / STATE)
    start, before, rounds = time.monotonic(), federation.round, problem.training.rounds
    with workers(problem, processes) as run:
        left, name = range(before + 1, rounds + 1), problem.algorithm.name
        for number in progress(left, rounds, "round", name, initial=before):
            federation, summary = play_round(problem, federation, run)
            history.append(round_row(summary))
            if number % problem.training.evaluate_every == 0 and number < rounds:
                history[-1] |= mean_row(score_clients(problem, federation, run))
            save_federation(folder / STATE, federation, {"history": history})
        # In the log, not in the reports, where it would give equal runs different bytes.
        played, seconds = rounds - before, time.monotonic() - start
        if played:
            log.info("%d rounds in %.1f s, %.2f s a round.", played, seconds, seconds / played)
        accuracies = score_all(problem, federation, run)
    history[-1] |= mean_row(accuracies)
    return Result(federation, history, accuracies)


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
