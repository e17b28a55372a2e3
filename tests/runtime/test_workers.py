"""Workers inherit their context, answer in order, pass on errors, and end with their parent."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from pfl.errors import InputError
from pfl.runtime.workers import workers
from tests.workspace import ROOT


def scale(context, job):
    time.sleep(0.02 * (job % 2))
    return context["factor"] * job, torch.get_num_threads()


def refuse(context, job):
    raise InputError(f"Job {job} is refused.")


def end(context, code):
    os._exit(code) if code > 0 else os.kill(os.getpid(), -code)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_answers_come_in_the_order_of_the_jobs(count):
    context = {"factor": 3, "never pickled": lambda: None}
    with workers(context, count) as run:
        for _ in range(2):
            assert list(run(scale, [5, 2, 7, 4])) == [(15, 1), (6, 1), (21, 1), (12, 1)]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_a_job_is_raised_here(count):
    with pytest.raises(InputError, match="Job 4 is refused"), workers(None, count) as run:
        list(run(refuse, [4, 5]))


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
        list(run(end, [code]))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children")
def test_workers_end_with_their_parent():
    code = (
        "import os, time\n"
        "from pfl.runtime.workers import workers\n"
        "def job(context, seconds):\n"
        "    os.write(1, b'%d\\n' % os.getpid()); time.sleep(seconds)\n"
        "with workers(None, 2) as run:\n"
        "    list(run(job, [60, 60]))\n"
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
