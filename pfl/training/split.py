"""Which part of a model's state is private: the one mechanism behind every personalized method.

A split is a mask of booleans for every entry of a model's state, parameters and buffers alike. True
marks what a client keeps; everything else is shared, sent to the server and averaged. FedAvg has
nothing private and local training everything; FedPer [arXiv 1912.00818] and LG-Fed [arXiv
2001.01523] choose whole layers, CD2-pFed [arXiv 2204.03880, Section 3.1] channels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

State = Mapping[str, Shaped[Tensor, "..."]]
Split = Mapping[str, Bool[Tensor, "..."]]
Packed = Mapping[str, Shaped[Tensor, " _"]]


def private_where(state: State, private: Callable[[str], bool]) -> Split:
    """Whole entries: those whose name is ``private`` are kept, all others shared."""
    return {
        name: torch.full(value.shape, private(name), dtype=torch.bool)
        for name, value in state.items()
    }


def nothing_private(state: State) -> Split:
    """Everything is shared, as in FedAvg."""
    return private_where(state, lambda name: False)


def all_private(state: State) -> Split:
    """Nothing is shared, as in local training."""
    return private_where(state, lambda name: True)


def check_split(state: State, split: Split) -> None:
    """Refuse a split that is not one mask, of the same shape, for each entry of the state.

    Raises:
        ValueError: an entry is missing, unknown or of another shape: the method's own mistake.
    """
    if state.keys() != split.keys():
        raise ValueError(f"The split's entries differ: {sorted(state.keys() ^ split.keys())}.")
    for name, value in state.items():
        if split[name].shape != value.shape:
            raise ValueError(f"The split of '{name}' is {split[name].shape}, not {value.shape}.")


def upload(state: State, split: Split) -> Packed:
    """What a client sends: the shared elements of each entry, in row-major order.

    Entries without a shared element are not in it at all; nothing private ever is.
    """
    return _packed(state, split, shared=True)


def keep(state: State, split: Split) -> Packed:
    """What a client keeps: the private elements, packed as :func:`upload` packs the others."""
    return _packed(state, split, shared=False)


def _packed(state: State, split: Split, shared: bool) -> Packed:
    masks = {name: mask.logical_not() if shared else mask for name, mask in split.items()}
    return {name: state[name][mask].clone() for name, mask in masks.items() if mask.any()}


def merge(shared: State, private: Packed, split: Split) -> dict[str, Tensor]:
    """The state whose private elements are ``private`` and all others those of ``shared``.

    Inverse of taking apart: ``merge(state, keep(state, split), split) == state``. The result shares
    no memory with the arguments.
    """
    state = {name: value.clone() for name, value in shared.items()}
    for name, values in private.items():
        state[name][split[name]] = values
    return state


def average(
    shared: State, uploads: Iterable[Packed], weights: Sequence[float], split: Split
) -> dict[str, Tensor]:
    """FedAvg over what was sent: w_0 = Σ a_i w_{0,i} with a_i = weight_i / Σ weights.

    Private elements, which nobody sent, keep the server's previous value. The sum runs in the order
    given, one upload in memory at a time, in float64, and is rounded once: equal uploads give
    themselves back, bit for bit. Integer entries (batch counts of normalization layers) get the
    mean rounded to the nearest integer.
    """
    total = sum(weights)
    sums = {
        name: torch.zeros(int((~mask).sum()), dtype=torch.float64)
        for name, mask in split.items()
        if not mask.all()
    }
    for sent, weight in zip(uploads, weights, strict=True):
        for name, values in sums.items():
            values.add_(sent[name].double(), alpha=weight / total)
    state = {name: value.clone() for name, value in shared.items()}
    for name, values in sums.items():
        rounded = values if state[name].is_floating_point() else values.round()
        state[name][~split[name]] = rounded.to(state[name].dtype)
    return state


def packed_bytes(packed: Packed) -> int:
    """Size of an upload: its elements alone, since both sides know the split."""
    return sum(values.numel() * values.element_size() for values in packed.values())
