"""Where networks run, and how exactly: for feature extraction and for training."""

import os

import torch

from pfl.errors import InputError


def chosen_device(name: str, parameter: str) -> torch.device:
    """``cpu``, ``cuda``, or ``auto``: a GPU if there is one; ``parameter`` is the key that asks.

    On a GPU, float32 products are float32 products (not TF32, which keeps 10 of 23 bits), and
    deterministic algorithms are asked for where PyTorch has them; where it has none, a warning
    says so. On a CPU with one thread everything is so anyway.

    Raises:
        InputError: ``cuda`` is asked for but not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"{parameter} is cuda, but PyTorch finds no GPU: set it to auto or cpu, or install "
            "the driver and a PyTorch build for it."
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic with it
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # Its choice of algorithm would depend on the moment.
    return torch.device("cuda")
