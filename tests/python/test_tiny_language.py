"""The little language: what its generator writes and what its grammar lets pass."""

from __future__ import annotations

from itertools import islice

import pytest

from tiny_language import documents, is_consistent, is_sentence, split_sentences

JOURNEY = (
    "Mira the baker lived in Tolm. She took the red bread and went away for two days. "
    "On the first day she came to the mill and met a fox. "
    "The fox asked for the bread, but Mira kept the red bread. "
    "On the second day she came to the bridge and met a heron. The heron was asleep. "
    "Then Mira came home to Tolm with the red bread."
)


def test_generator_writes_consistent_documents_of_valid_sentences() -> None:
    for text in islice(documents(seed=3), 2000):
        assert is_consistent(text), text
        assert all(is_sentence(sentence) for sentence in split_sentences(text)), text


def test_same_seed_writes_the_same_documents_and_another_seed_others() -> None:
    first = list(islice(documents(seed=0), 50))
    assert list(islice(documents(seed=0), 50)) == first
    assert list(islice(documents(seed=1), 50)) != first


def test_journey_is_consistent_as_it_stands() -> None:
    assert is_consistent(JOURNEY)
    assert len(split_sentences(JOURNEY)) == 7


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Then Mira", "Then Tessa"),  # another traveller
        ("to Tolm", "to Pell"),  # another town
        ("with the red", "with the blue"),  # another colour
        ("for two days", "for three days"),  # a day is missing
        ("second day", "third day"),  # days out of order
        ("day she came to the mill", "day he came to the mill"),
        (" Then Mira came home to Tolm with the red bread.", ""),  # no end
    ],
)
def test_journey_that_forgets_what_it_said_is_not_consistent(old: str, new: str) -> None:
    changed = JOURNEY.replace(old, new)
    assert changed != JOURNEY
    assert not is_consistent(changed)


@pytest.mark.parametrize(
    "text",
    [
        "On the first day she came to the fox and met a mill.",
        "The fox asked for the bread, but Mira kept the red hammer.",
        "Note: the red bread is at the",
        "Mira Mira the baker lived in Tolm.",
    ],
)
def test_sentence_outside_the_grammar_is_refused(text: str) -> None:
    assert not is_sentence(text)
