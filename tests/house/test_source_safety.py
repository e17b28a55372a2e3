"""The source itself: nowhere may a file that is read run a program, or leave its folder."""

import ast

import pytest

from tests.workspace import ROOT

FILES = [
    path
    for folder in ("pfl", "stages", "benchmarks", "experiments")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"}
FORBIDDEN = {"eval", "exec", "compile", "__import__", "os.system", "os.popen"}
FORBIDDEN |= {f"yaml.{name}" for name in ("load", "load_all", "full_load", "unsafe_load")}
# What a call must be told.
NEEDED = {
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "read_array": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
    "load_state_dict": ("weights_only", True),  # timm's, from a file
    "extractall": ("filter", "data"),
    "extract": ("filter", "data"),
    "unpack_archive": ("filter", "data"),
}
# What a call may say in no other way than this, if it says it.
ONLY = {"shell": (False,), "trust_remote_code": (False,), "typ": ("safe", "rt")}
UNSAID = object()


def dotted(node):
    """The name of what is called: ``a.b.c``, with ``?`` for what has no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def faults(tree):
    """Yield what is wrong in a syntax tree, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        for name in names:
            if name.split(".")[0] in MODULES:
                yield f"{node.lineno}: imports {name}"
        if isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {fault}" for fault in call_faults(node))


def call_faults(call):
    name = dotted(call.func)
    said = {word.arg: getattr(word.value, "value", word.value) for word in call.keywords}
    for word, values in ONLY.items():
        if said.get(word, values[0]) not in values:
            yield f"{name} with another {word} than {values}"
    if name in FORBIDDEN:
        yield name
    names = {name, name.rpartition(".")[2]}
    method = isinstance(call.func, ast.Attribute) and name.endswith(".load_state_dict")
    for known in names & NEEDED.keys() if not method else ():  # of a network, from tensors
        word, value = NEEDED[known]
        if said.get(word, UNSAID) is not value and said.get(word, UNSAID) != value:
            yield f"{name} without {word}={value}"


def test_no_file_of_the_project_runs_what_it_reads():
    assert len(FILES) > 150
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in FILES
        for fault in faults(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "numpy.lib.format.read_array(stream)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "load_state_dict(path)",
        "yaml.load(text, Loader=yaml.Loader)",
        "YAML(typ='unsafe')",
        "eval(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "subprocess.run(text, shell=flag)",
        "tar.extractall(folder)",
        "archive.extract(name, folder)",
        "shutil.unpack_archive(path)",
    ],
)
def test_the_walk_finds(line):
    assert list(faults(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "np.load(path, allow_pickle=False)",
        "torch.load(path, weights_only=True)",
        "YAML(typ='safe', pure=True)",
        "re.compile(text)",
        "yaml.safe_load(text)",
        "subprocess.run(words)",
        "tar.extractall(folder, filter='data')",
    ],
)
def test_the_walk_lets_pass(line):
    assert not list(faults(ast.parse(line)))
