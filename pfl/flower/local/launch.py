"""Flower's processes on one machine: started, waited for, and stopped again, whatever happens.

For trying out and for tests. In production each of them is a service of its own at its own place,
started with the same words; see docs/flower.md.
"""

import json
import os
import secrets
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pfl.errors import InputError
from pfl.flower.local.credentials import Credentials

CONNECTION = "local"  # name of the SuperLink in Flower's configuration
START_SECONDS, STOP_SECONDS = 60.0, 5.0
MARK = "PFL_FLOWER_PROCESS"  # in the environment of all that one process starts
ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Link:
    """A SuperLink on this machine, by the port of its API.

    In ``home`` are Flower's configuration, its installed apps, and logs. Without ``credentials``
    there is neither TLS nor authentication of SuperNodes.
    """

    home: Path
    port: int
    credentials: Credentials | None

    @property
    def environment(self) -> dict[str, str]:
        """Of every process: its own home, no telemetry, no look for updates, one thread of BLAS."""
        tools = str(Path(sys.executable).parent)
        return os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",  # seconds; by default 1
            "OMP_NUM_THREADS": "1",
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    @property
    def trust(self) -> list[str]:
        """How a client of the SuperLink knows that it is the right one."""
        if self.credentials is None:
            return ["--insecure"]
        return ["--root-certificates", str(self.credentials.authority)]


@contextmanager
def superlink(
    home: Path, credentials: Credentials | None = None, simulation: bool = False
) -> Iterator[Link]:
    """A SuperLink that answers, on a free port; it installs nothing while it runs."""
    home.mkdir(parents=True, exist_ok=True)
    link = Link(home, free_port(), credentials)
    _configure(link)
    words = ["flower-superlink", "--disable-runtime-dependency-installation"]
    words += ["--host", ADDRESS, "--port", str(link.port)]
    words += ["--insecure"] if credentials is None else credentials.superlink_flags
    words += ["--simulation"] if simulation else []
    with running(link, words, "superlink") as process:
        _wait_until_healthy(link, process)
        yield link


def supernode(
    link: Link, client: int, data: Path, out: Path | None = None, key: Path | None = None
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """A SuperNode with its own data folder; with TLS its private ``key`` says who it is."""
    config = f'client={client} data="{data.absolute()}"'
    config += f' out="{out.absolute()}"' if out is not None else ""
    words = ["flower-supernode", "--superlink", f"{ADDRESS}:{link.port}", *link.trust]
    words += ["--port", str(free_port()), "--node-config", config]
    words += ["--auth-supernode-private-key", str(key)] if key is not None else []
    return running(link, words, f"supernode-{client}")


def register(link: Link, public_key: Path) -> None:
    """Let the SuperNode with this key in."""
    flwr(link, ["supernode", "register", str(public_key), CONNECTION])


def submit(
    link: Link, app: Path, run_config: Mapping[str, object], virtual_clients: int | None = None
) -> tuple[str, str]:
    """Run the app to its end; returns its status (as ``finished:completed``) and its log."""
    config = " ".join(f"{name}={json.dumps(value)}" for name, value in run_config.items())
    words = ["run", str(app), CONNECTION, "--stream", "--run-config", config]
    if virtual_clients is not None:
        size = f"num-supernodes={virtual_clients} client-resources-num-cpus=1"
        words += ["--federation-config", size]
    log = flwr(link, words)
    runs = json.loads(flwr(link, ["list", CONNECTION, "--format", "json"]))["runs"]
    return str(runs[0]["status"]), log


def flwr(link: Link, words: Sequence[str]) -> str:
    """What Flower's command prints.

    Raises:
        InputError: it fails.
    """
    done = subprocess.run(
        ["flwr", *words], env=link.environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(
            f"`flwr {words[0]}` failed: {' '.join((done.stdout + done.stderr).split())} "
            f"Logs are in {link.home}."
        )
    return done.stdout


@contextmanager
def running(link: Link, words: Sequence[str], name: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process and all that it starts, until the block ends; output goes to ``<name>.log``."""
    mark = secrets.token_hex(8)
    with (link.home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=link.environment | {MARK: mark}, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            stop(process, mark)


def stop(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """End a process and all that it has started, also what has outlived it."""
    process.terminate()
    everybody = marked(mark)
    psutil.wait_procs(everybody, STOP_SECONDS)
    for left in {*everybody, *marked(mark)}:
        with suppress(psutil.NoSuchProcess):
            left.kill()
    process.wait()


def marked(mark: str) -> list[psutil.Process]:
    """The processes that have inherited this mark: Flower detaches some from their parents."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if process.environ().get(MARK) == mark:
                processes.append(process)
    return processes


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def _configure(link: Link) -> None:
    """Tell Flower's command where the SuperLink is."""
    trust = "insecure = true"
    if link.credentials is not None:
        trust = f'root-certificates = "{link.credentials.authority}"'
    text = f"""[superlink]
default = "{CONNECTION}"

[superlink.{CONNECTION}]
address = "{ADDRESS}:{link.port}"
{trust}
"""
    (link.home / "config.toml").write_text(text, encoding="utf-8")


def _wait_until_healthy(link: Link, process: "subprocess.Popen[bytes]") -> None:
    context, scheme = None, "http"
    if link.credentials is not None:
        context, scheme = ssl.create_default_context(cafile=link.credentials.authority), "https"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(
                f"{scheme}://{ADDRESS}:{link.port}/health", timeout=1, context=context
            ):
                return
        except OSError:
            time.sleep(0.1)
    raise InputError(f"The SuperLink did not start: its log is {link.home / 'superlink.log'}.")
