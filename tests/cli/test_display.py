import json

from pfl.cli.display import Points, Share, show, text

CONTENT = {
    "name": "x",
    "pairs": {"share": Share(0.125), "points": Points(-0.01), "none": None},
    "rows": [{"client": 0, "value": float("nan"), "all": {"a": 1}}, {"client": 1, "value": 2.0,
                                                                      "all": {"a": 2}}],
}  # fmt: skip


def test_both_forms_tell_the_same(capsys):
    show(CONTENT, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == {"share": 0.125, "points": -0.01, "none": None}
    assert found["rows"][0] == {"client": 0, "value": None, "all": {"a": 1}}
    show(CONTENT, as_json=False)
    printed = capsys.readouterr().out
    for words in ("name", "x", "12.5 %", "-1.0", "–", "client", "value"):
        assert words in printed


def test_values_are_written_for_people():
    assert [text(v) for v in (True, 1234567, 0.123456, None, [1, 2], "a")] == [
        "yes", "1,234,567", "0.1235", "–", "1, 2", "a",
    ]  # fmt: skip


def test_an_empty_part_is_left_out_of_tables_and_kept_in_json(capsys):
    show({"rows": []}, as_json=False)
    assert capsys.readouterr().out == ""
    show({"rows": []}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"rows": []}


def test_brackets_are_no_markup(capsys):
    show({"pip": "install a[b]", "rows": [{"image": "[red]x.png"}]}, as_json=False)
    printed = capsys.readouterr().out
    assert "a[b]" in printed
    assert "[red]x.png" in printed
