"""Modules of this project as one source file that imports none of it.

What an exported model's pixels are made with must be the pipeline's own code, so it is shipped as
it is when exporting: the modules asked for and those that they import, one after another. Comments
stay, docstrings of modules become some, and annotations, which name types of a package that is left
out, are not evaluated.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module

from pfl.cli.deployment.model import Model

PROJECT, TYPES = "pfl", "jaxtyping"
DECODING, TRANSFORM = "pfl.data.images.decoding", "pfl.backbones.models.transform"
HEADER = '''"""From an image file to the pixels that the model takes: `preprocess("photo.jpg")`.

Needs Pillow, NumPy, PyTorch and torchvision. This is the source by which the features were made
that the head was fitted to. Written by `pfl export`; license: Apache-2.0.
"""
'''
USE = '''
# How this model wants its images.
TRANSFORM = {transform!r}


def preprocess(path: str) -> Tensor:
    """(1, 3, {size}, {size}) pixels, uint8, of an image file."""
    with open(path, "rb") as file:
        image = decode(file.read(), str(path))
    return TRANSFORM.pixels([image]).contiguous()
'''


def preprocessing(model: Model) -> str:
    """The module ``preprocess.py`` of an exported model."""
    transform = model.backbone.transform
    use = USE.format(transform=transform, size=transform.size)
    return f"{HEADER}{standalone(DECODING, TRANSFORM)}\n{use}"


def standalone(*names: str) -> str:
    """The source of modules and all that they need of this project, without their docstrings.

    Raises:
        ValueError: two of them give a name to different things, or one imports modules of this
            project in a way that leaves no name to find.
    """
    order: list[str] = []
    for name in names:
        _visit(name, order)
    trees = {name: ast.parse(_source(name)) for name in order}
    imports = {
        ast.unparse(node): node
        for tree in trees.values()
        for node in _imports(tree)
        if _origin(node) not in (PROJECT, TYPES)
    }
    defined = [name for tree in trees.values() for name in _defined(tree)]
    twice = sorted({name for name in defined if defined.count(name) > 1})
    if twice:
        raise ValueError(f"Modules that are shipped together both define {', '.join(twice)}.")
    parts = [_body(name, tree) for name, tree in trees.items()]
    first = ["from __future__ import annotations", "", *sorted(imports)]
    return "\n".join(["", *first, "", ""]) + "\n\n\n".join(parts) + "\n"


def _visit(name: str, order: list[str]) -> None:
    """Add a module after those of this project that it imports."""
    if name in order:
        return
    for node in _imports(ast.parse(_source(name))):
        if _origin(node) == PROJECT:
            if isinstance(node, ast.Import) or any(alias.asname for alias in node.names):
                raise ValueError(f"{name} imports modules of this project as a whole.")
            _visit(str(node.module), order)
    order.append(name)


def _source(name: str) -> str:
    return inspect.getsource(import_module(name))


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))


def _origin(node: ast.Import | ast.ImportFrom) -> str:
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    return str(name).partition(".")[0]


def _defined(tree: ast.Module) -> Iterator[str]:
    """Names that a module's own lines define at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (found for target in targets for found in ast.walk(target))
            yield from (found.id for found in names if isinstance(found, ast.Name))


def _body(name: str, tree: ast.Module) -> str:
    """A module without its imports, its docstring as a comment above."""
    lines = _source(name).splitlines()
    gone = [*_imports(tree), tree.body[0]]
    for node in sorted(gone, key=lambda node: -node.lineno):
        del lines[node.lineno - 1 : node.end_lineno]
    text = ast.get_docstring(tree) or ""
    comment = [f"# {line}".rstrip() for line in text.splitlines()]
    return "\n".join([*comment, "", *"\n".join(lines).strip("\n").splitlines()])
