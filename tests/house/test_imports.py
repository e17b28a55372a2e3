"""Optional packages stay optional: who imports them is in one place."""

from tests.house.closure import imports
from tests.workspace import ROOT


def test_the_adapter_alone_imports_the_engine():
    users = {
        path.relative_to(ROOT).parts[:2]
        for folder in ("pfl", "stages")
        for path in (ROOT / folder).rglob("*.py")
        if any(name.split(".")[0] in ("flwr", "ray", "psutil") for name in imports(path))
    }
    assert users == {("pfl", "flower")}


def test_nothing_else_needs_the_adapter():
    outside = [
        path
        for folder in ("pfl", "stages")
        for path in (ROOT / folder).rglob("*.py")
        if "flower" not in path.parts
        and any(name.startswith("pfl.flower") for name in imports(path))
    ]
    assert outside == []
