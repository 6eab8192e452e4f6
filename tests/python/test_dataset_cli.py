"""`trnscout dataset` as a user runs it: exit codes, words, and what a terminal gets to see."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dataset_writer import row_values
from trnscout.cli import app, main
from trnscout.dataset import Dataset
from trnscout.dataset_query import compare, diff, select

HOSTILE = "x/<b>\u202eevil\u200b\x1b[2J"
SHOWN = r"x/<b>\u202eevil\u200b\x1b[2J"


class Answer:
    """What a command left behind."""

    def __init__(self, code: int, out: str, error: str) -> None:
        self.code, self.out, self.error = code, out, error


@pytest.fixture
def trnscout(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    """Run the command line in this process; a new one a command would take seconds each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["trnscout", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        return Answer(int(ended.value.code or 0), said.out, said.err)

    return run


def refused(answer: Answer) -> str:
    assert (answer.code, answer.out) == (2, "")
    assert answer.error.startswith("trnscout: ")
    return answer.error.strip()


def fill(directory: Path, *rows: dict[str, Any]) -> list[str]:
    dataset = Dataset(directory)
    ids = dataset.add(rows)
    dataset.compact()
    return ids


def test_added_records_are_listed_and_shown(trnscout: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    paths[0].write_text(json.dumps(row_values(1)))
    failed = row_values(2, verdict="FAIL", error_class="crash", error="words", cores=2)
    paths[1].write_text(json.dumps(failed))
    added = trnscout("dataset", "add", *paths, "--dataset", "data")
    assert added.code == 0
    ids = added.out.split()
    assert trnscout("dataset", "add", *paths, "--dataset", "data").out.split() == ids
    listed = trnscout("dataset", "ls", "--dataset", "data").out.splitlines()
    assert listed[0].split("\t")[:2] == ["id", "model"]
    assert listed[-1] == "2 of 2 rows" and len(listed) == 4
    only = trnscout("dataset", "ls", "--dataset", "data", "--where", "verdict==FAIL,cores>1").out
    assert "tester/model-2" in only and "tester/model-1" not in only and "1 of 2 rows" in only
    assert "crash" in only
    assert "1 of 2 rows" in trnscout("dataset", "ls", "--dataset", "data", "--model", "MODEL-1").out
    short = ids[1].removeprefix("sha256:")[:12]
    shown = trnscout("dataset", "show", short, "--dataset", "data").out
    assert "error\twords" in shown and "cores\t2" in shown
    whole = json.loads(trnscout("dataset", "show", ids[1], "--dataset", "data", "--json").out)
    assert whole["row_id"] == ids[1] and whole["token_ids"] == [2, 1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "1.json: there is no such file"),
        ("{", "1.json: not JSON: "),
        ("[1]", "1.json: must hold an object, not list"),
        ('{"verdict": "FAIL"}', "1.json: column depth is null, must have a value"),
        ('{"modle": "x"}', "1.json: column modle is unknown"),
    ],
)
def test_what_is_no_record_is_not_added(
    text: str | None, words: str, trnscout: Any, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "1.json"
    good.write_text(json.dumps(row_values(1)))
    if text is not None:
        bad.write_text(text)
    assert words in refused(trnscout("dataset", "add", good, bad, "--dataset", "data"))
    assert not (tmp_path / "data").exists()


def test_hidden_characters_do_not_reach_the_terminal(trnscout: Any, tmp_path: Path) -> None:
    """C103: they stay in the data."""
    (row_id,) = fill(tmp_path / "data", row_values(1, model=HOSTILE, error=f"{HOSTILE}\nsecond"))
    for command in (("ls",), ("show", row_id)):
        out = trnscout("dataset", *command, "--dataset", "data").out
        assert SHOWN in out
        assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u202e]", out)
    trnscout("dataset", "export", "all.jsonl", "--dataset", "data")
    text = (tmp_path / "all.jsonl").read_text()
    assert text.isascii() and json.loads(text)["model"] == HOSTILE
    trnscout("dataset", "export", "all.csv", "--dataset", "data")
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["model"], row["token_ids"]) == (HOSTILE, "[1, 1, 2]")
    missing = refused(trnscout("dataset", "show", "\x1b[2Jabcdef", "--dataset", "data"))
    assert r"no row's id begins with \x1b[2Jabcdef" in missing


def test_exported_parquet_is_the_dataset(trnscout: Any, tmp_path: Path) -> None:
    ids = fill(tmp_path / "data", row_values(1), row_values(2, neuronx_cc_version="2.22"))
    assert trnscout("dataset", "export", "all.parquet", "--dataset", "data").code == 0
    assert sorted(pq.read_table("all.parquet")["row_id"].to_pylist()) == sorted(ids)
    lines = trnscout("dataset", "export", "-", "--format", "jsonl", "--dataset", "data").out
    assert len(lines.splitlines()) == 2


def test_diff_says_what_got_worse_and_better(trnscout: Any, tmp_path: Path) -> None:
    def version(number: int, version: str, verdict: str, **values: Any) -> dict[str, Any]:
        return row_values(number, transformers_version=version, verdict=verdict, **values)

    fill(
        tmp_path / "data",
        version(1, "5.24", "NO_BLOCKER", content_hash="a"),
        version(1, "5.25", "FAIL", error_class="crash", content_hash="b"),
        version(2, "5.24", "FAIL", error_class="timeout"),
        version(2, "5.25", "NO_BLOCKER"),
        version(3, "5.24", "NO_BLOCKER"),
        version(3, "5.25", "LEFT_OUT", error_class="reference_fails"),
        version(4, "5.24", "FAIL", error_class="crash", finished_at="2026-12-01T01:00:00Z"),
        version(4, "5.24", "NO_BLOCKER", finished_at="2026-12-01T02:00:00Z"),
        version(4, "5.25", "NO_BLOCKER"),
        version(5, "5.24", "NO_BLOCKER"),
        version(6, "5.24", "NO_BLOCKER"),
        version(6, "5.25", "FAIL", origin="imported"),
    )
    a, b = (f"neuronx-cc-none_transformers-{v}" for v in ("5.24", "5.25"))
    answer = trnscout("dataset", "diff", a, b, "--dataset", "data")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == "worked in A, fails in B: 1"
    assert lines[1].startswith("tester/model-1\t") and "NO_BLOCKER -> crash" in lines[1]
    assert "the model's files differ" in lines[1]
    assert lines[2] == "worked in A, left out in B: 1" and "-> reference_fails" in lines[3]
    assert lines[4] == "failed in A, works in B: 1" and "timeout -> NO_BLOCKER" in lines[5]
    assert lines[6] == ("the same in both: 1, changed otherwise: 0, only in A: 2, only in B: 0")
    with_foreign = trnscout("dataset", "diff", a, b, "--dataset", "data", "--imported")
    assert "worked in A, fails in B: 2" in with_foreign.out
    files = [tmp_path / "data" / f"{name}.parquet" for name in (b, a)]
    assert trnscout("dataset", "diff", *files).out.splitlines()[0] == "worked in A, fails in B: 1"
    assert trnscout("dataset", "diff", files[0], files[0]).code == 0
    unknown = refused(trnscout("dataset", "diff", a, "other", "--dataset", "data"))
    assert f"other is neither a file nor a pair of data, which has: {a}, {b}" in unknown
    nowhere = refused(trnscout("dataset", "diff", a, "x/y", "--dataset", "data"))
    assert "x/y: there is no such file" in nowhere


def test_compare_counts_outcomes_of_the_same_models(trnscout: Any, tmp_path: Path) -> None:
    def hardware(number: int, verdict: str, error_class: str | None = None) -> dict[str, Any]:
        values = {"depth": "hardware", "verdict": verdict, "error_class": error_class}
        return row_values(number, neuronx_cc_version="2.22", **values)

    nothing = trnscout("dataset", "compare", "--dataset", "data")
    assert "data: there is no such directory" in refused(nothing)
    fill(tmp_path / "data", row_values(1), row_values(2), row_values(3))
    only = trnscout("dataset", "compare", "--dataset", "data")
    assert only.out == "no model has both a virtual and a hardware row\n"
    crash = row_values(4, verdict="FAIL", error_class="crash")
    found = [hardware(1, "PASS"), hardware(2, "PASS"), hardware(3, "FAIL", "compile_error")]
    fill(tmp_path / "data", crash, hardware(4, "FAIL", "crash"), hardware(9, "PASS"), *found)
    answer = trnscout("dataset", "compare", "--dataset", "data")
    assert [line.split("\t") for line in answer.out.splitlines()] == [
        ["virtual \\ hardware", "PASS", "compile_error", "crash"],
        ["NO_BLOCKER", "2", "1", "0"],
        ["crash", "0", "0", "1"],
        ["4 models have both rows"],
    ]


MAPPING = """
source = "a colleague's list"
[columns]
model = "name"
depth = { value = "hardware" }
verdict = { from = "ok", values = { yes = "PASS", no = "FAIL" } }
cores = "n"
"""


def test_imported_rows_are_marked_and_do_not_count(trnscout: Any, tmp_path: Path) -> None:
    fill(tmp_path / "data", row_values(1), row_values(2))
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "their.csv").write_text("name,ok,n\ntester/model-1,yes,4\ntester/model-2,no,\n")
    arguments = ("dataset", "import", "their.csv", "--mapping", "map.toml", "--dataset", "data")
    assert trnscout(*arguments).out == "2 rows imported, unverified\n"
    assert trnscout(*arguments).code == 0  # again: the same rows
    rows = Dataset(tmp_path / "data").read()
    foreign = [row for row in select(rows, imported="counted") if row["origin"] == "imported"]
    assert {(r["model"], r["verdict"], r["cores"]) for r in foreign} == {
        ("tester/model-1", "PASS", 4),
        ("tester/model-2", "FAIL", None),
    }
    assert len(foreign) == 2
    assert all("their.csv sha256:" in row["imported_from"] for row in foreign)
    assert all("neither ran nor verified" in row["boundary"] for row in foreign)
    assert "2 of 4 rows" in trnscout("dataset", "ls", "--dataset", "data").out
    assert "4 of 4 rows" in trnscout("dataset", "ls", "--dataset", "data", "--imported").out
    assert "no model has both" in trnscout("dataset", "compare", "--dataset", "data").out
    counted = trnscout("dataset", "compare", "--dataset", "data", "--imported").out
    assert "2 models have both rows" in counted


@pytest.mark.parametrize(
    ("mapping", "their", "words"),
    [
        ("source = 1", "name\nm\n", "map.toml: must have source ="),
        ("source = [", "name\nm\n", "map.toml: not TOML: "),
        (MAPPING + 'modle = "x"', "", "column modle is unknown"),
        (MAPPING + 'origin = "x"', "", "column origin is set by the import itself"),
        (MAPPING + "dtype = 3", "", "column dtype must be a name in quotes"),
        (MAPPING, "name,n\nm,1\n", "row 1: there is no column ok, which column verdict is mapped"),
        (MAPPING, "name,ok,n\nm,yes,1\nm,maybe,1\n", "row 2: column ok is 'maybe', which the"),
        (MAPPING, "name,ok,n\nm,yes,many\n", "row 1: column cores is 'many', must be a whole"),
        (MAPPING, None, "their.csv: there is no such file"),
    ],
)
def test_import_that_cannot_be_is_refused(
    mapping: str, their: str | None, words: str, trnscout: Any, tmp_path: Path
) -> None:
    (tmp_path / "map.toml").write_text(mapping)
    if their is not None:
        (tmp_path / "their.csv").write_text(their)
    arguments = ("dataset", "import", "their.csv", "--mapping", "map.toml", "--dataset", "data")
    assert words in refused(trnscout(*arguments))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("import", "t.txt", "--mapping", "map.toml"), "must end with .csv, .jsonl, .parquet"),
        (("import", "t.csv", "--mapping", "absent"), "absent: there is no such file"),
        (("import", "t.parquet", "--mapping", "map.toml"), "t.parquet: cannot be read: "),
        (("import", "t.jsonl", "--mapping", "map.toml"), "t.jsonl: cannot be read: "),
        (("export", "x.xls", "--dataset", "data"), "format is xls, must be one of parquet, csv"),
        (("export", "no/x.csv", "--dataset", "data"), "no/x.csv: cannot be written"),
        (("show", "abc", "--dataset", "data"), "row id abc has 3 characters, at least 6"),
        (("show", "abcdef", "--dataset", "absent"), "absent: there is no such directory"),
        (("ls", "--dataset", "data", "--where", "modle==x"), "column modle is unknown"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[str, ...], words: str, trnscout: Any, tmp_path: Path
) -> None:
    fill(tmp_path / "data", row_values(1))
    (tmp_path / "map.toml").write_text(MAPPING)
    for name in ("t.txt", "t.csv", "t.parquet", "t.jsonl"):
        (tmp_path / name).write_text("[1]\n")
    assert words in refused(trnscout("dataset", *arguments))


def test_row_id_of_several_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trnscout import InvalidArgumentError
    from trnscout.dataset_query import find_row

    monkeypatch.setattr("trnscout.dataset_query._SHORTEST_ID", 0)
    fill(tmp_path, row_values(1), row_values(2))
    with pytest.raises(InvalidArgumentError, match="2 rows' ids begin with ; give more of it"):
        find_row(Dataset(tmp_path), "")


def test_damaged_file_is_said_on_stderr(trnscout: Any, tmp_path: Path) -> None:
    fill(tmp_path / "data", row_values(1))
    (tmp_path / "data" / "x.parquet").write_bytes(b"")
    answer = trnscout("dataset", "ls", "--dataset", "data")
    assert answer.code == 0 and "1 of 1 rows" in answer.out
    assert "trnscout: skipped data/x.parquet: damaged, or no Parquet file" in answer.error


def test_questions_to_no_rows_have_answers() -> None:
    assert diff([], []).same == 0
    assert compare([]).models == 0


def test_dataset_starts_without_torch() -> None:
    code = "import sys, trnscout.dataset_cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    assert any(group.name == "dataset" for group in app.registered_groups)
