"""Where networks run, and that float32 is float32 there."""

import pytest
import torch

from pfl.data.tensors.client_data import TestData
from pfl.data.tensors.federated_data import FederatedData
from pfl.errors import InputError
from pfl.runtime.devices import chosen_device
from pfl.runtime.values import Device
from pfl.training.methods.fedavg import fedavg
from pfl.training.problem import local_problem
from tests.federations import images, network, training


@pytest.fixture
def gpu(monkeypatch):
    """A GPU for the choice of a device; what is set for it is set back."""
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *a, **k: asked.append((a, k)))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield asked
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_without_a_gpu_it_is_the_cpu(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device(name, "extract.device") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"extract\.device is cuda.*no GPU"):
        chosen_device("cuda", "extract.device")


@pytest.mark.parametrize("section", ["rounds", "head-rounds"])
def test_training_names_the_key_of_its_section(monkeypatch, section):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = training(section=section, device=Device.cuda)
    data = FederatedData({}, TestData((), images(0), (), None), 3)
    with pytest.raises(InputError, match=rf"^{section}\.device is cuda"):
        local_problem(settings, lambda weights: network(), fedavg, data)


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_on_a_gpu_deterministic_algorithms_are_asked_for(gpu, name):
    assert chosen_device(name, "extract.device") == torch.device("cuda")
    assert gpu == [((True,), {"warn_only": True})]


def test_on_a_gpu_float32_is_not_tf32(gpu):
    chosen_device("auto", "rounds.device")
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cudnn.benchmark


def test_the_cpu_is_left_alone_where_it_is_asked_for(gpu):
    assert chosen_device("cpu", "extract.device") == torch.device("cpu")
    assert gpu == []
