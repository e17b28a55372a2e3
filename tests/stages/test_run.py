"""How a stage meets its user: exit codes and sentences, never a traceback for bad input."""

import os
import re
import subprocess
import sys

import pytest

from pfl.runtime.machine import cores
from tests.workspace import ROOT


def run(body, *flags, outputs=()):
    code = (
        "import errno\nfrom typing import Annotated\nimport typer\n"
        "from threadpoolctl import threadpool_info\n"
        "from pfl.errors import InputError\nfrom stages._run import finite, positive, run\n"
        f"{body}\nrun(stage, *{outputs!r})\n"
    )
    command = [sys.executable, "-c", code, *flags]
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOTO_NUM_THREADS")
    bare = {key: value for key, value in os.environ.items() if key not in threads}
    return subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)


def failing(error):
    return run(f"def stage() -> None:\n    raise {error}")


def test_a_sentence_and_exit_code_1_for_bad_input():
    done = failing("InputError('K is 0: set clients to 1 or more.')")
    assert done.returncode == 1
    assert "Error: K is 0: set clients to 1 or more." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ENOSPC", "disk is full"),
        ("EACCES", "make it accessible"),
        ("EROFS", "make it accessible"),
        ("EISDIR", "A folder is where a file is needed"),
        ("ENOTDIR", "A file is where a folder is needed"),
        ("EEXIST", "A file is where a folder is needed"),
        ("ENAMETOOLONG", "choose a shorter"),
    ],
)
def test_troubles_of_the_disk_are_sentences_that_name_the_file(code, words):
    done = failing(f"OSError(errno.{code}, 'x', 'data/heads.h5')")
    assert done.returncode == 1
    assert "data/heads.h5" in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "place"),
    [
        ("OSError(errno.ENOSPC, 'x')", "A file: The disk is full"),
        ("OSError(errno.EISDIR, 'x', 'a.part', None, 'a')", "Error: a: A folder"),
    ],
)
def test_troubles_without_a_name_or_with_two_are_told(error, place):
    done = failing(error)
    assert done.returncode == 1
    assert place in done.stderr
    assert "None" not in done.stderr


@pytest.mark.parametrize("error", ["ZeroDivisionError('mine')", "OSError(errno.EBADF, 'mine')"])
def test_a_fault_of_the_program_shows_where_it_is(error):
    done = failing(error)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


NUMBERS = (
    "def stage(\n"
    "    alpha: Annotated[float, typer.Option(callback=finite)] = 1.0,\n"
    "    beta: Annotated[float, typer.Option(callback=positive)] = 1.0,\n"
    ") -> None:\n    print(alpha, beta)"
)


def test_flags_reach_the_stage():
    done = run(NUMBERS, "--alpha", "0", "--beta", "1e-9")
    assert done.returncode == 0
    assert done.stdout == "0.0 1e-09\n"


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--alpha", "nan"), "finite"),
        (("--alpha", "inf"), "finite"),
        (("--beta", "0"), "above 0"),
        (("--beta", "-1"), "above 0"),
        (("--alpha", "many"), "--alpha"),
        (("--gamma", "1"), "--gamma"),
    ],
)
def test_a_wrong_flag_is_named_with_exit_code_2(flags, word):
    done = run(NUMBERS, *flags)
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_blas_has_one_thread_inside_a_stage_whatever_the_environment():
    body = (
        "import numpy\ndef stage() -> None:\n"
        "    print({i['num_threads'] for i in threadpool_info() if i['user_api'] == 'blas'})"
    )
    assert run(body).stdout == "{1}\n"
    if cores() > 1:
        outside = "import numpy\nprint({i['num_threads'] for i in threadpool_info()})\n"
        assert run(f"{outside}def stage() -> None:\n    pass").stdout != "{1}\n"


WRITING = (
    "from pathlib import Path\n"
    "def stage(out: Path, report: Path) -> None:\n"
    "    out.write_bytes(bytes(2048))\n    report.mkdir()\n"
    "    (report / 'a').touch()\n    (report / 'b').touch()"
)


def test_a_stage_tells_at_its_end_what_it_wrote_and_how_long_it_took(tmp_path):
    out, report = tmp_path / "x.h5", tmp_path / "report"
    done = run(WRITING, str(out), str(report), outputs=("out", "report"))
    line = rf"Wrote {out} \(2 KiB\) and {report} \(2 files\) in \d+\.\d s\.\n"
    assert re.fullmatch(line, done.stderr)


def test_quiet_leaves_warnings():
    body = (
        "import logging\ndef stage() -> None:\n"
        "    logging.getLogger('pfl').info('told')\n    logging.getLogger('pfl').warning('warned')"
    )
    assert run(body, "--quiet").stderr == "warned\n"
    assert run(body).stderr.startswith("told\nwarned\nDone in")
