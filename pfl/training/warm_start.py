"""Networks that begin with the weights of an earlier run, in the place of random ones.

LG-FedAvg's released code trains its clients from a global model of FedAvg [arXiv 2001.01523]. What
begins so is the network that all clients download before the first round, whatever the method: what
it keeps private starts from there too, and what it remembers (Ditto's personal model) from what is
downloaded.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from pfl.errors import InputError
from pfl.training.checkpoint import load_federation
from pfl.training.problem import MakeNetwork
from pfl.training.rounds import Federation

PARAMETER, SUFFIX = "rounds.begin-from", ".safetensors"


def checkpoint_at(place: Path) -> Path | None:
    """The run's file that ``place`` is, or the only one in the folder that it is; None if empty.

    Raises:
        InputError: there is no such place, or it has several files.
    """
    if place.is_file():
        return place
    if not place.is_dir():
        raise InputError(
            f"{PARAMETER} is {place}, and there is no such file or folder: give the file of an "
            "earlier run, or data/begin for random weights."
        )
    files = sorted(path for path in place.iterdir() if path.suffix == SUFFIX)
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise InputError(f"{place} holds {names}: set {PARAMETER} to one of these files.")
    return files[0] if files else None


def beginning_from(make: MakeNetwork, path: Path | None) -> MakeNetwork:
    """Networks of ``make``, with the weights that a run's file has for all of its clients.

    Raises:
        InputError: when a network is made: the file is broken, of another network, or its clients
            have private weights, so that no weights are everybody's.
    """
    if path is None:
        return make

    def begun(generator: torch.Generator) -> nn.Module:
        network, known = make(generator), _read(path)
        _check(path, network.state_dict(), known)
        network.load_state_dict(dict(known.shared))
        return network

    return begun


def _read(path: Path) -> Federation:
    try:
        return load_federation(path)[0]
    except InputError as error:
        raise InputError(
            f"{PARAMETER} is {path}, which is damaged or no file of a run ({error.__cause__}): "
            f"give runs/<method>/seed-<seed>{SUFFIX} of an earlier one."
        ) from error


def _check(path: Path, own: dict[str, Tensor], known: Federation) -> None:
    if any(member.private for member in known.members):
        raise InputError(
            f"{PARAMETER} is {path}, whose clients have private weights, so that there is no model "
            "of all: give the file of a method that shares everything, such as fedavg."
        )
    for name in sorted(own.keys() | known.shared.keys()):
        mine, its = (tuple(s[name].shape) if name in s else None for s in (own, known.shared))
        if mine != its:
            here, there = ("not there" if shape is None else shape for shape in (mine, its))
            raise InputError(
                f"{PARAMETER} is {path}, a model of another network: its '{name}' is {there}, and "
                f"here it is {here}. Give one of the same rounds.network, image size, channels and "
                "classes."
            )
