"""The group that takes no part: in no client, without any influence, and tested by every method."""

import csv
import json
import unicodedata
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pfl.data.features.features import write_features
from pfl.data.images.images import PixelArray, write_images
from pfl.data.partition.partition import PartitionSettings, Scheme, partition_samples
from pfl.data.samples.clients import read_clients
from pfl.data.samples.external_group import common_test, inside, outside
from pfl.data.samples.index import TEST, TRAIN, Index, read_index, write_index
from pfl.errors import InputError
from pfl.evaluation.metrics import HEADS
from pfl.fedhip.families.table import Family
from pfl.fedhip.selection.candidates import Prior
from pfl.runtime.values import Device, Precision
from stages.aggregate import aggregate
from stages.evaluate import evaluate
from stages.gram import gram
from stages.heads import heads
from stages.partition import partition as partition_stage
from stages.personalize import personalize
from stages.train import train
from tests.plain_heads import plain_heads
from tests.synthetic import EXACT
from tests.workspace import ROOT

GROUPS, CLASSES, TRAINING, TESTING = ("a", "b", "c"), 4, 240, 120
PARAMS = YAML(typ="safe", pure=True).load(ROOT / "params.yaml")
groups = st.sampled_from(GROUPS)


def make_index(seed=0):
    """A random index whose training samples come first, as prepare orders them."""
    rng = np.random.default_rng(seed)
    n = TRAINING + TESTING
    return Index(
        label=rng.integers(CLASSES, size=n).astype(np.int32),
        split=np.repeat([TRAIN, TEST], [TRAINING, TESTING]).astype(np.uint8),
        group=rng.integers(len(GROUPS), size=n).astype(np.int32),
        classes=tuple("wxyz"),
        groups=GROUPS,
    )


def without(index, name):
    """The data as if the group did not exist, and the numbers that its samples had."""
    rows = np.flatnonzero(index.group != index.groups.index(name))
    names = tuple(group for group in index.groups if group != name)
    numbers = [names.index(index.groups[g]) for g in index.group[rows]]
    label, split = index.label[rows], index.split[rows]
    return Index(label, split, np.array(numbers), index.classes, names), rows


@given(scheme=st.sampled_from(Scheme), name=groups, seed=st.integers(0, 99))
def test_the_deal_is_that_of_the_data_without_the_group(scheme, name, seed):
    index = make_index(seed)
    settings = PartitionSettings(scheme, 4, 0.5, 2, 2, name)
    held = partition_samples(index, settings, np.random.default_rng(seed))
    rest, number = without(index, name)
    other = replace(settings, external_group="")
    expected = partition_samples(rest, other, np.random.default_rng(seed))
    for part, plain in ((held.train, expected.train), (held.test, expected.test)):
        assert np.array_equal(part.sample, number[plain.sample])
        assert np.array_equal(part.offset, plain.offset)
        assert np.array_equal(part.count, plain.count)
    assert np.array_equal(held.external, np.flatnonzero(index.group == GROUPS.index(name)))
    dealt = np.concatenate([held.train.sample, held.test.sample])
    assert not np.isin(held.external, dealt).any()
    assert np.array_equal(np.flatnonzero(common_test(index, held)), number[rest.test])


def test_without_a_group_nobody_is_external():
    index = make_index()
    held = partition_samples(
        index, PartitionSettings(Scheme.NATURAL, 3, 0.5, 2, 2), np.random.default_rng(0)
    )
    assert len(held.external) == 0
    assert np.array_equal(common_test(index, held), index.test)
    assert inside(index.group, GROUPS, "") == (index.group, GROUPS)


def test_a_group_may_be_typed_in_another_way_than_it_is_stored():
    one, two = (unicodedata.normalize(form, "Köln") for form in ("NFC", "NFD"))
    index = make_index()
    stored = replace(index, groups=("a", two, "c"))
    settings = PartitionSettings(Scheme.NATURAL, 2, 0.5, 2, 2, "b")
    expected = partition_samples(index, settings, np.random.default_rng(0))
    settings = replace(settings, external_group=one)
    found = partition_samples(stored, settings, np.random.default_rng(0))
    assert np.array_equal(found.external, expected.external)
    assert np.array_equal(found.train.sample, expected.train.sample)
    both = replace(index, groups=("a", two, one))
    assert np.array_equal(outside(both, one), index.group == 2)
    assert np.array_equal(outside(both, two), index.group == 1)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("z", {}, "'z', which is no group of these data: choose one of a, b, c, or '' for none"),
        (
            "all",
            {"group": 0, "groups": ("all",)},
            "'all' has all training samples.*set it to '' for none",
        ),
        (
            "z",
            {"group": 0, "groups": ("all",)},
            "'z', which is no group .*: set it to '' for none, or",
        ),
        ("a", {"group": 0}, "'a' has all training samples, .*: choose one of b, c, or"),
        ("b", {"group": 0}, "'b' has no samples: choose one of a, c"),
        ("a", {"group": [1] * TRAINING + [0] * TESTING}, "'a' has all test samples"),
    ],
)
def test_a_group_that_cannot_be_left_out_is_told(name, changes, words):
    index = make_index()
    if "group" in changes:
        changes["group"] = np.broadcast_to(changes["group"], len(index.label))
    with pytest.raises(InputError, match=words):
        outside(replace(index, **changes), name)


def test_natural_counts_the_groups_that_take_part():
    settings = PartitionSettings(Scheme.NATURAL, 3, 0.5, 2, 2, "b")
    with pytest.raises(InputError, match=r"a multiple of 2 clients .* set clients to 4"):
        partition_samples(make_index(), settings, np.random.default_rng(0))


def run_all(folder, index, external="c"):
    """Every method from one index on the same pictures and features; returns the folder."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    truth = make_index().label  # what pictures and features show, whatever the index says
    pixels = rng.integers(0, 120, (len(truth), 8, 8, 1)) + 40 * truth[:, None, None, None]
    write_images(folder / "images.h5", PixelArray(pixels.astype(np.uint8)), {})
    rows = rng.integers(-3000, 3000, (len(truth), 6)) + 3000 * np.eye(CLASSES, 6, dtype=int)[truth]
    facts = {"step": 2.0**-10, "backbone": "none", "saturated": 0}
    write_features(
        folder / "features.h5", rows.shape, lambda i, j: rows[i:j].astype(np.int16), facts
    )
    write_index(folder / "index.h5", index, {})
    data = {"index": folder / "index.h5", "clients_file": folder / "clients.h5"}
    partition_stage(
        **data, report=folder / "partition", scheme=Scheme.NATURAL, clients=4 if external else 6,
        concentration=1.0, classes_per_client=2, min_samples=2, external_group=external, seed=0,
    )  # fmt: skip
    closed_form(folder, data)
    by_rounds(folder, data)
    return folder


def closed_form(folder, data):
    """FedHiP's stages."""
    seen = {"project": 0, "lift": 0, "norm": "none", "seed": 0}
    data = {**data, "features": folder / "features.h5"}
    given = {"server": folder / "server.h5", "members": folder / "members.h5"}
    gram(**data, **seen, out=folder / "uploads.h5")
    upload = folder / "upload.json"
    aggregate(folder / "uploads.h5", *given.values(), upload, "auto", [], False, "auto", *EXACT)
    personalize(
        **data, **given, **seen, out=folder / "heads.h5", family=Family.AUTO, alpha="auto",
        beta="auto", rho="auto", shrinkage="auto", pull="auto", prior=Prior.AUTO, smoothing="auto",
    )  # fmt: skip
    report = {"heads": folder / "heads.h5", "upload": upload, "report": folder / "fedhip"}
    evaluate(**data, server=given["server"], **report, **seen)


def by_rounds(folder, data):
    """A method with private parameters, on pictures and as heads on features."""
    seen = {"project": 0, "lift": 0, "norm": "none"}
    short = {"rounds": 2, "batch-size": 16, "device": Device.cpu}
    for stage, section, name in ((train, "rounds", "local"), (heads, "head-rounds", "local")):
        flags = PARAMS[section] | short
        flags = {key.replace("-", "_"): value for key, value in flags.items()}
        kind = stage.__name__
        flags |= data | {
            "settings": f"{ROOT}/params.yaml:{kind}.{name}", "report": folder / kind,
            "out": folder / f"{kind}.safetensors", "scratch": folder / "scratch",
        }  # fmt: skip
        if stage is train:
            own = {"method": name, "seed": 0, "images": folder / "images.h5"}
            nowhere = folder / "begin"
            nowhere.mkdir()
            flags |= own | {"precision": Precision.fp32, "begin_from": nowhere}
        else:
            own = {"head": name, "run_seed": 0, "features": folder / "features.h5"}
            flags |= own | seen | {"seed": 0}
        stage(**flags)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two runs that differ in the labels of the external group alone."""
    folder, index = tmp_path_factory.mktemp("external"), make_index()
    moved = (index.label + (index.group == GROUPS.index("c"))) % CLASSES
    other = replace(index, label=moved.astype(np.int32))
    return run_all(folder / "one", index), run_all(folder / "other", other)


TRAINED = {"train": "local", "heads": "heads:local"}  # folder and name of a trained method


def told(folder, method):
    return json.loads((folder / method / "metrics.json").read_text())


def datasets(path):
    """What an artifact holds, without the hash of the index behind it."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[...].tobytes()})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return found


def test_labels_of_the_group_move_nothing_that_is_trained(finished):
    one, other = finished
    for name in ("server.h5", "train.safetensors", "heads.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    for name in ("clients.h5", "uploads.h5", "heads.h5"):
        assert datasets(one / name) == datasets(other / name)


@pytest.mark.parametrize("method", ["fedhip", "train", "heads"])
def test_they_move_the_external_test_alone(finished, method):
    one, other = (told(folder, method) for folder in finished)
    methods = one.keys() - {"run"}
    taken = [[run[name].pop("external-test") for name in sorted(methods)] for run in (one, other)]
    assert one == other
    for before, after in zip(*taken, strict=True):
        names = {"vote", "weight-average", "mean"}
        assert before.keys() == after.keys() >= names
        assert all(before[name] != after[name] for name in names)


def test_external_accuracies_are_those_of_a_plain_loop(finished):
    """Of each client's heads, of their mean scores, votes and average weights."""
    folder, _ = finished
    index, held = read_index(folder / "index.h5"), read_clients(folder / "clients.h5")
    with h5py.File(folder / "features.h5") as file:
        rows = file["feature"][...] * file.attrs["step"]
    kinds = plain_heads(folder / "heads.h5", folder / "server.h5")
    assert set(kinds) == set(HEADS)
    lines = list(csv.DictReader((folder / "fedhip" / "per_client.csv").open()))
    metrics = told(folder, "fedhip")
    outer = np.isin(np.arange(len(index.label)), held.external)
    sets = {"external-test": outer, "new-test": index.test & ~outer}
    for name, own in kinds.items():
        for test, mask in sets.items():
            scores = np.stack([head.scores(rows[mask], own=False) for head in own])
            right = lambda s, label=index.label[mask]: (s.argmax(1) == label).mean()  # noqa: E731
            votes = sum(np.eye(CLASSES)[one.argmax(1)] for one in scores)
            whole = {
                "mean-score": right(scores.sum(0)),
                "vote": right(votes),
                "weight-average": right(np.tensordot(held.train.sizes, scores, 1)),
            }
            each = [right(one) for one in scores]
            if test == "external-test":
                whole["mean"] = np.mean(each)
                column = [float(line[f"external-test:{name}"]) for line in lines]
            else:
                column = [float(line[f"global-test:{name}"]) for line in lines]
            assert column == pytest.approx(each, abs=1e-6)
            made = metrics[f"fedhip:{name}"][test]
            assert {kind: made[kind] for kind in whole} == pytest.approx(whole, abs=1e-6)


def test_trained_methods_tell_each_clients_external_test(finished):
    for folder, method in TRAINED.items():
        lines = list(csv.DictReader((finished[0] / folder / "per_client.csv").open()))
        mean = np.mean([float(line["external-test"]) for line in lines])
        made = told(finished[0], folder)[method]["external-test"]
        assert made["mean"] == pytest.approx(mean, abs=1e-6)


def test_without_a_group_there_is_no_trace_of_it(tmp_path):
    folder = run_all(tmp_path / "all", make_index(), external="")
    assert set(datasets(folder / "clients.h5")) == {
        f"{part}/{name}" for part in ("train", "test") for name in ("sample", "offset", "count")
    }
    with h5py.File(folder / "clients.h5") as file:
        assert "external-group" not in file.attrs
    metrics = told(folder, "fedhip")
    assert all(metrics[f"fedhip:{head}"]["external-test"] is None for head in HEADS)
    for part, method in TRAINED.items():
        assert told(folder, part)[method]["external-test"] is None
    for method in ("fedhip", "train", "heads"):
        assert "external" not in (folder / method / "per_client.csv").read_text().splitlines()[0]
    assert json.loads((folder / "fedhip" / "summary.json").read_text()).keys() == {"fedhip"}
