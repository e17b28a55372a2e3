import csv
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl.artifacts.hdf5 import reading
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.samples.clients import read_clients
from pfl.data.samples.index import TEST, TRAIN, Index, write_index
from pfl.errors import InputError
from stages.partition import partition as stage

BASE = PartitionSettings(Scheme.IID, 6, 0.5, 2, 3)


def make_index(train=600, test=200, classes=5, groups=3, seed=0):
    """A random index whose training and test samples are in their usual order."""
    rng = np.random.default_rng(seed)
    n = train + test
    return Index(
        label=rng.integers(classes, size=n).astype(np.int32),
        split=np.repeat([TRAIN, TEST], [train, test]).astype(np.uint8),
        group=rng.integers(groups, size=n).astype(np.int32),
        classes=tuple(f"class {c}" for c in range(classes)),
        groups=tuple(f"group {g}" for g in range(groups)),
    )


def deal(index, seed=0, **changes):
    return partition_samples(index, replace(BASE, **changes), np.random.default_rng(seed))


def same(one, other):
    return all(
        np.array_equal(getattr(getattr(one, part), field), getattr(getattr(other, part), field))
        for part in ("train", "test")
        for field in ("sample", "offset", "count")
    )


@given(
    scheme=st.sampled_from(Scheme),
    clients=st.sampled_from([3, 6, 12]),
    concentration=st.sampled_from([1e-3, 0.1, 10.0]),
    minimum=st.integers(1, 8),
    data_seed=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_scheme_is_disjoint_complete_deterministic_and_meets_the_minimum(
    scheme, clients, concentration, minimum, data_seed, seed
):
    index = make_index(seed=data_seed)
    settings = PartitionSettings(scheme, clients, concentration, 2, minimum)
    held = partition_samples(index, settings, np.random.default_rng(seed))
    assert np.array_equal(np.sort(held.train.sample), np.flatnonzero(index.train))
    assert held.train.sizes.min() >= minimum
    assert len(np.unique(held.test.sample)) == len(held.test.sample)
    assert index.test[held.test.sample].all()
    assert same(held, partition_samples(index, settings, np.random.default_rng(seed)))


@given(scheme=st.sampled_from(Scheme), seed=st.integers(0, 2**32 - 1))
def test_test_sets_follow_the_training_distribution(scheme, seed):
    index = make_index(seed=1)
    held = deal(index, seed, scheme=scheme)
    blocks = [(index.test, slice(None))]
    if scheme is Scheme.NATURAL:
        blocks = [(index.test & (index.group == g), slice(2 * g, 2 * g + 2)) for g in range(3)]
    for mask, clients in blocks:
        train, test = held.train.count[clients], held.test.count[clients]
        available = np.bincount(index.label[mask], minlength=5)
        quota = available * train / np.maximum(train.sum(0), 1)
        assert (test >= np.floor(quota)).all()
        assert (test <= np.ceil(quota)).all()
        assert np.array_equal(test.sum(0), np.where(train.sum(0) > 0, available, 0))


def test_natural_keeps_groups_together_in_both_splits():
    index = make_index()
    held = deal(index, scheme=Scheme.NATURAL)
    for part in (held.train, held.test):
        for client in range(6):
            assert (index.group[part.of(client)] == client // 2).all()


def test_test_samples_of_a_class_without_training_samples_belong_to_nobody():
    index = make_index()
    label = np.where(index.train & (index.label == 4), 0, index.label).astype(np.int32)
    held = deal(replace(index, label=label), scheme=Scheme.DIRICHLET)
    assert held.test.count[:, 4].sum() == 0
    assert len(held.test.sample) == (label[index.test] != 4).sum()


@pytest.mark.parametrize(
    ("scheme", "change"),
    [
        (Scheme.DIRICHLET, {"concentration": 0.6}),
        (Scheme.QUANTITY, {"concentration": 0.6}),
        (Scheme.PATHOLOGICAL, {"classes_per_client": 3}),
        *[(scheme, {"clients": 3}) for scheme in Scheme],
        *[(scheme, {"seed": 1}) for scheme in Scheme],
        (Scheme.DIRICHLET, {"min_samples": 60}),
        (Scheme.QUANTITY, {"min_samples": 60}),
        (Scheme.PATHOLOGICAL, {"min_samples": 100}),
    ],
)
def test_each_parameter_of_a_scheme_changes_the_deal(scheme, change):
    index = make_index()
    assert not same(deal(index, scheme=scheme), deal(index, **{"scheme": scheme, **change}))


@pytest.mark.parametrize(
    ("scheme", "change"),
    [
        *[(s, {"concentration": 9.0}) for s in Scheme if s not in ("dirichlet", "quantity")],
        *[(s, {"classes_per_client": 1}) for s in Scheme if s != "pathological"],
    ],
)
def test_parameters_that_a_scheme_does_not_use_change_nothing(scheme, change):
    index = make_index()
    settings = replace(BASE, scheme=scheme)
    assert same(deal(index, scheme=scheme), deal(index, scheme=scheme, **change))
    assert replace(settings, **change).used() == settings.used()


FLAGS = {
    "scheme": Scheme.DIRICHLET,
    "clients": 6,
    "concentration": 0.5,
    "classes_per_client": 2,
    "min_samples": 3,
    "external_group": "",
    "seed": 0,
}


def run_stage(folder, **changes):
    paths = (folder / "index.h5", folder / "clients.h5", folder / "report")
    stage(*paths, **(FLAGS | changes))
    return paths


@pytest.fixture
def folder(tmp_path):
    write_index(tmp_path / "index.h5", make_index(), {})
    return tmp_path


def test_stage_gives_the_same_bytes_for_the_same_seed(folder):
    outputs = []
    for seed in (0, 0, 1):
        _, clients, report = run_stage(folder, seed=seed)
        files = [clients, report / "counts.csv", report / "counts.png"]
        outputs.append([path.read_bytes() for path in files])
    assert outputs[0] == outputs[1]
    assert all(one != other for one, other in zip(outputs[0], outputs[2], strict=True))


def test_stage_ignores_parameters_of_other_schemes_to_the_byte(folder):
    _, clients, report = run_stage(folder, scheme=Scheme.IID)
    before = clients.read_bytes(), (report / "counts.png").read_bytes()
    run_stage(folder, scheme=Scheme.IID, concentration=3.0, classes_per_client=4)
    assert before == (clients.read_bytes(), (report / "counts.png").read_bytes())


def test_stage_stores_and_tells_the_counts(folder):
    _, path, report = run_stage(folder)
    held = read_clients(path)
    with reading(path, "clients") as file:
        assert dict(file.attrs)["concentration"] == 0.5
    rows = list(csv.DictReader((report / "counts.csv").open()))
    assert [int(row["train"]) for row in rows] == held.train.sizes.tolist()
    assert [int(row["test"]) for row in rows] == held.test.sizes.tolist()
    assert [int(row["train:class 3"]) for row in rows] == held.train.count[:, 3].tolist()
    assert [int(row["test:class 0"]) for row in rows] == held.test.count[:, 0].tolist()


def test_refusal_is_one_sentence_and_leaves_the_artifacts_alone(folder):
    _, clients, report = run_stage(folder)
    before = clients.read_bytes(), (report / "counts.csv").read_bytes()
    with pytest.raises(InputError, match="clients times min-samples at most 600"):
        run_stage(folder, clients=61, min_samples=10)
    assert before == (clients.read_bytes(), (report / "counts.csv").read_bytes())


@pytest.mark.parametrize(
    ("flag", "value", "code", "words"),
    [
        ("--concentration", "0", 2, "greater than or equal to|1e-06<=x"),  # by newer or older typer
        ("--scheme", "quantum", 2, "pathological"),
        ("--min-samples", "101", 1, "need 606 training samples, but the data have 600"),
        ("--external-group", "x", 1, "no group of these data: choose one of group 0, group 1,"),
    ],
)
def test_command_refuses_a_wrong_flag(folder, flag, value, code, words):
    command = [sys.executable, "-m", "stages.partition"]
    command += [f"--{name.replace('_', '-')}={default}" for name, default in FLAGS.items()]
    command.append(f"{flag}={value}")
    for name in ("index", "clients-file", "report"):
        path = folder / {"index": "index.h5", "clients-file": "c.h5"}.get(name, name)
        command.append(f"--{name}={path}")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert re.search(words, " ".join(result.stderr.replace("│", " ").split()))
    assert "Traceback" not in result.stderr
    assert not (folder / "c.h5").exists()
