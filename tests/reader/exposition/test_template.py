from __future__ import annotations

import pytest

from pulsed.reader.exposition.template import Template, make_template

KEYED = {'a{g="0"': 0, 'a{g="1"': 1, 'b{g="0"': 2}
PAGE = '# HELP a x\na{g="0"} 1\na{g="1"} 2.5\n# TYPE b gauge\n\nb{g="0"} NaN\n'


def test_a_page_with_other_numbers_fits() -> None:
    template = make_template(PAGE, 3, 3, KEYED)
    assert template is not None
    assert template.read(PAGE.replace("NaN", "-1e3").replace("2.5", "+Inf")) == [1.0, float("inf"), -1000.0]
    assert template.read(PAGE.replace(" 1\n", "  17 \r\n").replace("NaN", "0")) == [17.0, 2.5, 0.0]


def test_braces_that_open_nothing() -> None:
    page = '# HELP a {x\na{g="{0"} 1\na{g="{{"} 2\n'
    template = make_template(page, 2, 2, {'a{g="{0"': 0, 'a{g="{{"': 1})
    assert template is not None
    assert template.read(page.replace("2", "3")) == [1.0, 3.0]
    assert template.read(page.replace('="{0', '="{1')) is None
    assert template.read(page.replace("HELP a {x", "HELP a x{")) is None


def test_numbers_are_what_float_says() -> None:
    template = make_template(PAGE, 3, 3, KEYED)
    assert template is not None
    for text in ("0", "-0", "00", "100", "101", "0.000000", "-0.000000", "1e2", "+7", "0x1", "7."):
        try:
            expected: str | None = repr(float(text))
        except ValueError:
            expected = None
        read = template.read(PAGE.replace("2.5", text))
        assert (None if read is None else repr(read[1])) == expected


def test_texts_that_repeat_are_the_same_objects() -> None:
    def made(node: str) -> Template:
        rows = [f'{name}{{n="{node}",g="{gpu}"' for name in "ab" for gpu in range(2)]
        page = "".join(f"{row}}} 1\n" for row in rows)
        template = make_template(page, 4, 4, {row: slot for slot, row in enumerate(rows)})
        assert template is not None
        return template

    one, other = made("x"), made("y")
    assert one.labels == ['n="x",g="1"', 'n="x",g="0"', 'n="x",g="1"', ""]
    assert one.labels[0] is one.labels[2]
    assert one.names == ["\na{", "\nb{", "\nb{", "\n"]
    assert all(mine is theirs for mine, theirs in zip(one.names, other.names, strict=True))


@pytest.mark.parametrize(
    "page",
    [
        PAGE.replace(" 1\n", " 1 1395066363000\n"),
        PAGE.replace(" 1\n", " 1_0\n"),
        PAGE.replace(" 1\n", " ١\n"),
        PAGE.replace(" 1\n", " \n"),
        PAGE.replace(" 1\n", " \n1\n"),
        PAGE.replace(" 1\n", " 1\n\n"),
        PAGE.replace(" 1\n", " ERROR\n"),
        PAGE.replace(" 1\n", " 1} 2\n"),
        PAGE.replace('a{g="1"} 2.5\n', ""),
        PAGE.replace(' 1\na{g="1"} 2.5', " 1} 2.5"),
        PAGE.replace("HELP a x", "HELP a y"),
        PAGE.replace('g="1"', 'g="2"'),
        PAGE.removesuffix("\n"),
        PAGE + "c 5\n",
        PAGE + 'c{g="0"} 5\n',
        "",
        "}}}",
    ],
)
def test_other_pages_do_not_fit(page: str) -> None:
    template = make_template(PAGE, 3, 3, KEYED)
    assert template is not None
    assert template.read(page) is None


@pytest.mark.parametrize(
    ("page", "slots", "values"),
    [('b{g="0"} 1\na{g="0"} 2\n', 4, [2.0, None, 1.0, None]), ('a{g="0"} 1\na{g="0"} 2\n', 1, [2.0])],
    ids=["absent series, in another order", "the last of a series given twice"],
)
def test_values_have_the_places_of_their_series(page: str, slots: int, values: list[float | None]) -> None:
    template = make_template(page, 2, slots, KEYED)
    assert template is not None
    assert template.read(page) == values


@pytest.mark.parametrize(
    ("page", "samples"),
    [
        ("", 0),
        ("# only a comment\n", 0),
        ('a{g="0"} 1\nup 1\n', 2),  # a number that a template would take for constant
        ('a{g="0"} 1\n# HELP a }\nup 1\n', 2),
        ('a{g="0"} 1 1395066363000\n', 1),
        ('a{g="0"} 1\nnew{g="0"} 1\n', 2),
        ('a{g="0"} 1 # {} 5\nup 1\n', 2),
    ],
)
def test_pages_that_no_template_is_made_of(page: str, samples: int) -> None:
    assert make_template(page, samples, 3, KEYED) is None
