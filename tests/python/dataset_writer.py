"""A process that adds rows one by one, and notes each that was confirmed, until it is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from trnscout.dataset import Dataset


def row_values(number: int, **values: Any) -> dict[str, Any]:
    """A record that no other number has."""
    return {
        "verdict": "NO_BLOCKER",
        "depth": "virtual",
        "model": f"tester/model-{number}",
        "transformers_version": "5.24.0",
        "token_ids": [number, 1, 2],
        "finished_at": f"2026-12-01T00:00:{number % 60:02}Z",
        **values,
    }


def main(directory: str, confirmed: str, first: int, last: int) -> None:
    """Add the rows that the file of confirmed ones does not have."""
    notes = Path(confirmed)
    done = len(notes.read_text().splitlines()) if notes.exists() else 0
    dataset = Dataset(Path(directory))
    with notes.open("a") as file:
        for number in range(first + done, last):
            (row_id,) = dataset.add([row_values(number)])
            os.write(file.fileno(), f"{row_id}\n".encode())
            if number % 8 == 7:
                dataset.compact()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
