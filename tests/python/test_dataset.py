"""A dataset keeps every row that it confirmed, once, whatever dies; and other tools read it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataset_writer import row_values
from trnscout import Error, InvalidArgumentError, NotFoundError
from trnscout.dataset import Dataset, pair_of, read_parquet
from trnscout.rows import arrow_table, record_values
from trnscout.run_record_schema import arrow_schema, normalise

WRITER = Path(__file__).with_name("dataset_writer.py")
STEM = "neuronx-cc-none_transformers-5.24.0"


def ids_in(dataset: Dataset) -> list[str]:
    rows = dataset.read()
    assert rows.damaged == {}
    found: list[str] = rows.table["row_id"].to_pylist()
    return found


def write_and_kill(directory: Path, notes: Path, writers: int, rows: int, kills: int) -> int:
    """Let processes write until all rows are confirmed, and kill `kills` of them on the way.

    A reader looks on: it must find every file whole, and every row confirmed before it looked.
    Return how many died of it; a kill may come too late.
    """
    died = 0
    chance = random.Random(0)
    running: dict[int, subprocess.Popen[bytes]] = {}
    dataset = Dataset(directory)
    finished: set[int] = set()
    while len(finished) < writers:
        for writer in set(range(writers)) - finished - running.keys():
            place = (str(directory), str(notes / str(writer)))
            numbers = (str(writer * rows), str((writer + 1) * rows))
            running[writer] = subprocess.Popen([sys.executable, str(WRITER), *place, *numbers])
        time.sleep(0.05 + chance.random() / 10)
        confirmed = confirmed_ids(notes)
        if directory.is_dir():
            found = ids_in(dataset)
            assert len(found) == len(set(found))
            assert confirmed <= set(found)
        started = [w for w in running if (notes / str(w)).exists()]
        if kills and started:
            running[chance.choice(started)].kill()
            kills -= 1
        for writer, process in list(running.items()):
            code = process.poll()
            if code is not None:
                assert code in (0, -9)
                del running[writer]
                died += code == -9
                if code == 0:
                    finished.add(writer)
    return died


def confirmed_ids(notes: Path) -> set[str]:
    texts = [path.read_text() for path in notes.iterdir()]
    return {line for text in texts for line in text.splitlines(keepends=False) if len(line) == 71}


def check_all_there(directory: Path, notes: Path, expected: int) -> None:
    dataset = Dataset(directory)
    confirmed = confirmed_ids(notes)
    assert len(confirmed) == expected
    dataset.compact()
    for path in directory.rglob("*.parquet"):
        pq.ParquetFile(path).read()
    (path,) = dataset.parquet_files()
    found = pq.ParquetFile(path).read()["row_id"].to_pylist()
    assert sorted(found) == sorted(confirmed)
    assert sorted(ids_in(dataset)) == sorted(confirmed)


def test_killed_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    """C099."""
    notes = tmp_path / "notes"
    notes.mkdir()
    write_and_kill(tmp_path / "data", notes, writers=2, rows=12, kills=2)
    check_all_there(tmp_path / "data", notes, expected=24)


@pytest.mark.full
def test_eight_killed_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    assert write_and_kill(tmp_path / "data", notes, writers=8, rows=200, kills=60) > 30
    check_all_there(tmp_path / "data", notes, expected=1600)


def test_row_is_there_once_however_often_it_is_added(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path / "data")
    first = dataset.add([row_values(1), row_values(1)])
    assert first[0] == first[1] and ids_in(dataset) == first[:1]
    dataset.compact()
    assert dataset.add([row_values(1)]) == first[:1]
    assert ids_in(dataset) == first[:1]
    dataset.compact()
    assert ids_in(dataset) == first[:1]


def test_death_between_replacing_and_tidying_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Dataset(tmp_path)
    ids = dataset.add([row_values(1), row_values(2)])

    def die(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", die)
        dataset.compact()
    assert sorted(ids_in(dataset)) == sorted(ids)
    dataset.compact()
    assert sorted(ids_in(dataset)) == sorted(ids)
    assert not list((tmp_path / ".journal" / STEM).glob("*.json"))


def test_partial_files_are_never_read_and_old_ones_go(tmp_path: Path) -> None:
    """C099."""
    dataset = Dataset(tmp_path)
    ids = dataset.add([row_values(1)])
    folder = tmp_path / ".journal" / STEM
    young, old = folder / ".a.1.partial", tmp_path / f".{STEM}.parquet.1.partial"
    for path in (young, old):
        path.write_bytes(b"PAR1")
    os.utime(old, (0, 0))
    assert ids_in(dataset) == ids
    dataset.compact()
    assert young.exists() and not old.exists()
    assert ids_in(dataset) == ids


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not a Parquet file at all", "cut"])
def test_damaged_file_is_named_and_skipped(content: bytes | str, tmp_path: Path) -> None:
    """C099: the rest stays readable, and nothing is written over it."""
    dataset = Dataset(tmp_path)
    (kept,) = dataset.add([row_values(1, neuronx_cc_version="2.22")])
    dataset.add([row_values(2)])
    dataset.compact()
    path = tmp_path / f"{STEM}.parquet"
    damage = path.read_bytes()[:-4] if content == "cut" else bytes(content)  # type: ignore[arg-type]
    path.write_bytes(damage)
    rows = dataset.read()
    assert rows.table["row_id"].to_pylist() == [kept]
    assert list(rows.damaged) == [path]
    assert f"{path}: damaged, or no Parquet file" in rows.damaged[path]
    (new,) = dataset.add([row_values(3)])
    with pytest.raises(Error, match=r"its new rows stay in .* until the file is moved away"):
        dataset.compact()
    assert path.read_bytes() == damage
    assert set(dataset.read().table["row_id"].to_pylist()) == {kept, new}


def test_damaged_journal_entry_is_named_and_skipped(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path)
    (kept,) = dataset.add([row_values(1)])
    damaged = tmp_path / ".journal" / STEM / "0.json"
    damaged.write_bytes(b"")
    dataset.compact()
    rows = dataset.read()
    assert rows.table["row_id"].to_pylist() == [kept]
    assert list(rows.damaged) == [damaged] and "damaged" in rows.damaged[damaged]


def test_columns_that_are_null_so_far_have_their_types(tmp_path: Path) -> None:
    """C101."""
    dataset = Dataset(tmp_path)
    nothing = row_values(1, token_ids=[], neuronx_cc_version="2.21")
    something = row_values(
        2, verdict="FAIL", error_class="token_mismatch", error="words", first_mismatch=7
    )
    dataset.add([nothing])
    dataset.compact()
    dataset.add([something])
    dataset.compact()
    for path in dataset.parquet_files():
        assert pq.ParquetFile(path).schema_arrow.equals(arrow_schema())
    table = dataset.read().table
    assert table["error"].to_pylist() == [None, "words"]
    assert table["first_mismatch"].to_pylist() == [None, 7]
    assert table["token_ids"].to_pylist() == [[], [2, 1, 2]]
    # Written by a tool that infers types.
    inferred = tmp_path / "inferred.parquet"
    pq.write_table(pa.table({"row_id": ["x"], "error": pa.nulls(1), "verdict": ["FAIL"]}), inferred)
    assert dataset.read().table.schema.field("error").type == pa.string()


def test_file_of_an_older_version_is_read_and_kept(tmp_path: Path) -> None:
    table = arrow_table([normalise({**row_values(1), "row_id": "sha256:old"})])
    old = table.select(
        [name for name in table.column_names if name not in ("fragility", "licence")]
    )
    pq.write_table(old, tmp_path / f"{STEM}.parquet")
    dataset = Dataset(tmp_path)
    dataset.add([row_values(2, licence="mit")])
    dataset.compact()
    read = read_parquet(tmp_path / f"{STEM}.parquet", None)
    assert (
        read.slice(0, 1)
        .select(old.column_names)
        .equals(old.cast(read.select(old.column_names).schema))
    )
    assert read["licence"].to_pylist() == [None, "mit"]


def test_columns_of_a_newer_version_stay(tmp_path: Path) -> None:
    table = arrow_table([normalise({**row_values(1), "row_id": "sha256:new"})])
    path = tmp_path / f"{STEM}.parquet"
    pq.write_table(table.append_column("of_tomorrow", pa.array([7])), path)
    dataset = Dataset(tmp_path)
    dataset.add([row_values(2)])
    dataset.compact()
    assert read_parquet(path, None)["of_tomorrow"].to_pylist() == [7, None]


def test_column_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"row_id": ["x"], "cores": ["many"]}), path)
    rows = Dataset(tmp_path).read()
    assert rows.damaged == {path: f"{path}: column cores is string, must be int64"}


def test_values_come_back_as_they_went_in(tmp_path: Path) -> None:
    """C103: markup, controls, bidi and zero-width characters are data."""
    hostile = "x/<img src=x onerror=alert(1)>\u202e\u200b</script>\"'\x1b[2J\0"
    values = row_values(
        1,
        model=hostile,
        text=hostile,
        error=hostile,
        times_s={"load": 0.1, "further_tokens": [1e-9, 3.0]},
        versions={"torch": "2.13.0"},
        device_peak_bytes=2**62,
        warnings=[hostile],
        compiled=False,
        logit_kl=0.1,
    )
    dataset = Dataset(tmp_path)
    (row_id,) = dataset.add([values])
    for _ in range(2):
        (row,) = record_values(dataset.read().table)
        assert {n: v for n, v in row.items() if v is not None} == {
            **normalise(values),
            "row_id": row_id,
        }
        dataset.compact()


def test_pandas_polars_and_duckdb_read_the_files(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path)
    dataset.add([row_values(1, times_s={"load": 0.5}, load_s=0.5), row_values(2)])
    dataset.compact()
    (path,) = dataset.parquet_files()
    frame = pandas.read_parquet(path).sort_values("model")
    assert frame["model"].tolist() == ["tester/model-1", "tester/model-2"]
    assert [list(ids) for ids in frame["token_ids"]] == [[1, 1, 2], [2, 1, 2]]
    assert str(frame["finished_at"].dtype.tz) == "UTC"
    lazy = polars.read_parquet(path).sort("model")
    assert lazy["token_ids"].to_list() == [[1, 1, 2], [2, 1, 2]]
    assert lazy["load_s"].to_list() == [0.5, None]
    assert lazy.schema["fallbacks"] == polars.Int64
    found = duckdb.sql(
        f"select model, token_ids[1], json_extract(times_s, '$.load')::double from '{path}' "
        "where load_s is not null"
    ).fetchall()
    assert found == [("tester/model-1", 1, 0.5)]
    assert duckdb.sql(f"select typeof(finished_at) from '{path}'").fetchall()[0] == (
        "TIMESTAMP WITH TIME ZONE",
    )


def test_pair_names_its_file() -> None:
    assert pair_of(row_values(1)) == STEM
    pair = pair_of({"neuronx_cc_version": "2.22+a/../b", "transformers_version": "5"})
    assert pair == "neuronx-cc-2.22+a%2F..%2Fb_transformers-5"
    with pytest.raises(InvalidArgumentError, match="neuronx_cc_version has 61 characters"):
        pair_of({"neuronx_cc_version": "9" * 61})


def test_changed_record_is_refused(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path / "data")
    (row_id,) = dataset.add([row_values(1)])
    with pytest.raises(InvalidArgumentError, match="was changed after it was written"):
        dataset.add([row_values(2), row_values(1, verdict="FAIL", row_id=row_id)])
    assert ids_in(dataset) == [row_id]


def test_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(Error, match="file: cannot be written: Not a directory"):
        Dataset(file).add([row_values(1)])
    with pytest.raises(NotFoundError, match="absent: there is no such directory"):
        Dataset(tmp_path / "absent").read()


def test_journal_entry_is_the_row_in_json(tmp_path: Path) -> None:
    (row_id,) = Dataset(tmp_path).add([row_values(1)])
    (path,) = (tmp_path / ".journal" / STEM).glob("*.json")
    entry: dict[str, Any] = json.loads(path.read_bytes())
    assert entry == {**normalise(row_values(1)), "row_id": row_id}
    assert path.stem == row_id.removeprefix("sha256:")
