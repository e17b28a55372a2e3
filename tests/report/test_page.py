"""The report: valid, self-contained, readable without eyes, and with the numbers of its sources."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pfl.errors import InputError
from pfl.evaluation.reliability.bins import Bins
from pfl.evaluation.reliability.figure import draw_reliability
from pfl.evaluation.reliability.sums import reliability
from pfl.report.clients import against, clients_table, read_clients_csv
from pfl.report.comparison_table import comparison_table
from pfl.report.content import Sources, page
from pfl.report.figure import load_figure
from pfl.report.leakage import ATTACKS
from pfl.report.page import render
from tests.evaluation.reliability.test_sums import drawn
from tests.evaluation.test_figures import draw_all

HEADS = {
    "local": 0.5,
    "global": 0.6,
    "global-prior": 0.65,
    "equation-14": 0.55,
    "personalized": 0.7,
}
VOID = {"meta", "link", "img", "br"}
SHAPES = re.compile(r"(?:https?:)?//|@import|url\((?!#)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--v=0",
)  # fmt: skip


def entry(mean, std=None):
    return {"mean": mean, "std": std}


COMPARISON = {
    "fedavg": {"seeds": 3, "local-test": entry(0.7, 0.01), "global-test": entry(0.912, 0.02),
               "upload-bytes": entry(2.0**21, 0.0)},
    "local": {"seeds": 3, "local-test": entry(0.98456, 0.01), "global-test": entry(0.3, 0.0),
              "upload-bytes": entry(0.0, 0.0)},
    "fedhip:personalized": {"seeds": 1, "local-test": entry(0.98461), "global-test": entry(None),
                            "upload-bytes": entry(None)},
}  # fmt: skip
CLIENTS = """client,train,test,classes,stack-lda,stack-anchored,prior,local-beta,alpha,\
local-test:local,local-test:global,local-test:global-prior,local-test:equation-14,\
local-test:personalized
0,10,4,2,0.250000,0.750000,0.908000,1.000000,3.000000,0.5,0.75,0.75,0.5,1.0
1,1200,4,3,0.000000,1.100000,0.000000,1.000000,3.000000,0.75,0.5,0.75,0.5,0.75
2,30,0,1,0.900000,0.000000,1.000000,2.000000,3.000000,,,,,
3,5,2,1,,,,,,,,,,
"""


@pytest.fixture
def sources(tmp_path):
    """What the stages before the report leave, made by hand; figures are real."""
    for name in ("partition", "fedhip", "comparison", "leakage"):
        (tmp_path / name).mkdir()
    draw_all(tmp_path / "fedhip", 5)
    shutil.copy(tmp_path / "fedhip" / "counts.svg", tmp_path / "partition")
    for name in ("comparison", "rounds"):
        shutil.copy(tmp_path / "fedhip" / "gain.svg", tmp_path / "comparison" / f"{name}.svg")
    shutil.copy(tmp_path / "fedhip" / "gain.svg", tmp_path / "leakage" / "leakage.svg")
    attacks = {name: {"clients": 2, "samples": 10_000 + i} for i, name in enumerate(ATTACKS)}
    told = {"clients": 3, "samples": 20_000, **attacks}
    (tmp_path / "leakage" / "metrics.json").write_text(json.dumps(told))
    heads = {f"fedhip:{name}": {"local-test": {"mean": value}} for name, value in HEADS.items()}
    (tmp_path / "fedhip" / "metrics.json").write_text(json.dumps(heads))
    (tmp_path / "fedhip" / "per_client.csv").write_text(CLIENTS)
    (tmp_path / "comparison" / "comparison.json").write_text(json.dumps(COMPARISON))
    facts = {
        "index": {"sha256": "a" * 64, "dataset": "<digits> & co", "version-numpy": "2.0"},
        "clients": {"sha256": "b" * 64, "scheme": "iid", "clients": 3, "seed": 7},
        "features": {"sha256": "c" * 64, "images-sha256": "d" * 64, "weights-sha256": "e" * 64,
                     "version-torch": "2.9"},
    }  # fmt: skip
    places = (tmp_path / name for name in ("partition", "fedhip", "comparison", "leakage"))
    return Sources(*places, facts, "partition:\n  seed: 7\n")


@pytest.fixture
def believed(sources):
    """The same where two of the methods tell probabilities."""
    told = {"fedavg": (0.7, 0.05), "local": (0.9, 0.02)}
    unknown = {"local-test:nll": entry(None), "local-test:ece": entry(None)}
    rows = {method: row | unknown for method, row in COMPARISON.items()}
    for method, (nll, ece) in told.items():
        rows[method] |= {"local-test:nll": entry(nll), "local-test:ece": entry(ece, 0.001)}
    (sources.comparison / "comparison.json").write_text(json.dumps(rows))
    bins = {name: Bins.of(reliability(*drawn(i), 4)) for i, name in enumerate(told)}
    draw_reliability(sources.comparison / "reliability.png", bins)
    return sources


class Document(HTMLParser):
    """Checks nesting while it reads, and keeps what tests ask for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words, self.best = [], [], [], [], []
        self.unlabeled, self.unnamed = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "img" and not found.get("alt"):
            self.unlabeled.append(tag)
        if tag == "svg":
            assert found["role"] == "img"
            self.unnamed.append(found["aria-labelledby"])
        if tag == "td" and found.get("class") == "best":
            self.best.append("")
        if tag not in VOID:
            self.open.append((tag, found))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, found = self.open[-1] if self.open else ("", {})
        if tag == "td" and found.get("class") == "best":
            self.best[-1] += data
        if tag == "title" and found.get("id") in self.unnamed and data.strip():
            self.unnamed.remove(found["id"])
        self.words.append(data)


def test_probabilities_have_columns_and_a_figure_where_methods_tell_them(believed):
    text = render(page(believed, "made by hand"))
    document = Document(text)
    assert "probabilities" in document.ids
    assert document.unnamed == []
    assert "fedavg 5.0 ± 0.1 %; local 2.0 ± 0.1 %; FedHiP, personalized Pₖ – %" not in text
    assert "fedavg 5.0 ± 0.1 %; local 2.0 ± 0.1 %." in text
    assert "0.700" in document.best
    assert "2.0 ± 0.1" in document.best


def test_without_probabilities_the_page_has_no_section_of_them(sources):
    assert "probabilities" not in Document(render(page(sources, ""))).ids


def test_the_page_is_valid_and_needs_nothing_but_itself(sources):
    text = render(page(sources, "footer"))
    document = Document(text)
    assert len(document.ids) == len(set(document.ids))
    assert {link[1:] for link in document.links} <= set(document.ids)
    assert all(link.startswith("#") for link in document.links)
    assert not SHAPES.search(re.sub(r"data:image/png;base64,[^\"]*", "", text))
    assert "<script" not in text
    for use in re.findall(r'(?:href="#|url\(#)([^")]+)', text):
        assert use in document.ids


def test_every_figure_is_told_in_words(sources):
    document = Document(render(page(sources, "footer")))
    assert (document.unlabeled, document.unnamed) == ([], [])


def test_names_are_text_and_not_markup(sources):
    text = render(page(sources, "<b>"))
    assert "&lt;digits&gt; &amp; co" in text
    assert "<digits>" not in text
    assert "<b>" not in text


def test_the_same_sources_give_the_same_bytes(sources):
    assert render(page(sources, "footer")) == render(page(sources, "footer"))


def test_the_numbers_are_those_of_the_sources(sources):
    words = " ".join("".join(Document(render(page(sources, "footer"))).words).split())
    for number in ("50.0%", "60.0%", "70.0%", "70.0 ± 1.0", "91.2 ± 2.0", "2.0 ± 0.0"):
        assert number in words
    assert "1,245 training and 10 test samples" in words
    assert "scheme iid (seed 7)" in words
    assert "5 to 1,200 training samples of 1 to 3 classes" in words
    assert "c" * 64 in words
    assert "partition: seed: 7" in words


def test_the_best_of_each_test_is_marked_and_ties_are_ties(sources):
    document = Document(render(page(sources, "footer")))
    assert document.best == ["91.2 ± 2.0", "98.5 ± 1.0", "98.5"]


def with_differences(bold):
    """The comparison where ``bold`` are the methods that cannot be told apart from the best."""
    made = {}
    for number, (name, row) in enumerate(COMPARISON.items()):
        mean = row["local-test"]["mean"]
        ends = {"low": mean - 0.1, "high": min(1.0, mean + 0.1)}
        local = row["local-test"] | ends | {"bold": name in bold}
        worst = {"mean": 0.5, "std": None, "low": 0.25, "high": 0.75}
        made[name] = row | {"local-test": local, "local-test:worst-decile": worst}
        made[name]["difference"] = {
            "mean": -0.0312, "low": -0.0627, "high": 0.0004, "p": 0.02, "holm": 0.0001 + number,
            "gain": 1, "lose": 7, "same": 2, "least": -0.5, "most": 0.1,
        }  # fmt: skip
    made["fedhip:personalized"]["difference"] = None
    return made


def test_in_bold_is_what_the_intervals_do_not_tell_apart():
    table = comparison_table(Path("x"), with_differences({"local", "fedavg"}))
    place = table.columns.index("local test")
    assert [row[place].best for row in table.rows] == [True, True, False]


def test_differences_are_told_with_their_intervals(sources):
    rows = with_differences({"local"})
    (sources.comparison / "comparison.json").write_text(json.dumps(rows))
    shutil.copy(sources.comparison / "rounds.svg", sources.comparison / "ranks.svg")
    words = Document(render(page(sources, "footer"))).words
    for cell in ("70.0 [60.0, 80.0]", "50.0 [25.0, 75.0]", "-3.1 [-6.3, 0.0]", "< 0.001", "50.0"):
        assert cell in words
    text = " ".join(words)
    assert "against FedHiP, personalized, client by client" in text
    assert "Mean ranks in the local test" in text


@pytest.mark.parametrize("baselines", [0, 2])
def test_a_comparison_has_one_baseline(sources, baselines):
    rows = with_differences({"local"})
    rows["fedhip:personalized"]["difference"] = rows["local"]["difference"]
    for name in list(rows)[:baselines]:
        rows[name]["difference"] = None
    (sources.comparison / "comparison.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match=rf"{baselines} methods have no difference"):
        page(sources, "footer")


def test_measures_that_nobody_has_are_no_columns():
    table = comparison_table(Path("x"), {"a": {"seeds": 1, "local-test": entry(0.5)}})
    assert table.columns == ["method", "seeds", "local test"]


def test_gains_are_counted_over_clients_with_test_samples(sources):
    rows = read_clients_csv(sources.fedhip / "per_client.csv")
    assert "better for 1, equal for 1 and worse for 0 of 2" in against(rows, "local")
    assert "better for 2, equal for 0 and worse for 0 of 2" in against(rows, "global")
    cells = [[cell.text for cell in row] for row in clients_table(rows).rows]
    made = ["anchored 0.75, lda 0.25", "anchored", "lda", "left"]
    assert [row[4] for row in cells] == made
    assert [row[5] for row in cells] == ["0.91", "0.00", "1.00", "–"]
    assert [row[-1] for row in cells] == ["+25.0", "0.0", "–", "–"]


def test_each_attack_on_uploads_is_told(sources):
    text = render(page(sources, "footer"))
    for number in ("10,000", "10,004", "3 uploads, 20,000"):
        assert number in text


@pytest.mark.parametrize("name", ["fedhip/per_client.csv", "comparison/rounds.svg"])
def test_what_is_missing_is_named(sources, tmp_path, name):
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"{Path(name).name} is missing"):
        page(sources, "footer")


def test_a_table_of_clients_of_another_form_is_named(sources):
    path = sources.fedhip / "per_client.csv"
    path.write_text("client,train\n0,many\n")
    with pytest.raises(InputError, match=r"per_client\.csv is of another form"):
        read_clients_csv(path)


def test_a_figure_is_as_wide_as_it_was_drawn_at_most(sources):
    markup = str(load_figure(sources.fedhip / "gain.svg", "what & how", "caption").markup)
    assert re.match(r'<svg [^>]*style="max-width: \d+(\.\d+)?pt"', markup)
    assert "what &amp; how</title>" in markup


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_it_without_complaint(sources, tmp_path):
    """Nothing is written to the console, and on a phone the page is not wider than the screen."""
    probe = (
        "<script>addEventListener('load', () => {const e = document.documentElement;"
        "document.title = e.scrollWidth - e.clientWidth})</script></body>"
    )
    path = tmp_path / "page.html"
    path.write_text(render(page(sources, "footer")).replace("</body>", probe))
    words = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'user'}", "--window-size=500,900"]
    done = subprocess.run(
        [*words, "--dump-dom", path.as_uri()], capture_output=True, text=True, check=True
    )
    assert "CONSOLE" not in done.stderr
    assert "<title>0</title>" in done.stdout


@pytest.mark.slow
def test_the_pipeline_s_report_tells_what_its_sources_tell(finished):
    text = (finished / "reports" / "index.html").read_text(encoding="utf-8")
    document = Document(text)
    assert (document.unlabeled, document.unnamed) == ([], [])
    compared = json.loads((finished / "reports/comparison/comparison.json").read_text())
    words = " ".join(document.words)
    for row in compared.values():
        assert f"{100 * row['local-test']['mean']:.1f}" in words
    for name in ("index", "clients", "features", "server", "heads"):
        line = (finished / "data" / f"{name}.h5").read_bytes()[:128].decode().split()
        assert line[4] in words
    assert "seed: 0" in words
