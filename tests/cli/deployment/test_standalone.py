import sys
from types import ModuleType

import pytest

from pfl.cli.deployment import standalone as module
from pfl.cli.deployment.standalone import standalone

PARTS = {
    "pfl.low": '"""Low."""\n\nimport math\n\nROOT = math.sqrt(2)  # why\n',
    "pfl.high": '"""High,\n\nin two lines.\n"""\n\nfrom jaxtyping import Float\n\n'
                "from pfl.low import ROOT\n\n\n"
                'def twice(x: Float[int, "n"]) -> float:\n    """2x."""\n    return 2 * ROOT * x\n',
    "pfl.same": '"""Same."""\n\nROOT, OTHER = 1, 2\n',
    "pfl.whole": '"""Whole."""\n\nimport pfl.low\n',
    "pfl.other": '"""Other name."""\n\nfrom pfl.low import ROOT as base\n',
}  # fmt: skip


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.setattr(module, "_source", PARTS.__getitem__)


def test_what_is_imported_comes_first_and_nothing_of_the_project_is(parts, monkeypatch):
    text = standalone("pfl.high", "pfl.low")
    for name in ("pfl", "jaxtyping"):
        monkeypatch.setitem(sys.modules, name, None)
    made = ModuleType("made")
    exec(text, made.__dict__)
    assert made.twice(3) == pytest.approx(6 * 2**0.5)
    assert text.count("ROOT = ") == 1
    assert "# High,\n#\n# in two lines." in text
    assert "# why" in text


def test_one_name_for_two_things_is_refused(parts):
    with pytest.raises(ValueError, match="both define ROOT"):
        standalone("pfl.high", "pfl.same")


@pytest.mark.parametrize("name", ["pfl.whole", "pfl.other"])
def test_a_module_that_is_called_otherwise_is_refused(parts, name):
    with pytest.raises(ValueError, match="as a whole"):
        standalone(name)
