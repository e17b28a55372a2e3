"""The house: which packages there are, how large they may be, and who may import whom."""

import ast
import re
from graphlib import TopologicalSorter

import pytest

from tests.house.closure import imports, is_empty, modules, source
from tests.workspace import ROOT

# From low to high. A package imports lower ones; packages of one floor do not know each other.
FLOORS = (
    {"errors"},
    {"runtime"},
    {"artifacts", "ridge"},
    {"data", "fedhip"},
    {"backbones", "evaluation", "privacy"},
    {"training", "report"},
    {"cli", "flower"},
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
MOST_ENTRIES, MOST_MODULES = 14, 16
LIBRARY = [(name, path) for name, path in modules() if name != "pfl"]
PACKAGES = sorted({path.parent for _, path in modules()})
packages = pytest.mark.parametrize("package", PACKAGES, ids=lambda p: str(p.relative_to(ROOT)))


def room(name):
    return name.split(".")[1]


def inside(path):
    """Modules of this project that a file imports: itself and packages' docstrings aside."""
    for name in imports(path):
        target = source(name)
        if name.startswith("pfl.") and target not in (None, path) and not is_empty(target):
            yield ".".join(target.relative_to(ROOT).with_suffix("").parts)


def entries(folder):
    return [one for one in folder.iterdir() if one.suffix == ".py" or any(one.glob("*.py"))]


def test_every_package_has_its_floor():
    assert {room(name) for name, _ in LIBRARY} == set(FLOOR)


@pytest.mark.parametrize(("name", "path"), LIBRARY, ids=[name for name, _ in LIBRARY])
def test_imports_lead_down(name, path):
    here = room(name)
    above = [
        target
        for target in inside(path)
        if room(target) != here and FLOOR[room(target)] >= FLOOR[here]
    ]
    assert above == []


@packages
def test_rooms_beside_each_other_do_not_go_in_circles(package):
    """Of packages in one folder, one can be read first, another then, and so on."""
    prefix = ".".join(package.relative_to(ROOT).parts) + "."
    names = {folder.name for folder in entries(package) if folder.is_dir()}
    arrows = {name: set() for name in names}
    for name, path in LIBRARY:
        here = name.removeprefix(prefix).split(".")[0]
        if name.startswith(prefix) and here in names:
            within = (t.removeprefix(prefix) for t in inside(path) if t.startswith(prefix))
            arrows[here] |= {target.split(".")[0] for target in within} & names - {here}
    order = TopologicalSorter(arrows).static_order()  # raises CycleError where there is a circle
    assert set(order) == names


def test_the_house_is_entered_at_a_glance():
    assert len(entries(ROOT / "pfl")) <= MOST_ENTRIES


@packages
def test_no_room_is_a_pile(package):
    assert len(list(package.glob("*.py"))) <= MOST_MODULES + 1  # the docstring is one of them


@packages
def test_a_package_says_what_lives_there_and_holds_nothing_else(package):
    """Code in ``__init__`` would be run by whoever imports a neighbor, and lie in nobody's deps."""
    path = package / "__init__.py"
    assert is_empty(path)
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text
    assert package == ROOT / "pfl" or "mport" in text, "say what it may import"


def test_the_library_knows_neither_its_stages_nor_how_it_is_called():
    """Only applications know typer, DVC, Flower, and the stages, whose flags `pfl check` asks."""
    outside = {"stages": {"cli"}, "typer": {"cli"}, "click": {"cli"}, "dvc": {"cli"}}
    outside |= {name: {"flower"} for name in ("flwr", "ray", "psutil")}
    for name, path in LIBRARY:
        for target in imports(path):
            top = target.split(".")[0]
            assert room(name) in outside.get(top, {room(name)}), f"{name} imports {target}"


def test_the_architecture_page_tells_the_floors():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\d\. (`pfl/.*)$", page, re.MULTILINE)
    assert [set(re.findall(r"`pfl/(\w+)/`", line)) for line in lines] == list(FLOORS[1:])
