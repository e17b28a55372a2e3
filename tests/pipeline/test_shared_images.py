"""Samples that share images: as if each had its own, but stored, read and computed once."""

import shutil
from dataclasses import replace
from functools import partial

import h5py
import numpy as np
import pytest
import torch

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.project import Project
from pfl.cli.deployment.export import examples
from pfl.cli.deployment.model import load_model
from pfl.cli.inspection.sheet import ACROSS, first_of
from pfl.cli.inspection.summaries import SUMMARIES
from pfl.cli.verification import heads, invariants
from pfl.data.features.features import RECIPE, open_features, write_features
from pfl.data.images.images import open_images
from pfl.data.samples.clients import read_clients, write_clients
from pfl.data.samples.index import read_index, write_index
from pfl.data.tensors.client_data import ClientData
from pfl.data.tensors.features import FeatureView, feature_view, load_features
from pfl.data.tensors.federated_data import Holdout, federate
from pfl.data.tensors.pixels import load_pixels, pixel_view
from pfl.errors import InputError
from pfl.evaluation.heads import head_accuracies
from pfl.evaluation.metrics import HeadKind
from pfl.evaluation.report import heads_csv
from pfl.fedhip.heads import open_heads
from pfl.fedhip.server import read_server
from pfl.fedhip.uploads import open_uploads
from pfl.privacy.leakage.score import survey
from stages.leakage import intercept
from tests.ratings import rating_set
from tests.tiny import pipeline, rewrite, run_stage

USERS = 4
AFTER = ("gram", "aggregate", "personalize")
NOTHING = Holdout(0.0, 0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A finished run on ratings, one client a user."""
    root = rating_set(tmp_path_factory.mktemp("set"))
    values = {
        "prepare.dataset": "ratings", "prepare.path": str(root), "partition.scheme": "natural",
        "partition.clients": USERS,
    }  # fmt: skip
    return pipeline(
        tmp_path_factory.mktemp("shared"), values, ("prepare", "partition", "extract", *AFTER)
    )


def restored(shared, folder, image, rows):
    """Another run on the same ratings: samples have these images, whose features are ``rows``."""
    shutil.copytree(shared, folder)
    data = folder / "data"
    index = replace(read_index(data / "index.h5"), image=image)
    write_index(data / "index.h5", index, {})
    held = read_clients(data / "clients.h5")
    new = recorded_sha256(data / "index.h5", "index")
    write_clients(data / "clients.h5", held, {"index-sha256": new})
    with open_features(data / "features.h5") as features:
        facts = {name: features.recipe[name] for name in RECIPE}
        facts |= {"step": features.step, "saturated": 0, "images-sha256": features.images_sha256}
        stored = features.rows(0, len(features))[rows]
    write_features(data / "features.h5", stored.shape, lambda i, j: stored[i:j], facts)
    for stage in AFTER:
        run_stage(folder, stage)
    return folder


@pytest.fixture(scope="module")
def twice(shared, tmp_path_factory):
    """The same ratings as data in which an image is stored for each of them."""
    numbers = read_index(shared / "data" / "index.h5").image
    return restored(shared, tmp_path_factory.mktemp("twice") / "run", None, numbers)


@pytest.fixture(scope="module")
def renumbered(shared, tmp_path_factory):
    """The same ratings with the images in another order."""
    index = read_index(shared / "data" / "index.h5")
    order = np.random.default_rng(0).permutation(index.images)
    place = np.argsort(order)
    folder = tmp_path_factory.mktemp("renumbered") / "run"
    return restored(shared, folder, place[index.image], order)


def sums(folder):
    with open_uploads(folder / "data" / "uploads.h5") as sent:
        return [sent.of(client) for client in range(sent.clients)]


def accuracies(folder):
    index, held = inputs(folder)
    _, knowledge = read_server(folder / "data" / "server.h5")
    with (
        open_features(folder / "data" / "features.h5") as features,
        open_heads(folder / "data" / "heads.h5") as own,
    ):
        achieved = head_accuracies(index, held, features, knowledge.head, own)
        return heads_csv(achieved, own, held)


def exposures(folder):
    """What each client's upload exposes to attacks."""
    index, held = inputs(folder)
    with (
        open_features(folder / "data" / "features.h5") as features,
        open_uploads(folder / "data" / "uploads.h5") as sent,
    ):
        rng = np.random.default_rng(0)
        return survey(features, index, held.train, intercept(sent), rng, 1)


def inputs(folder):
    return read_index(folder / "data" / "index.h5"), read_clients(folder / "data" / "clients.h5")


def test_an_image_is_stored_and_computed_once(shared):
    index = read_index(shared / "data" / "index.h5")
    assert len(index.label) == USERS * 24
    with (
        open_images(shared / "data" / "images.h5") as images,
        open_features(shared / "data" / "features.h5") as features,
    ):
        assert len(images) == len(features) == index.images == len(np.unique(index.image)) <= 30


@pytest.mark.parametrize("other", ["twice", "renumbered"])
def test_sums_and_heads_are_those_of_one_image_a_sample(shared, other, request):
    folder = request.getfixturevalue(other)
    assert sums(shared) == sums(folder)
    server = "data/server.h5"
    assert (shared / server).read_bytes() == (folder / server).read_bytes()
    assert accuracies(folder) == accuracies(shared)
    with (
        open_heads(shared / "data" / "heads.h5") as one,
        open_heads(folder / "data" / "heads.h5") as two,
    ):
        compared = [name for name in datasets(one.file) if not name.startswith("candidate/")]
        assert {"personalized/weight", "local/bias", "global-prior/prior"} <= set(compared)
        for name in compared:
            assert one.file[name][...].tobytes() == two.file[name][...].tobytes(), name


def datasets(file):
    """Names of all arrays."""
    found = []
    file.visititems(lambda name, one: found.append(name) if isinstance(one, h5py.Dataset) else None)
    return found


def federated(folder, pixels):
    """What clients train with, on images or on features."""
    index, held = inputs(folder)
    if pixels is None:
        with open_features(folder / "data" / "features.h5") as features:
            return federate(index, held, load_features(features), NOTHING, feature_view)
    with open_images(folder / "data" / "images.h5") as images:
        stored = load_pixels(images, None)
    if index.image is None:  # the images of this folder are still those of the other
        stored = stored[torch.from_numpy(pixels)]
    return federate(index, held, stored, NOTHING, partial(pixel_view, augment=True))


def batches(data):
    parts = (*data.clients.values(), data.tests.pooled)
    for client, part in enumerate(parts):
        yield from part.batches(5, torch.Generator().manual_seed(client))
        yield from part.in_order(7)


@pytest.mark.parametrize("pixels", [True, False])
def test_training_sees_the_same_batches(shared, twice, pixels):
    numbers = read_index(shared / "data" / "index.h5").image if pixels else None
    one, other = federated(shared, numbers), federated(twice, numbers)
    for (x, y), (x2, y2) in zip(batches(one), batches(other), strict=True):
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)
    assert len(one.clients) == USERS


def test_training_data_refer_to_one_tensor_on_any_device(shared):
    data = federated(shared, None)
    for one in (data, data.to(torch.device("meta"))):
        parts = (*one.clients.values(), one.tests.pooled, *one.tests.validation)
        assert len({id(part.stored) for part in parts}) == 1
    assert len(data.tests.pooled.stored) < len(data.tests.pooled) + sum(data.sizes)


def test_taking_from_shared_samples_copies_none():
    stored = torch.arange(4)[:, None]
    row = torch.tensor([3, 3, 0])
    data = ClientData(
        stored, torch.tensor([0, 1, 2]), FeatureView(torch.ones(1), torch.zeros(1)), row
    )
    part = data.take(torch.tensor([2, 0]))
    assert part.stored is stored
    assert part.samples().tolist() == [[0], [3]]
    assert part.label.tolist() == [2, 0]


def test_all_checks_hold_and_a_wrong_image_is_found(shared, tmp_path):
    project = Project(shared)
    early = invariants.samples, invariants.partition, invariants.rows, invariants.upload_counts
    late = invariants.upload_sums, invariants.server_sums, heads.origins, heads.equations
    assert all(check(project) for check in (*early, *late))
    shutil.copytree(shared, tmp_path / "run")
    path = tmp_path / "run" / "data" / "index.h5"

    def two_of_a_user(image):
        group = read_index(path).group
        first, second = np.flatnonzero(group == group[0])[:2]
        image[second] = image[first]

    for edit, message in (
        (two_of_a_user, "two samples in one group"),
        (lambda image: np.copyto(image, np.where(image == 3, 4, image)), "has no sample"),
        (lambda image: np.copyto(image, image + 1), "lists . images of |lists .. images of"),
    ):
        shutil.copy(shared / "data" / "index.h5", path)
        rewrite(path, "index", "image", edit)
        with pytest.raises(InputError, match=message):
            invariants.samples(Project(tmp_path / "run"))


def test_strangers_to_an_attack_are_images_that_the_client_has_not(shared, twice):
    index, held = inputs(shared)
    found, more = exposures(shared), exposures(twice)
    for client, (one, other) in enumerate(zip(found, more, strict=True)):
        own = np.unique(index.images_of(held.train.of(client)))
        assert one.strangers == index.images - len(own)
        assert one.recognized == other.recognized == held.train.sizes[client]
        # Where each rating has an image of its own, the client's images are others', too.
        assert one.confused < other.confused


def test_inspection_counts_images_and_shows_each_once(shared):
    path = shared / "data" / "index.h5"
    index = read_index(path)
    assert SUMMARIES["index"](path, None)["images"] == index.images
    for label in range(len(index.classes)):
        numbers = first_of(index, label)
        mine = index.image[index.train & (index.label == label)]
        assert len(set(numbers.tolist())) == len(numbers) == min(ACROSS, len(np.unique(mine)))
        assert set(numbers) <= set(mine)


def test_a_site_reads_its_samples_images(shared):
    site_module = pytest.importorskip("pfl.flower.client.site")
    index, held = inputs(shared)
    site = site_module.Site(2, shared / "data", None, index, held)
    with open_features(shared / "data" / "features.h5") as features:
        rows, labels = site.samples(features, held.test)
        stored = features.rows(0, len(features))
    assert np.array_equal(rows, stored[index.image[held.test.of(2)]])
    assert np.array_equal(labels, index.label[held.test.of(2)])


def test_a_model_is_compared_on_its_clients_images(shared):
    """As `pfl export` does it."""
    model = load_model(Project(shared), 1, HeadKind.personalized, None)
    index, held = inputs(shared)
    own = np.concatenate([held.test.of(1), held.train.of(1)])
    with open_images(shared / "data" / "images.h5") as images:
        expected = [images.rgb(i, i + 1)[0] for i in index.image[own].tolist()]
    assert torch.equal(examples(model, Project(shared)), model.backbone.transform.pixels(expected))
