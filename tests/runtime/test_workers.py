"""Workers inherit their context, answer in order, pass on errors, and end with their parent."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from pfl.errors import InputError
from pfl.runtime.workers import workers
from tests.workspace import ROOT


@dataclass(frozen=True)
class Scale:
    number: int

    def perform(self, context):
        time.sleep(0.02 * (self.number % 2))
        return context["factor"] * self.number, torch.get_num_threads()


@dataclass(frozen=True)
class Refuse:
    number: int

    def perform(self, context):
        raise InputError(f"Request {self.number} is refused.")


@dataclass(frozen=True)
class End:
    code: int

    def perform(self, context):
        os._exit(self.code) if self.code > 0 else os.kill(os.getpid(), -self.code)


@dataclass(frozen=True)
class Double:
    values: torch.Tensor

    def perform(self, context):
        return {"double": 2 * self.values, "same": self.values}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_replies_come_in_the_order_of_the_requests(count):
    context = {"factor": 3, "never pickled": lambda: None}
    with workers(context, count) as run:
        for _ in range(2):
            replies = list(run([Scale(number) for number in (5, 2, 7, 4)]))
            assert replies == [(15, 1), (6, 1), (21, 1), (12, 1)]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_a_request_is_raised_here(count):
    with pytest.raises(InputError, match="Request 4 is refused"), workers(None, count) as run:
        list(run([Refuse(4), Refuse(5)]))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGKILL, "was killed .SIGKILL., most likely because memory ran out"),
        (
            -signal.SIGSEGV,
            rf"crashed .* .SIGSEGV., most likely torch {re.escape(torch.__version__)}:",
        ),
        (-signal.SIGABRT, "crashed inside a library .SIGABRT."),
        (-signal.SIGTERM, "ended early .SIGTERM."),
        (9, "ended early .exit code 9."),
    ],
)
def test_how_a_worker_ended_is_told(code, words):
    with pytest.raises(InputError, match=words), workers(None, 2) as run:
        list(run([End(code)]))


TENSORS = {
    "float32": torch.rand(2, 3, generator=torch.Generator().manual_seed(0)),
    "integer": torch.tensor(7),
    "mask": torch.tensor([True, False]),
    "nothing": torch.zeros(0),
    "channels last": torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "with gradient": torch.ones(3, requires_grad=True),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_cross_the_pipe_bit_for_bit(name):
    """And each is the receiver's own: it may write to it."""
    with workers(None, 2) as run:
        (reply,) = run([Double(TENSORS[name])])
    assert torch.equal(reply["same"], TENSORS[name]) and reply["same"].dtype == TENSORS[name].dtype
    assert torch.equal(reply["double"], 2 * TENSORS[name])
    reply["same"].zero_()


def test_in_a_single_process_nothing_is_serialized(monkeypatch):
    def never(*arguments):
        raise AssertionError("something is pickled")

    monkeypatch.setattr(torch.Tensor, "__reduce_ex__", never)
    values = torch.arange(3)
    with workers(None, 1) as run:
        (reply,) = run([Double(values)])
    assert reply["same"] is values


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children")
def test_workers_end_with_their_parent():
    code = (
        "import os, time\n"
        "from pfl.runtime.workers import workers\n"
        "class Sleep:\n"
        "    def perform(self, context):\n"
        "        os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)\n"
        "with workers(None, 2) as run:\n"
        "    list(run([Sleep(), Sleep()]))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    children = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
