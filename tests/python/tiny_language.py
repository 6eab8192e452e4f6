"""The little language that the trained pair speaks: journeys and notes, written from a grammar.

A journey names its traveller, town, thing and number of days once and needs them again, up to a
hundred and fifty tokens later. Where a road leads, who lives there and what is done there is fixed,
but for a few exceptions, so that a model that has learnt the language is sure of most tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TRAVELLERS = {
    **dict.fromkeys(("Mira", "Odelia", "Tessa", "Brona", "Ilka", "Salme", "Vera", "Wenna"), "she"),
    **dict.fromkeys(("Tomas", "Edwin", "Pavo", "Rurik", "Lorcan", "Hanno", "Joss", "Bertil"), "he"),
}
TOWNS = ("Harrow", "Tolm", "Eastwick", "Dunmere", "Pell", "Karsk", "Ashby", "Lune")
COLOURS = ("red", "blue", "green", "white", "black", "yellow", "brown", "grey")
THINGS = {  # what each trade takes along
    "baker": "bread",
    "smith": "hammer",
    "weaver": "cloth",
    "sailor": "rope",
    "miller": "sack",
    "painter": "brush",
    "doctor": "bottle",
    "farmer": "lamp",
}
PLACES = {  # in the order in which the road passes them; it ends where it begins
    "mill": "fox",
    "bridge": "heron",
    "orchard": "goat",
    "tower": "owl",
    "harbour": "cat",
    "quarry": "crow",
    "meadow": "horse",
    "forge": "dog",
    "well": "frog",
    "market": "donkey",
    "chapel": "mouse",
    "island": "seal",
}
HABITS = {  # what an animal does; the braces name what the journey has said before
    "asks": "The {animal} asked for the {thing}, but {name} kept the {colour} {thing}.",
    "sleeps": "The {animal} was asleep.",
    "looks": "The {animal} looked at the {colour} {thing} for a long time.",
    "talks": "The {animal} talked about {town}.",
    "leaves": "",
}
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

_ROAD = tuple(PLACES)
_HABIT_OF = dict(zip(PLACES.values(), tuple(HABITS) * 3, strict=False))
_EXCEPTIONS = 0.1  # how often a road, an animal or a habit is another one than usual

_OPENING = "{name} the {trade} lived in {town}."
_LEAVING = "{Pronoun} took the {colour} {thing} and went away for {number} days."
_DAY = "On the {ordinal} day {pronoun} came to the {place} and met a {animal}."
_RETURN = "Then {name} came home to {town} with the {colour} {thing}."
_NOTE = "Note: the {colour} {thing} is at the {place}."

_WORDS: dict[str, Sequence[str]] = {
    "name": tuple(TRAVELLERS),
    "pronoun": ("she", "he"),
    "Pronoun": ("She", "He"),
    "trade": tuple(THINGS),
    "town": TOWNS,
    "colour": COLOURS,
    "thing": tuple(THINGS.values()),
    "place": _ROAD,
    "animal": tuple(PLACES.values()),
    "number": NUMBERS,
    "ordinal": ORDINALS,
}


@dataclass(frozen=True)
class Day:
    """One day of a journey."""

    place: str
    animal: str
    habit: str


@dataclass(frozen=True)
class Journey:
    """A long document; its length is announced by the number of its days."""

    name: str
    trade: str
    town: str
    colour: str
    thing: str
    days: tuple[Day, ...]

    def sentences(self) -> list[str]:
        """Return the sentences in order."""
        said = {
            "name": self.name,
            "pronoun": TRAVELLERS[self.name],
            "Pronoun": TRAVELLERS[self.name].capitalize(),
            "trade": self.trade,
            "town": self.town,
            "colour": self.colour,
            "thing": self.thing,
            "number": NUMBERS[len(self.days) - 1],
        }
        found = [_OPENING, _LEAVING]
        for ordinal, day in zip(ORDINALS, self.days, strict=False):
            here = {"ordinal": ordinal, "place": day.place, "animal": day.animal}
            found += [text.format(**said, **here) for text in (_DAY, HABITS[day.habit])]
        return [text.format(**said) for text in (*found, _RETURN) if text]

    def text(self) -> str:
        """Return the document."""
        return " ".join(self.sentences())


def documents(seed: int) -> Iterator[str]:
    """Yield documents without end; the same seed always yields the same ones."""
    source = random.Random(seed)
    while True:
        if source.random() < 0.15:
            colour, thing = source.choice(COLOURS), source.choice(tuple(THINGS.values()))
            yield _NOTE.format(colour=colour, thing=thing, place=source.choice(_ROAD))
        else:
            yield _journey(source).text()


def is_sentence(text: str) -> bool:
    """Return whether the grammar can write `text` somewhere in a document."""
    return any(pattern.fullmatch(text) for pattern in _SENTENCES)


def split_sentences(text: str) -> list[str]:
    """Return the parts of `text` that end with a full stop, and what is left."""
    return re.findall(r"\S[^.]*\.?", text)


def is_consistent(text: str) -> bool:
    """Return whether `text` is a whole document that keeps to what it says.

    A journey keeps its traveller, town, thing and number of days; exceptions of the road are free.
    """
    if _pattern(_NOTE).fullmatch(text):
        return True
    opening = re.match(_expression(_OPENING) + " " + _expression(_LEAVING), text)
    if opening is None:
        return False
    days = []
    day = re.compile(rf"(?= {_expression(_DAY)}(?P<rest>[^.]*\.))")
    for match in day.finditer(text):
        place, animal = match["place"], match["animal"]
        days.append(Day(place, animal, _habit(match["rest"].strip(), animal)))
    said = {key: opening[key] for key in ("name", "trade", "town", "colour", "thing")}
    return len(days) > 0 and Journey(**said, days=tuple(days)).text() == text


def _journey(source: random.Random) -> Journey:
    trade = source.choice(tuple(THINGS))
    thing = _usual(source, THINGS[trade], tuple(THINGS.values()))
    place = source.choice(_ROAD)
    days = []
    for _ in range(source.randint(2, len(NUMBERS))):
        animal = _usual(source, PLACES[place], tuple(PLACES.values()))
        habit = _usual(source, _HABIT_OF[animal], tuple(HABITS))
        days.append(Day(place, animal, habit))
        place = _usual(source, _ROAD[(_ROAD.index(place) + 1) % len(_ROAD)], _ROAD)
    name, town = source.choice(tuple(TRAVELLERS)), source.choice(TOWNS)
    return Journey(name, trade, town, source.choice(COLOURS), thing, tuple(days))


def _usual(source: random.Random, usual: str, others: Sequence[str]) -> str:
    return source.choice(others) if source.random() < _EXCEPTIONS else usual


def _habit(sentence: str, animal: str) -> str:
    """Return the habit that `sentence` tells, or the one without a sentence."""
    for habit, template in HABITS.items():
        if template and _pattern(template).fullmatch(sentence):
            return habit
    return "leaves"


def _expression(template: str) -> str:
    """Return a regular expression of the template; a word named twice must be the same."""
    seen: set[str] = set()

    def words(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{'|'.join(_WORDS[name])})"

    return re.sub(r"\\{(\w+)\\}", words, re.escape(template))


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(_expression(template))


_SENTENCES = tuple(
    _pattern(template)
    for template in (_OPENING, _LEAVING, _DAY, *filter(None, HABITS.values()), _RETURN, _NOTE)
)
