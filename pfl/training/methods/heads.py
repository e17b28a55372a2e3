"""Heads trained by gradients on cached features: the same rounds and methods as for images.

An entry of ``heads`` in ``params.yaml`` says which method trains what: a linear head, or one with a
hidden layer, whose layers a method can then divide.
"""

from dataclasses import replace
from functools import partial

from torch import nn

from pfl.data.tensors.federated_data import FederatedData
from pfl.training.algorithm import Algorithm
from pfl.training.head_settings import HeadSettings
from pfl.training.methods.registry import make_algorithm
from pfl.training.networks import build_head
from pfl.training.problem import LocalProblem, local_problem
from pfl.training.settings import Training


def head_problem(head: HeadSettings, training: Training, data: FederatedData) -> LocalProblem:
    """The head and its method, for these data.

    Raises:
        InputError: the method refuses its settings or the head.
    """

    def algorithm(model: nn.Module) -> Algorithm:
        section = f"heads.{head.name}.settings"
        return replace(make_algorithm(head.method, model, head.settings, section), name=head.name)

    m = data.tests.pooled.stored.shape[1]
    return local_problem(
        training, partial(build_head, m, head.hidden, data.classes), algorithm, data
    )
