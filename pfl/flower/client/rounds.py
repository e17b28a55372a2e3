"""A trained method at a client: its part of a round, with private weights that never leave.

The round itself is :func:`pfl.training.rounds.train_client`. What the client keeps between rounds
lies in the state that Flower keeps for it at its node (``Context``), a generation a round: the
server tells the last round whose upload arrived, and the client goes on from there. So an upload
that was lost on its way leaves the client as if it had not taken part, as it does in the pipeline.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from flwr.app import MetricRecord, RecordDict
from jaxtyping import UInt8
from safetensors.torch import load, save_file
from torch import Tensor

from pfl.artifacts.files import replacing
from pfl.data.images.images import open_images
from pfl.data.tensors.client_data import ClientData
from pfl.data.tensors.federated_data import FederatedData, federate
from pfl.data.tensors.pixels import PixelView, load_pixels, pixel_sums, pixel_view
from pfl.errors import InputError
from pfl.flower.client.site import Site, stamp
from pfl.flower.messages.hello import Hello
from pfl.flower.messages.tensors import tensor_record, tensors_of
from pfl.flower.parameters import read_json
from pfl.flower.trained import Shape, Trained, problem_of
from pfl.training.evaluation import model_in_use, own_accuracy
from pfl.training.rounds import Job, Problem, model_state, state_bytes, train_client

SHARED, SENT, TOLD, METRICS = "shared", "sent", "told", "metrics"
PRIVATE, MEMORY = "private", "memory"


def images_hello(site: Site, content: RecordDict) -> Hello:
    """Number, kind of images, and sums over the pixels that are trained with."""
    told = _trained(content)
    data = _own(site, told)
    sums = pixel_sums(data.samples())
    facts = {
        "train": len(data),
        "channels": data.stored.shape[3],
        "pixels": [sums.count, sums.first.tolist(), sums.second.tolist()],
    }
    return Hello(site.client, {"side": data.stored.shape[1]}, site.index.classes, facts)


def play_part(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Train in one round; ``state`` is what this client keeps, and is brought up to date."""
    problem, job = _problem(site, content), _job(site, content, state)
    answer = train_client(problem, job)
    _store(state, job, load(answer.private), load(answer.memory))
    return RecordDict(
        {SENT: tensor_record(load(answer.upload)), METRICS: MetricRecord(dict(answer.terms))}
    )


def score_own(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Accuracy on the client's own samples; after the last round its model is kept."""
    problem, job = _problem(site, content), _job(site, content, state)
    own, validation = own_accuracy(problem, job)
    if site.out is not None and job.round == problem.training.rounds:
        with replacing(site.out / "model.safetensors") as part:
            save_file(
                {n: v.contiguous() for n, v in model_state(model_in_use(problem, job)).items()},
                part,
            )
    return RecordDict({METRICS: MetricRecord({"own": own, "validation": validation})})


def _trained(content: RecordDict) -> Trained:
    told = content.config_records[TOLD]
    return Trained(**read_json(told["trained"]))


def _own(site: Site, told: Trained) -> ClientData:
    """The client's training data, not yet normalized as all others'."""
    return _data(site, told).clients[site.client]


def _data(site: Site, told: Trained) -> FederatedData:
    """This site's samples, as the pipeline deals them."""
    pixels = _pixels(site.folder, told.image_size, stamp(site.folder, "images.h5"))
    view_of = partial(pixel_view, augment=bool(told.rounds["augment"]))
    return federate(site.index, site.held, pixels, told.holdout, view_of)


@lru_cache(maxsize=1)
def _pixels(folder: Path, size: int | None, stamped: tuple[int, ...]) -> UInt8[Tensor, "n h w c"]:
    del stamped
    with open_images(folder / "images.h5") as images:
        return load_pixels(images, size)


def _problem(site: Site, content: RecordDict) -> Problem:
    """The pipeline's problem, with this client's samples alone."""
    told = _trained(content)
    common = read_json(content.config_records[TOLD]["common"])
    data = _data(site, told)
    shape = Shape(common["channels"], data.tests.pooled.stored.shape[1], data.classes)
    mean, std = (torch.tensor(common[name]) for name in ("mean", "std"))
    normal = _Normal(shape.channels, PixelView(mean, std, bool(told.rounds["augment"])))
    nobody = data.clients[site.client].take(torch.zeros(0, dtype=torch.int64))
    clients = [nobody] * site.client + [normal.of(data.clients[site.client])]
    tests = data.tests.each(normal.of)
    return problem_of(told, shape, clients, tests, str(told.rounds["device"]))


@dataclass(frozen=True)
class _Normal:
    """Everybody's number of channels, and what networks see of images."""

    channels: int
    view: PixelView

    def of(self, data: ClientData) -> ClientData:
        """Data that are normalized so; grey images become colored where others are."""
        pixels = data.stored
        if pixels.shape[3] < self.channels:
            pixels = pixels.repeat(1, 1, 1, self.channels)
        return replace(data, stored=pixels, view=self.view)


def _job(site: Site, content: RecordDict, state: RecordDict) -> Job:
    """The client's part, with what it kept of the round ``last``."""
    told = content.config_records[TOLD]
    number, last = int(str(told["round"])), int(str(told["last"]))
    kept = _kept(site, state, last) if last else {}
    return Job(
        client=site.client,
        round=number,
        last=last,
        shared=state_bytes(tensors_of(content.array_records[SHARED])),
        private=state_bytes(_part(kept, PRIVATE)),
        memory=state_bytes(_part(kept, MEMORY)),
    )


def _part(kept: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    prefix = f"{kind}/"
    return {n.removeprefix(prefix): v for n, v in kept.items() if n.startswith(prefix)}


def _kept(site: Site, state: RecordDict, last: int) -> dict[str, Tensor]:
    name = _generation(last)
    if name not in state.array_records:
        raise InputError(
            f"Client {site.client} has lost what it kept of round {last}, as a node that was "
            "restarted has: start the run again."
        )
    return tensors_of(state.array_records[name])


def _store(
    state: RecordDict, job: Job, private: Mapping[str, Tensor], memory: Mapping[str, Tensor]
) -> None:
    """Add this round's generation; of the earlier ones only that of ``last`` can be asked for."""
    for name in list(state.array_records):
        if name != _generation(job.last):
            del state[name]
    parts = ((PRIVATE, private), (MEMORY, memory))
    state[_generation(job.round)] = tensor_record(
        {f"{kind}/{name}": value for kind, values in parts for name, value in values.items()}
    )


def _generation(number: int) -> str:
    return f"round-{number}"
