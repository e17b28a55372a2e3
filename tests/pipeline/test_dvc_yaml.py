"""The pipeline's description says what the code does: inputs, imports, flags and parameters."""

import ast
import importlib
import inspect
import re
import subprocess
from typing import get_type_hints

import pytest
import yaml

from stages._run import LARGEST_SEED, NO_PARAMETERS
from tests.house.closure import closure, imports
from tests.workspace import ROOT, flat

STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
CODE = ("pfl/", "stages/")
# `train` has a section for all methods, and one for each method, which it is given by name; so has
# `heads`. `report` is given the sections that it shows.
SHOWN = [
    *("prepare", "partition", "extract", "features"),
    *("aggregate", "personalize", "compare", "rounds", "head-rounds"),
]
OWN_SECTION = {
    "train": ["train.${item.method}"],
    "heads": ["heads.${item.head}"],
    "report": SHOWN,
}
# What reads features has the section that says how, after its own.
SECTIONS = {
    "train": ["rounds"],
    "heads": ["head-rounds", "features"],
    "gram": ["features"],
    "leakage": ["features"],
    "personalize": ["personalize", "features"],
    "evaluate": ["features"],
    "report": [],
}
# Flags of stages that docs/flower.md and docs/scale.md run by hand: what is off, of other data
# sets, or automatic where nobody says otherwise.
LEFT_OUT = {
    "prepare": (
        *("download", "differ", "strength", "sites"),
        *("users", "test-images", "missing-images"),
    ),
    "extract": ("feature-range", "precision", "device"),
}
SECTION = re.compile(r"\$\{[a-z-]+\}")  # in a command: all flags of a section
READER = "stages/_section.py"  # the one file that reads such a section
PARSERS = ("yaml", "ruamel", "dvc")
stages = pytest.mark.parametrize("stage", STAGES)


def words(stage):
    return STAGES[stage]["cmd"].split()


def paths_in_command(stage):
    return [word for word in words(stage) if "/" in word]


def code_deps(stage):
    return [path for path in STAGES[stage]["deps"] if path.startswith(CODE)]


def covers(dependency, path):
    return path == dependency or path.startswith(f"{dependency}/")


@stages
def test_what_a_stage_imports_lies_under_its_code_dependencies(stage):
    """Otherwise a change of it would leave the stage's results stale."""
    deps = code_deps(stage)
    assert {p for p in closure(stage) if not any(covers(d, p) for d in deps)} == set()


@stages
def test_every_code_dependency_holds_an_imported_module(stage):
    """Otherwise a change of it would run the stage again for nothing."""
    files = closure(stage)
    assert [d for d in code_deps(stage) if not any(covers(d, path) for path in files)] == []


@stages
def test_code_dependencies_fit_in_the_head(stage):
    deps = code_deps(stage)
    assert len(deps) <= 16
    assert [d for d in deps if any(covers(e, d) for e in deps if e != d)] == []


def test_the_pipeline_is_a_page_that_a_person_reads():
    lines = (ROOT / "dvc.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 330
    names = [n for n, line in enumerate(lines) if line[2:-1] in STAGES and line[-1:] == ":"]
    assert len(names) == len(STAGES)
    assert all(lines[n - 1].startswith("  # ") for n in names), (
        "each stage has a line on what it is"
    )


@stages
def test_files_in_the_command_are_dependencies_or_outputs(stage):
    data = [path for path in STAGES[stage]["deps"] if not path.startswith((*CODE, "$"))]
    assert sorted(paths_in_command(stage)) == sorted(data + STAGES[stage]["outs"])


@stages
def test_flags_and_parameters_are_the_same(stage):
    """A parameter nobody reads, or one that nobody declared, could go stale unnoticed."""
    function = getattr(importlib.import_module(f"stages.{stage}"), stage)
    flags = set(flags_of(function))
    from_files = {word[2:] for word in words(stage) if word.startswith("--")}
    sections = SECTIONS.get(stage, [stage])
    keys = [key for section in sections for key, _ in flat(PARAMS[section])]
    assert sorted(flags - from_files - NO_PARAMETERS) == sorted(keys)
    assert STAGES[stage].get("params", []) == [*sections, *OWN_SECTION.get(stage, [])]
    assert [word[2:-1] for word in words(stage) if SECTION.fullmatch(word)] == sections


@stages
def test_a_flag_that_may_be_left_out_has_the_value_of_the_parameters(stage):
    """params.yaml is the one home of defaults: DVC passes on all of them, a person need not."""
    function = getattr(importlib.import_module(f"stages.{stage}"), stage)
    defaults = {
        name.replace("_", "-"): parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    off = {name: PARAMS[stage][name] for name in LEFT_OUT.get(stage, ())}
    assert {name: defaults[name] for name in defaults.keys() - NO_PARAMETERS} == off


def flags_of(function):
    """Names of a stage's flags: those of the parameters, unless an option has its own."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        if name != "return":
            (option,) = hint.__metadata__
            named = isinstance(option.default, str)
            yield option.default.removeprefix("--") if named else name.replace("_", "-")


@stages
def test_seeds_are_what_artifacts_can_hold(stage):
    function = getattr(importlib.import_module(f"stages.{stage}"), stage)
    hints = get_type_hints(function, include_extras=True)
    for name in hints.keys() & {"seed", "seeds"}:
        (option,) = hints[name].__metadata__
        assert (option.min, option.max) == (0, LARGEST_SEED)


def test_every_section_of_the_parameters_belongs_to_a_stage():
    taken = {section for stage in STAGES for section in SECTIONS.get(stage, [stage])}
    # `pretraining` is only the list over which dvc.yaml repeats the stages.
    assert set(PARAMS) <= taken | {"train", "heads", "pretraining"}


@stages
def test_no_stage_opens_the_parameters_file(stage):
    """But for train's own section, which its command names and dvc.yaml declares under params.

    A stage would need the file's name in its code, or something that reads YAML.
    """
    code = [path for path in closure(stage) if path.endswith(".py")]
    opening = {path for path in code if names_parameters(path) or reads_yaml(path)}
    assert opening == ({READER} if stage in OWN_SECTION else set())
    if opening:
        named = [word for word in words(stage) if word.startswith("params.yaml:")]
        assert [word.partition(":")[2] for word in named] == OWN_SECTION[stage]


def names_parameters(path):
    """Whether the file's name is in a string of the code, docstrings aside."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Constant) and "params.y" in str(node.value) and id(node) not in told
        for node in ast.walk(tree)
    )


def reads_yaml(path):
    """Whether a module that reads YAML, or DVC itself, is imported."""
    return any(name.split(".")[0] in PARSERS for name in imports(ROOT / path))


def test_the_dependency_graph_follows_the_trust_boundary():
    """The server reads no features, only it reads uploads, and extract knows no clients.

    The one exception is leakage, which plays the server and has the truth to score itself.
    """
    reads = {stage: set(STAGES[stage]["deps"]) for stage in STAGES}
    assert "data/features.h5" not in reads["aggregate"]
    assert [s for s in STAGES if "data/uploads.h5" in reads[s]] == ["leakage", "aggregate"]
    assert not {"data/clients.h5", "data/index.h5"} & reads["extract"]


def test_outputs_are_ignored_by_git_and_data_readmes_are_not():
    if not (ROOT / ".git").exists():
        pytest.skip("this is an archive without git")
    outs = [out for stage in STAGES.values() for out in stage["outs"]]
    done = subprocess.run(["git", "check-ignore", *outs], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == outs
    readmes = [f"data/{place}/README.md" for place in ("raw", "weights", "begin")]
    done = subprocess.run(["git", "check-ignore", *readmes], cwd=ROOT, capture_output=True)
    assert done.stdout == b""
