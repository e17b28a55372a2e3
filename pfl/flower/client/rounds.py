"""A trained method at a client: its part of a round, with private weights that never leave.

The round itself is a :class:`pfl.training.rounds.TrainRequest`. What the client keeps between
rounds lies in the state that Flower keeps for it at its node (``Context``), a generation a round:
the server tells the last round whose upload arrived, and the client goes on from there. So an
upload that was lost on its way leaves the client as if it had not taken part, as it does in the
pipeline.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import MetricRecord, RecordDict
from jaxtyping import UInt8
from safetensors.torch import save_file
from torch import Tensor

from pfl.artifacts.files import replacing
from pfl.data.images.images import open_images
from pfl.data.tensors.client_data import ClientData
from pfl.data.tensors.federated_data import FederatedData, federate
from pfl.data.tensors.pixels import PixelView, load_pixels, pixel_sums, pixel_view
from pfl.errors import InputError
from pfl.flower.client.site import Site, stamp
from pfl.flower.messages.hello import Hello, hello_record
from pfl.flower.messages.reliability import sums_of
from pfl.flower.messages.tensors import tensor_record, tensors_of
from pfl.flower.parameters import read_json
from pfl.flower.trained import Trained, from_dict
from pfl.training.evaluation import OwnTestRequest, model_in_use
from pfl.training.problem import LocalProblem, holdout, local_problem
from pfl.training.rounds import ClientRound, Member, TrainRequest, model_state

SHARED, SENT, TOLD, METRICS = "shared", "sent", "told", "metrics"
PRIVATE, MEMORY = "private", "memory"
CLASS_COUNT = "class-count"


def greet(site: Site, content: RecordDict, *_: RecordDict) -> RecordDict:
    """Number, kind of images, and sums over the pixels that are trained with.

    Class counts, by the numbers of this site's classes, if the method asks for them.
    """
    method = _trained(content)
    known = _data(site, method)
    data = known.clients[site.client]  # not yet normalized as all others'
    own = replace(known, clients={site.client: data})  # a simulation's folder has all clients
    sums = pixel_sums(data.samples())
    facts = {
        "train": len(data),
        "channels": data.stored.shape[3],
        "pixels": [sums.count, sums.first.tolist(), sums.second.tolist()],
        CLASS_COUNT: own.class_count.tolist() if method.counted else [],
    }
    recipe = {"side": data.stored.shape[1]}
    return hello_record(Hello(site.client, recipe, site.index.classes, facts))


def play_part(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """Train in one round; ``state`` is what this client keeps, and is brought up to date."""
    torch.set_num_threads(1)  # as the pipeline's workers: sums of floats run in the same order
    place = _place(site, content, state)
    update = TrainRequest(place).perform(_problem(site, content))
    _store(state, place.member.last, update.member)
    return RecordDict(
        {SENT: tensor_record(update.upload), METRICS: MetricRecord(dict(update.terms))}
    )


def score_own(site: Site, content: RecordDict, state: RecordDict) -> RecordDict:
    """The tests on the client's own samples, as sums; after the last round its model is kept."""
    torch.set_num_threads(1)
    problem, place = _problem(site, content), _place(site, content, state)
    tested = OwnTestRequest(place).perform(problem)
    if site.out is not None and place.round == problem.training.rounds:
        weights = model_state(model_in_use(problem, place))
        with replacing(site.out / "model.safetensors") as part:
            save_file({name: value.contiguous() for name, value in weights.items()}, part)
    metrics: dict[str, Any] = {"own": tested.accuracy, "validation": tested.validation}
    return RecordDict({METRICS: MetricRecord(metrics | sums_of(tested.reliability))})


def _trained(content: RecordDict) -> Trained:
    return from_dict(read_json(content.config_records[TOLD]["trained"]))


def _data(site: Site, trained: Trained) -> FederatedData:
    """This site's samples, as the pipeline gives them to clients."""
    pixels = _pixels(site.folder, trained.image_size, stamp(site.folder, "images.h5"))
    view_of = partial(pixel_view, augment=trained.augment)
    return federate(site.index, site.held, pixels, holdout(trained.training), view_of)


@lru_cache(maxsize=1)
def _pixels(folder: Path, size: int | None, stamped: tuple[int, ...]) -> UInt8[Tensor, "n h w c"]:
    del stamped
    with open_images(folder / "images.h5") as images:
        return load_pixels(images, size)


def _problem(site: Site, content: RecordDict) -> LocalProblem:
    """The pipeline's problem, with this client's samples alone."""
    trained = _trained(content)
    common = read_json(content.config_records[TOLD]["common"])
    data = _data(site, trained)
    mean, std = (torch.tensor(common[name]) for name in ("mean", "std"))
    channels, view = common["channels"], PixelView(mean, std, trained.augment)
    normalized = partial(_normalized, channels=channels, view=view)
    own = {site.client: normalized(data.clients[site.client])}
    side = data.tests.pooled.stored.shape[1]
    network = trained.make_network(channels, side, data.classes)
    known = FederatedData(own, data.tests.each(normalized), data.classes)
    count = np.array(common[CLASS_COUNT], np.int64)
    return local_problem(trained.training, network, trained.make_algorithm, known, count)


def _normalized(data: ClientData, channels: int, view: PixelView) -> ClientData:
    """Images with everybody's number of channels, grey ones colored, as networks see them."""
    pixels = data.stored
    if pixels.shape[3] < channels:
        pixels = pixels.repeat(1, 1, 1, channels)
    return replace(data, stored=pixels, view=view)


def _place(site: Site, content: RecordDict, state: RecordDict) -> ClientRound:
    """The client in this round, with what it kept of the round ``last``."""
    request = content.config_records[TOLD]
    number, last = int(str(request["round"])), int(str(request["last"]))
    kept = _kept(site, state, last) if last else {}
    member = Member(last, _part(kept, PRIVATE), _part(kept, MEMORY))
    return ClientRound(site.client, number, tensors_of(content.array_records[SHARED]), member)


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


def _store(state: RecordDict, last: int, member: Member) -> None:
    """Add this round's generation; of the earlier ones only that of ``last`` can be asked for."""
    for name in list(state.array_records):
        if name != _generation(last):
            del state[name]
    parts = ((PRIVATE, member.private), (MEMORY, member.memory))
    state[_generation(member.last)] = tensor_record(
        {f"{kind}/{name}": value for kind, values in parts for name, value in values.items()}
    )


def _generation(number: int) -> str:
    return f"round-{number}"
