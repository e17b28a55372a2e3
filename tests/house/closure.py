"""Which modules of the project each module imports, and each stage needs, read from the source."""

import ast
from functools import cache

from tests.workspace import ROOT

PACKAGES = ("pfl", "stages")


def modules(package="pfl"):
    """Every module below a package: its dotted name and its file."""
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


@cache
def imports(path):
    """Names of modules that a file imports, also inside functions."""
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*parents, module]).rstrip(".")
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def source(name):
    """The file of a project module, or None for anything else."""
    if name.split(".")[0] not in PACKAGES:
        return None
    base = ROOT.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def is_empty(path):
    """Whether a file holds nothing but a docstring: nothing can depend on it."""
    return all(isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)


def closure(stage):
    """All project files with content that `python -m stages.<stage>` may import, and templates."""
    todo, seen = [f"stages.{stage}"], set()
    while todo:
        name = todo.pop()
        parts = name.split(".")
        names = [".".join(parts[: i + 1]) for i in range(len(parts))]
        for path in {source(n) for n in names} - {None} - seen:
            seen.add(path)
            todo.extend(imports(path))
    templates = {file for path in seen for file in (path.parent / "templates").glob("*.*")}
    code = {path for path in seen if not is_empty(path)}
    return {str(path.relative_to(ROOT)) for path in code | templates}
