"""A run that is stopped goes on after its last finished round, and ends the same."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from pfl.errors import InputError
from pfl.training import run
from pfl.training.checkpoint import load_federation
from pfl.training.methods.ditto import ditto
from pfl.training.methods.fedavg import fedavg
from pfl.training.methods.fedavg_ft import fedavg_ft
from pfl.training.methods.local import local
from pfl.training.run import STATE, train_and_test
from tests.federations import play, problem, same


class Stopped(Exception):
    pass


def stop_after(monkeypatch, rounds):
    """Have the next round after ``rounds`` finished ones stop the run."""
    original, played = run.play_round, []

    def limited(*arguments):
        if len(played) == rounds:
            raise Stopped
        played.append(1)
        return original(*arguments)

    monkeypatch.setattr(run, "play_round", limited)


def told(result):
    tests = result.accuracies
    clients = (tests.local, tests.validation, tests.everybody)
    other = result.other.local.clients.tobytes()
    return result.history, *(test.clients.tobytes() for test in clients), tests.new.ensemble, other


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("make", [fedavg, partial(ditto, attraction=0.1)])
def test_a_stopped_run_ends_the_same(tmp_path, monkeypatch, make, rounds):
    of = problem(make, normalized=True, fraction=0.6, client_dropout=0.2)
    whole = train_and_test(of, tmp_path / "whole", 1)
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(patch, rounds)
        if rounds < 3:
            with pytest.raises(Stopped):
                train_and_test(of, folder, 1)
        else:
            train_and_test(of, folder, 1)
    kept = min(rounds, 2)  # the last round is played again, since it is tested before it is kept
    assert not rounds or load_federation(folder / STATE)[0].round == kept
    resumed = train_and_test(of, folder, 2)
    assert same(resumed.federation, whole.federation)
    assert told(resumed) == told(whole)


def test_a_damaged_state_is_told_and_not_believed(tmp_path, monkeypatch, caplog):
    of = problem(fedavg, normalized=True)
    whole = train_and_test(of, tmp_path / "whole", 1)
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Stopped):
            train_and_test(of, folder, 1)
    state = bytearray((folder / STATE).read_bytes())
    state[-5] ^= 1
    (folder / STATE).write_bytes(state)
    again = train_and_test(of, folder, 1)
    assert "all are played again" in caplog.text
    assert same(again.federation, whole.federation)
    assert told(again) == told(whole)


def test_the_history_tells_each_round(tmp_path):
    of = problem(local, rounds=5)
    result = train_and_test(of, tmp_path, 1)
    _, summaries = play(of)
    assert [row["round"] for row in result.history] == [1, 2, 3, 4, 5]
    assert [row["train:loss"] for row in result.history] == [s.terms["loss"] for s in summaries]
    assert ["local-test" in row for row in result.history] == [False, True, False, True, True]
    assert ["new-test" in row for row in result.history] == [False] * 4 + [True]
    assert result.history[-1]["local-test"] == np.nanmean(result.accuracies.local.clients)
    assert result.history[-1]["validation"] == np.nanmean(result.accuracies.validation.clients)


def test_tests_change_no_training(tmp_path):
    tuned = partial(fedavg_ft, epochs=1, learning_rate=0.1)
    often, rarely = (
        train_and_test(problem(tuned, rounds=4, evaluate_every=n), tmp_path / str(n), 1).federation
        for n in (1, 4)
    )
    assert same(often, rarely)


def test_divergence_keeps_the_last_good_state(tmp_path):
    of = problem()
    original = of.algorithm.train

    def spoiled(model, context):
        terms = original(model, context)
        return terms if context.round < 3 else {"loss": float("nan")}

    broken = replace(of, algorithm=replace(of.algorithm, train=spoiled))
    with pytest.raises(InputError, match="round 3: the loss of client 0"):
        train_and_test(broken, tmp_path, 1)
    kept, _ = load_federation(tmp_path / STATE)
    assert same(kept, play(of, rounds=2)[0])
