"""What is wrong with a command of the documents, as far as the programs' parsers can tell."""

import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path

import typer
import yaml

from pfl.cli.app import app
from tests.docs.parsers import by_argparse, by_click, by_main, stage
from tests.workspace import ROOT, flat

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
KEYS = {key for key, _ in flat(PARAMS)}
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
MATRIX = {"train": "train", "heads": "heads"}  # stage: section with what it is repeated over
ITEM = re.compile(r"(\w+)@(.+)-\d+")
EXTRAS = re.compile(r"(\.|pfl-pipeline)\[(.*)\]")
TARGET = re.compile(r"^([\w-]+):", re.MULTILINE)


def fault(words):
    """What is wrong with a command, or nothing."""
    program = _program(words)
    return PROGRAMS[program](words[1:]) if program in PROGRAMS else f"{program} is not known"


def mention_fault(words):
    """The same of a command that is only named, without what it requires."""
    return fault([*words, "--help"] if words[0] in {"pfl", "dvc", "python"} else words)


def starts(words):
    """Whether this is a command of a program that the documents may name."""
    return bool(words) and _program(words) in PROGRAMS


def _program(words):
    return Path(words[0]).name or words[0]


def key_fault(key):
    """Whether a dotted name is one of params.yaml, or a section of it."""
    there = key in KEYS or any(one.startswith(f"{key}.") for one in KEYS)
    return "" if there else f"params.yaml has no {key}"


def _pfl(words):
    told = by_click(typer.main.get_command(app), [word.strip("[]") for word in words])
    swept = words[1:2] if words[:1] == ["sweep"] else []
    return told or "".join(key_fault(key) for key in swept if not key.startswith("-"))


def _python(words):
    if words[:1] != ["-m"]:
        return "" if words[:1] == ["-c"] else f"python {words[0]} is not known"
    module, words = words[1], words[2:]
    if importlib.util.find_spec(module) is None:
        return f"no module is called {module}"
    folder, _, name = module.partition(".")
    if folder == "stages" and not name.startswith("_"):
        return by_click(stage(name), words)
    if module == "pfl.flower":
        parser = importlib.import_module("pfl.flower.__main__")._parser()
        return by_argparse(parser.parse_args, words)
    if folder in {"experiments", "benchmarks"} and "--help" not in words:
        return by_main(module, words)
    return ""


@cache
def _dvc_parser():
    from dvc.cli.parser import get_main_parser

    return get_main_parser()


def _dvc(words):
    from dvc.cli import DvcParserError

    if words[-1:] == ["--help"]:
        words = words[:-1]
    try:
        known = _dvc_parser().parse_args(words)
    except DvcParserError:
        return f"dvc does not know {' '.join(words)}"
    changes = [one.partition("=")[0] for one in getattr(known, "set_param", ())]
    told = [key_fault(key) for key in changes]
    if known.cmd in {"repro", "run", "status", "commit"}:
        told += [_stage_fault(name) for name in known.targets]
    return "; ".join(filter(None, told))


def _stage_fault(name):
    if item := ITEM.fullmatch(name):
        section = PARAMS[MATRIX[item[1]]] if item[1] in MATRIX else ()
        return "" if item[2] in section else f"dvc.yaml makes no stage {name}"
    return "" if name in STAGES else f"dvc.yaml has no stage {name}"


def _make(words):
    targets = TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    return "".join(f"no target is called {word}" for word in words if word not in targets)


def _pip(words):
    """Files and extras are there; of ``pip install`` itself the flags are not looked at."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        name for word in words for _, names in EXTRAS.findall(word) for name in names.split(",")
    ]
    told = [
        f"no extra is called {one}" for one in extras if one not in project["optional-dependencies"]
    ]
    return "; ".join(told + _missing(word for word in words if word.endswith(".txt")))


def _pytest(words):
    return "; ".join(_missing(words))


def _missing(words):
    return [f"{word} is not there" for word in words if not (ROOT / word).exists()]


def _flwr(words):
    from flwr.cli.app import app as flower

    return by_click(typer.main.get_command(flower), words)


def _superlink(words):
    from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink as parser

    return by_argparse(parser().parse_args, words)


def _supernode(words):
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode as parser

    return by_argparse(parser().parse_args, words)


def _foreign(_words):
    """Of programs of the system only the name is known."""
    return ""


FOREIGN = (
    ".",
    "apt-get",
    "bandit",
    "cp",
    "git",
    "mount",
    "mv",
    "pip-audit",
    "python3",
    "ssh-keygen",
    "xdg-open",
)
PROGRAMS = dict.fromkeys(FOREIGN, _foreign) | {
    "pfl": _pfl,
    "python": _python,
    "dvc": _dvc,
    "make": _make,
    "pip": _pip,
    "pytest": _pytest,
    "flwr": _flwr,
    "flower-superlink": _superlink,
    "flower-supernode": _supernode,
}
