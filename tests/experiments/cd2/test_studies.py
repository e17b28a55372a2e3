"""Studies choose by held-out samples, play what is missing, and lose no line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.cd2.cost import minutes
from experiments.cd2.ensembles import MostConfident
from experiments.cd2.play import MODELS, TimeIsUpError, Watcher, watched
from experiments.cd2.runner import Runner, last_ten
from experiments.cd2.studies import CD2_STUDIES, compared, confirmed
from experiments.ledger import add, lines
from experiments.reproduction import ALL, PROTOCOL
from experiments.studies import Setting
from pfl.evaluation.accuracies import Accuracies, ClientAccuracies
from tests.training.test_settings import PARAMS

STATED = {**PARAMS, "rounds": PARAMS["rounds"] | PROTOCOL}
BEGIN = Setting("begin", "fedavg", {}, {"rounds": 7})
TRIED = [
    Setting("a", "local", {}, {"rounds": 9}, begin=BEGIN),
    Setting("b", "local", {}, {"rounds": 8}, begin=BEGIN),
]


def row(name, validation, test):
    return {"setting": name, "seed": "0", "validation": str(validation), "local": str(test)}


def test_names_are_one_of_a_kind_and_every_setting_is_of_its_method():
    settings = [one for study in ALL.values() for one in study()]
    assert len({one.name for one in settings}) == len(settings)
    for one in settings:
        assert set(one.own) <= PARAMS["train"][one.method].keys(), one.name
        assert set(one.rounds) <= PARAMS["rounds"].keys(), one.name
        assert minutes(one, STATED["rounds"]) > 0


def test_the_best_on_held_out_samples_is_confirmed_once_all_have_lines():
    settings = list(compared("g", TRIED))
    assert all(one.rounds["validation-fraction"] == 0.1 and one.seeds == (0,) for one in settings)
    assert all(one.begin.rounds["validation-fraction"] == 0.1 for one in settings)
    assert list(confirmed(settings, [row("a", 0.5, 0.9)])) == []
    found = list(confirmed(settings, [row("a", 0.5, 0.9), row("b", 0.6, 0.1)]))
    assert [one.name for one in found] == ["g/confirmed/partition-0", "g/confirmed/partition-1"]
    for partition, one in enumerate(found):
        assert one.rounds == {"rounds": 8} and one.begin.rounds == {"rounds": 7}
        assert (one.partition, one.begin.partition, one.seeds, one.group) == (partition,) * 2 + (
            (), "",
        )  # fmt: skip
        assert one.begin.name == f"begin/all/partition-{partition}"


def test_a_run_is_missing_without_its_line_and_a_beginning_without_its_models(tmp_path):
    runner = Runner(tmp_path / "r.csv", tmp_path / "work", {}, 1, STATED)
    jobs = runner.missing(TRIED, (0, 1))
    assert [(one.name, seed) for one, seed in jobs] == [
        ("begin", 0), ("a", 0), ("begin", 1), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    for name in ("begin", "a"):
        add(runner.results, ("setting", "seed"), {"setting": name, "seed": 0})
    assert [one.name for one, _ in runner.missing(TRIED, (0,))] == ["begin", "b"]
    folder = runner.folder(BEGIN, 0)
    folder.mkdir(parents=True)
    (folder / MODELS).touch()
    assert [one.name for one, _ in runner.missing(TRIED, (0,))] == ["b"]
    assert runner.missing([replace(TRIED[0], seeds=(5,))], (0,)) == []
    told = runner.play_of(TRIED[0], 0, {"images": Path("i.h5")})
    assert told.rounds["begin-from"] == str(folder / MODELS)
    assert (told.rounds["rounds"], told.rounds["batch-size"]) == (9, 128)


def test_a_file_of_fewer_columns_gets_the_others_and_keeps_its_lines(tmp_path):
    path = tmp_path / "r.csv"
    add(path, ("a", "b"), {"a": 1, "b": 2, "c": 9})
    add(path, ("a", "c"), {"a": 3, "c": 4})
    add(path, ("a", "b"), {"a": 5})
    assert lines(path) == [
        {"a": "1", "b": "2", "c": ""}, {"a": "3", "b": "", "c": "4"}, {"a": "5", "b": "", "c": ""},
    ]  # fmt: skip


def test_the_last_ten_rounds_have_a_mean_if_all_were_tested():
    history = [{"x": str(number)} for number in range(20)]
    assert last_ten(history, "x") == 14.5
    assert last_ten([*history, {"x": ""}], "x") == ""


def test_what_was_watched_comes_back_and_time_ends_a_run_but_not_its_last_round(tmp_path):
    watch = Watcher(tmp_path / "watched.csv", np.inf, 3)
    for number, value in ((1, 0.5), (2, 0.25), (2, 0.75)):
        watch(number, ClientAccuracies(Accuracies(np.array([value, np.nan]))))
    watch(3, None)
    np.testing.assert_array_equal(watched(tmp_path), [[0.5, np.nan], [0.75, np.nan]])
    late = Watcher(tmp_path / "watched.csv", -1.0, 3)
    late(3, None)
    with pytest.raises(TimeIsUpError):
        late(2, None)


def test_the_most_confident_model_answers():
    tally = MostConfident(2)
    tally.add(np.array([[0, 1, 0], [0, 9, 0]], np.float32))
    tally.add(np.array([[2, 0, 0], [0, 0, 3]], np.float32))
    assert tally.answer.tolist() == [0, 1]


def test_the_studies_of_the_page_are_there():
    assert CD2_STUDIES.keys() <= ALL.keys()
