"""What must hold between artifacts before any head is made: samples, partition, features, sums."""

import numpy as np
from jaxtyping import Int

from pfl.artifacts.hashing import recorded_sha256
from pfl.artifacts.project import Project
from pfl.artifacts.provenance import Origins, check_origin
from pfl.cli.verification.normal_equations import FLOAT64, backward_error
from pfl.data.client_features.by_client import ClientSamples, by_client, check_same_run
from pfl.data.client_features.feature_map import FeatureMap, open_mapped_features
from pfl.data.features.features import open_features
from pfl.data.features.fixed_point import LIMIT
from pfl.data.images.images import open_images
from pfl.data.samples.clients import Assignment, read_clients
from pfl.data.samples.external_group import common_test
from pfl.data.samples.index import Index, read_index
from pfl.errors import InputError
from pfl.fedhip.families.global_head import global_normal_equations
from pfl.fedhip.members import read_members
from pfl.fedhip.moments import Moments, moments, total
from pfl.fedhip.server import are_private, read_server
from pfl.fedhip.uploads import open_uploads
from pfl.runtime.machine import cores
from pfl.runtime.parallel import in_order


def samples(project: Project) -> str:
    """The index is of the very images, each of which has a sample, and no group has one twice."""
    path = project.artifact("images")
    index = read_index(project.artifact("index"))
    check_origin("index", index.images_sha256, "images", recorded_sha256(path, "images"))
    with open_images(path) as images:
        if len(images) != index.images:
            raise _wrong(f"index.h5 lists {index.images} images of {len(images)}", "prepare")
    summary = f"{len(index.label):,} samples in {len(index.classes)} classes"
    return summary if index.image is None else f"{summary}, of {shared_images(index):,} images"


def shared_images(index: Index) -> int:
    """How many images there are, where samples share them.

    Raises:
        InputError: an image has no sample, or two in one group, which could be training and test.
    """
    numbers = index.images_of(np.arange(len(index.label)))
    if not np.array_equal(np.unique(numbers), np.arange(index.images)):
        raise _wrong("an image of index.h5 has no sample", "prepare")
    if len(np.unique(numbers * len(index.groups) + index.group)) != len(numbers):
        raise _wrong("an image of index.h5 has two samples in one group", "prepare")
    return index.images


def partition(project: Project) -> str:
    """Every training sample has one client, every test sample at most one, and counts are right.

    But for those of the external group, which is a whole group and has no client.
    """
    index = read_index(project.artifact("index"))
    clients = read_clients(project.artifact("clients"))
    check_origin("clients", clients.train.index_sha256, "index", index.sha256)
    apart = np.unique(index.group[clients.external])
    if not np.array_equal(np.flatnonzero(np.isin(index.group, apart)), clients.external):
        raise _wrong("the external samples of clients.h5 are no whole group", "partition")
    train, test = index.train & ~np.isin(index.group, apart), common_test(index, clients)
    for name, part, mask in (("training", clients.train, train), ("test", clients.test, test)):
        own = np.flatnonzero(mask)
        if len(np.unique(part.sample)) != len(part.sample):
            raise _wrong(f"a {name} sample of clients.h5 has two clients", "partition")
        if np.setdiff1d(part.sample, own).size:
            raise _wrong(f"clients.h5 deals {name} samples that are none", "partition")
        if not np.array_equal(counts(part, index), part.count):
            raise _wrong(f"the counts of {name} samples in clients.h5 are wrong", "partition")
    if len(clients.train.sample) != train.sum():
        missing = int(train.sum()) - len(clients.train.sample)
        raise _wrong(f"{missing} training samples have no client", "partition")
    nobody, external = int(test.sum()) - len(clients.test.sample), len(clients.external)
    summary = f"disjoint and complete: {clients.train.clients} clients"
    summary += f"; {nobody} test samples are nobody's" if nobody else ""
    return summary + (f"; {external} samples are external" if external else "")


def counts(part: Assignment, index: Index) -> Int[np.ndarray, "clients classes"]:
    """Samples per client and class, counted anew."""
    owner = np.repeat(np.arange(part.clients), part.sizes)
    cells = owner * len(index.classes) + index.label[part.sample]
    counted = np.bincount(cells, minlength=part.clients * len(index.classes))
    return counted.reshape(part.clients, -1)


def rows(project: Project) -> str:
    """One row of features an image, of the very images, within the range of fixed point."""
    index = read_index(project.artifact("index"))
    with open_features(project.artifact("features")) as features:
        check_origin("features", features.images_sha256, "images of index.h5", index.images_sha256)
        if len(features) != index.images:
            raise _wrong(
                f"features.h5 has {len(features)} rows for {index.images} images", "extract"
            )
        if any(block.min(initial=0) < -LIMIT for block in features.blocks()):
            raise _wrong("features.h5 has a value beyond the fixed point", "extract")
        return f"{features.m} features of each image, {features.saturated} values saturated"


def upload_counts(project: Project) -> str:
    """Each client sent sums over as many samples of each class as it has."""
    clients = read_clients(project.artifact("clients"))
    with (
        open_uploads(project.artifact("uploads")) as sent,
        open_features(project.artifact("features")) as features,
    ):
        check_origin("uploads", sent.features_sha256, "features", features.sha256)
        check_origin("uploads", sent.clients_sha256, "clients", clients.sha256)
        if sent.clients != clients.train.clients:
            raise _wrong(
                f"uploads.h5 is of {sent.clients} clients, clients.h5 of {clients.train.clients}",
                "gram",
            )
        for client in range(sent.clients):
            if not np.array_equal(sent.of(client).count, clients.train.count[client]):
                raise _wrong(
                    f"client {client} of uploads.h5 has other samples per class than in clients.h5",
                    "gram",
                )
        return f"{sent.clients} clients, samples per class as in clients.h5"


def upload_sums(project: Project) -> str:
    """Each client sent exactly the moments of its own features."""
    index = read_index(project.artifact("index"))
    train = read_clients(project.artifact("clients")).train
    with (
        open_uploads(project.artifact("uploads")) as sent,
        open_mapped_features(project.artifact("features"), FeatureMap.of(sent.view)) as features,
    ):
        check_same_run(features, index, train)

        def work(own: ClientSamples) -> Moments:
            return moments(own.rows, own.labels, len(index.classes), features.step)

        computed = in_order(work, by_client(features, index, train), cores())
        for client, expected in enumerate(computed):
            if sent.of(client) != expected:
                raise _wrong(
                    f"what client {client} sent in uploads.h5 is not the moments of its features",
                    "gram",
                )
    return "equal, integer for integer, to the moments of the clients' features"


def members(project: Project) -> str:
    """The list of members is of these clients, and of their uploads."""
    listed = read_members(project.artifact("members"))
    with open_uploads(project.artifact("uploads")) as sent:
        listed.check(sent.clients, Origins("", sent.clients_sha256, sent.features_sha256))
    left = np.flatnonzero(~listed.member).tolist()
    return f"all {len(listed.member)} clients" if not left else f"all clients but {left}"


def server_sums(project: Project) -> str:
    """The server's sums are those of the members' uploads."""
    if are_private(project.artifact("server")):
        return "private: noise hides whose they are, and they are not compared"
    summed, _ = read_server(project.artifact("server"))
    clients = np.flatnonzero(read_members(project.artifact("members")).member).tolist()
    with open_uploads(project.artifact("uploads")) as sent:
        if summed != total((sent.of(client) for client in clients), sent.zero):
            raise _wrong("the sums in server.h5 are not those of uploads.h5", "aggregate")
    return f"equal, integer for integer, to the sum of {len(clients)} uploads"


def server_listed(project: Project) -> str:
    """It is the server's answer that the list of members lies beside."""
    listed = read_members(project.artifact("members"))
    actual = recorded_sha256(project.artifact("server"), "server")
    check_origin("list of members", listed.origins.server, "server's answer", actual)
    return "the answer that members.h5 is of"


def server_head(project: Project) -> str:
    """The global head solves its normal equations."""
    _, knowledge = read_server(project.artifact("server"))
    error = backward_error(global_normal_equations(knowledge), knowledge.head)
    if not error <= FLOAT64:
        raise _wrong(
            f"the global head in server.h5 misses its normal equations by {error:.2g}, relatively, "
            f"where {FLOAT64:.2g} is allowed",
            "aggregate",
        )
    return f"G solves (12): backward error {error:.2g}, allowed {FLOAT64:.2g}"


def _wrong(what: str, stage: str) -> InputError:
    return InputError(f"{what[0].upper()}{what[1:]}: run `dvc repro {stage}`.")
