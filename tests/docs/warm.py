"""Programs that start at once: forks of one process that has imported what they all import.

    with programs(folder) as bin: …  # `python`, `pfl` and `dvc` in the folder `bin`

Documented commands then run as they stand, in a real shell, at the price of what they do alone.
Each program is a small client that hands its words, folder, environment and standard streams to
the process.
"""

import json
import os
import runpy
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib import import_module

from tests.workspace import ROOT

CLIENT = """#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
asked = [{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]
socket.send_fds(server, [json.dumps(asked).encode() + b"\\0"], [0, 1, 2])
raise SystemExit(int(server.recv(16) or 1))
"""
IMPORTED = (
    *("dvc.cli", "dvc.repo", "dvc.commands.repro", "matplotlib.figure", "sklearn.datasets"),
    *("timm", "torchvision.transforms.v2", "torch.export", "onnxscript", "pfl.cli.app"),
)


@contextmanager
def programs(folder):
    """A folder of programs, which are there until the context ends."""
    place, binaries = folder / "socket", folder / "bin"
    binaries.mkdir(parents=True)
    for program in ("python", "pfl", "dvc"):
        client = binaries / program
        client.write_text(CLIENT.format(python=sys.executable, socket=str(place), program=program))
        client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        words = [sys.executable, "-m", "tests.docs.warm", str(listening.fileno())]
        server = subprocess.Popen(words, cwd=ROOT, pass_fds=[listening.fileno()])
        try:
            yield binaries
        finally:
            server.terminate()
            server.wait()


def serve(listening):
    """Answer every program with a fork of this process, on one core.

    With more they would start workers, each of which imports everything again.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    for name in IMPORTED:
        import_module(name)
    while True:
        asking, _ = listening.accept()
        with asking:
            if os.fork() == 0:
                listening.close()
                _answer(asking)
        with suppress(ChildProcessError):  # none is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _answer(asking):
    """Run a program as the one that asked, and tell it the exit code."""
    message, streams, _, _ = socket.recv_fds(asking, 2**20, 3)
    while not message.endswith(b"\0"):
        message += asking.recv(2**20)
    program, words, folder, environment = json.loads(message[:-1])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = _ended(program, words)
    sys.stdout.flush()
    asking.sendall(str(code).encode())
    os._exit(code)


def _ended(program, words):
    """The exit code of a program."""
    try:
        _run(program, words)
    except SystemExit as error:
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _run(program, words):
    sys.argv = [program, *words]
    if program == "pfl":
        import_module("pfl.cli.app").main()
    elif words[0] == "-c":
        exec(words[1], {"__name__": "__main__"})
    else:
        module, sys.argv = ("dvc", sys.argv) if program == "dvc" else (words[1], words[1:])
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
