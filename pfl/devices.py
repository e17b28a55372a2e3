"""Where networks are trained."""

import os

import torch

from pfl.errors import InputError


def training_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or ``auto``: a GPU if there is one.

    On a GPU, deterministic algorithms are asked for where PyTorch has them; where it has none, a
    warning says so. On a CPU with one thread everything is deterministic anyway.

    Raises:
        InputError: ``cuda`` is asked for but not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "rounds.device is cuda, but PyTorch finds no GPU: set it to auto or cpu, or install "
            "the driver and a PyTorch build for it."
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device("cuda")
