"""Flags that more than one stage has."""

from enum import StrEnum


class Precision(StrEnum):
    """Type of the matrix products inside a network."""

    fp32 = "fp32"
    bf16 = "bf16"


class Device(StrEnum):
    """Where networks run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
