"""Try the methods over Flower on one machine: ``python -m pfl.flower {simulate,sites} --help``."""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pfl.errors import InputError
from pfl.flower.local.credentials import make_credentials, make_key_pair
from pfl.flower.local.launch import Link, register, submit, superlink, supernode

log = logging.getLogger("pfl")
FINISHED = "finished:completed"


def main(words: Sequence[str] | None = None) -> None:
    """Run the command; exit code 1 where the run did not end well."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    arguments = _parser().parse_args(words)
    try:
        config = dict(map(_setting, arguments.set))
        with tempfile.TemporaryDirectory() as home:
            status = arguments.run(arguments, Path(home), config)
    except InputError as error:
        raise SystemExit(f"Error: {error}") from error
    if status != FINISHED:
        raise SystemExit(f"The run ended as {status}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pfl.flower", description=__doc__)
    commands = parser.add_subparsers(required=True)
    simulate = commands.add_parser("simulate", help="Virtual clients on the pipeline's data.")
    simulate.add_argument("--clients", type=int, required=True, help="How many: all of clients.h5.")
    simulate.add_argument("--data", type=Path, default=Path("data"), help="The pipeline's data.")
    simulate.set_defaults(run=_simulate)
    sites = commands.add_parser("sites", help="A SuperLink and a SuperNode for each data folder.")
    sites.add_argument("data", type=Path, nargs="+", help="A site's data folder.")
    sites.add_argument("--tls", action="store_true", help="With TLS and authenticated SuperNodes.")
    sites.set_defaults(run=_sites)
    for command in (simulate, sites):
        command.add_argument("--app", type=Path, default=Path("flower"), help="The app's folder.")
        command.add_argument("--out", type=Path, help="Folder for what the clients keep.")
        command.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="Of the run config."
        )
    return parser


def _setting(text: str) -> tuple[str, object]:
    """A name and its value: what JSON knows (a number, true, false), or else text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text} has no value: write NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _simulate(arguments: argparse.Namespace, home: Path, config: dict[str, object]) -> str:
    config |= {"clients": arguments.clients, "data": str(arguments.data.absolute())}
    if arguments.out is not None:
        config["clients-out"] = str(arguments.out.absolute())
    with superlink(home, simulation=True) as link:
        return _submitted(link, arguments.app, config, arguments.clients)


def _sites(arguments: argparse.Namespace, home: Path, config: dict[str, object]) -> str:
    credentials = make_credentials(home / "tls") if arguments.tls else None
    with ExitStack() as stack:
        link = stack.enter_context(superlink(home, credentials))
        for client, data in enumerate(arguments.data):
            key = None
            if arguments.tls:
                key, public = make_key_pair(home / f"client-{client}.key")
                register(link, public)
            out = arguments.out / f"client-{client}" if arguments.out is not None else None
            stack.enter_context(supernode(link, client, data, out, key))
        return _submitted(link, arguments.app, config | {"clients": len(arguments.data)}, None)


def _submitted(link: Link, app: Path, config: dict[str, object], virtual: int | None) -> str:
    status, output = submit(link, app, config, virtual)
    log.info("%s", output)
    return status


if __name__ == "__main__":
    main()
