"""Numbers, times and lines as people read them."""

import pytest

from lowswitch.show.text import columns, counted, duration, plural, span, wrapped


def test_one_thing_and_several():
    assert [counted(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(n, "row", "waits", "wait") for n in (1, 2)] == ["1 row waits", "2 rows wait"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(59.6, "60 s"), (120, "2 min"), (7_199, "120 min"), (9_000, "2.5 h")]
)
def test_a_time_is_in_the_unit_that_suits_it(seconds, words):
    assert duration(seconds) == words


def test_a_span_with_one_end_is_one_number():
    assert span([3, 1, 2], ".1f") == "1.0 to 3.0"
    assert span(iter([0.449, 0.451])) == "0.45"


def test_lines_are_broken_at_spaces_and_never_at_hyphens():
    assert wrapped("dates 10-20-30 all", 9) == "dates\n10-20-30\nall"
    assert wrapped("as it is", None) == "as it is"


def test_cells_stand_in_columns():
    assert columns([("a", "long", "c"), ("bb", "x", "")]) == "a   long  c\nbb  x"


def test_several_of_a_thing():
    words = {"row": "rows", "child": "children", "later child": "later children"}
    words |= {"biopsy": "biopsies", "day": "days", "box": "boxes", "batch": "batches"}
    words |= {"diagnosis": "diagnoses", "person": "people", "case": "cases", "other": "others"}
    assert {word: plural(word) for word in words} == words
    assert [counted(n, "child", "is", "are") for n in (1, 2)] == ["1 child is", "2 children are"]
