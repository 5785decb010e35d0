"""Is text read as equations, and nothing else? Does it come back the same?"""

import math
import sys
import time

import casadi
import numpy as np
import pytest

from dynident import maths
from dynident.errors import ProblemError
from dynident.models.parser import LONGEST_TEXT, names_in, parse_expression
from dynident.models.printer import expressions_to_text

NAMES = ("a", "b", "c", "v", "x")
SYMBOLS = {name: casadi.SX.sym(name) for name in NAMES}
POINT = {"a": 1.3, "b": -0.7, "c": 2.1, "v": 0.4, "x": -1.9}


def value_of(expression, point=POINT, symbols=SYMBOLS):
    return float(casadi.Function("f", list(symbols.values()), [expression])(*point.values()))


def read(text):
    return parse_expression(text, SYMBOLS, "rate of 'v'")


@pytest.mark.parametrize("word, ours", [("max", "maximum"), ("min", "minimum")])
def test_the_words_of_other_languages_lead_to_ours(word, ours):
    for known in (SYMBOLS, SYMBOLS | {word: casadi.SX.sym(word)}):  # undeclared names of a model become parameters
        with pytest.raises(ProblemError, match=rf"'{word}' is not a function. Write {ours}\(...\)"):
            parse_expression(f"{word}(x, 0)", known)


# Python means the same by these, so Python itself is the oracle; the texts are ours, not a user's
ORDINARY = [
    "a + b*c - x/v", "a - b - c", "a - (b - c)", "a/b/c", "a/(b/c)", "a*b/c*x", "-a**2", "(-a)**2", "a**-v", "c**v**a",
    "(c**v)**a", "2*-a", "--a", "+a - +b", "1e-3*a + .5 + 3.", "a*(b + c)**3", "sin(a*b) + cos(a*b)", "atan2(b, a)",
    "minimum(a, b)*maximum(c, x)", "abs(x) + sign(b)", "exp(-(v/a)**2)", "where(a > b, a, b)", "where(a < 0, 1, c)",
    "where(0 < a <= 2, a, b)", "where(a > b and not x > 0, a, b)", "where(a < 0 or b < 0, x, v)",
    "where(a == 1.3, 5, 6)", "where(a != 1.3, 5, 6)", "where(not (a < b or c < x), a, b)", "sqrt(a)*log(c)*tanh(v)",
    "pi*a", "0*a + 3", "7", "-0.0", "1/3*a", "where(a > 0, where(b > 0, 1, 2), 3)", "a\n  + b", "  a",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_text_means_what_python_would_mean(text):
    scope = {name: function for name, (function, _) in maths.FUNCTIONS.items()} | {"pi": math.pi} | POINT
    expected = eval(" ".join(text.split()), {"__builtins__": {}}, scope)
    assert value_of(read(text)) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize("text", ORDINARY)
def test_text_survives_the_way_through_symbols_and_back(text):
    expression = read(text)
    texts, definitions = expressions_to_text({"it": expression}, list(SYMBOLS.values()))
    known = dict(SYMBOLS)
    for name, definition in definitions.items():
        known[name] = parse_expression(definition, known)
    again = parse_expression(texts["it"], known)
    rng = np.random.default_rng(1)
    for _ in range(10):
        point = dict(zip(NAMES, rng.normal(size=len(NAMES)), strict=True))
        np.testing.assert_equal(value_of(again, point), value_of(expression, point))  # to the bit; NaN equals NaN


MALICIOUS = [
    "__import__('os').system('echo hi')", "__import__(a)", "open('file')", "eval('1')", "exec(a)", "a.__class__",
    "(1).__class__.__bases__", "().__class__", "a[0]", "[a, b]", "{a}", "{a: b}", "(a, b)", "a, b", "lambda: 0",
    "(lambda a: a)(b)", "[a for a in b]", "(a for a in b)", "'text'", "f'{a}'", "b'bytes'", "a if b else c", "a := 3",
    "(a := 3)", "a = 3", "a; b", "a and b", "not a", "a < b", "sin(a < b)", "where(a, b, c)", "sin(x=a)", "sin(*a)",
    "sin(**a)", "sin()", "sin(a, b)", "a ^ b", "a // b", "a % b", "a @ b", "a | b", "a & b", "a << b", "~a", "a is b",
    "where(a in b, 1, 2)", "await a", "yield a", "...", "None", "True", "1j", "9**9**9", "9**9**9**9**9", "1/0",
    "log(0)", "0/0", "1e999", "1" * 400, "1" * 4900, "import os", "print(a)", "__builtins__", "__class__", "_a",
    "a # comment", "a \\ b", "a\x00b", "a\u202eb", "sin.a", "sin", "sin(sin)", "pi()", "a(b)", "2(a)", "(a)(b)", "2a",
    "a b", "a +", "(a", "a)", "", "   ", "(" * 500 + "a" + ")" * 500, "-" * 4000 + "a", "sin(" * 60 + "a" + ")" * 60,
    "2**" * 1000 + "a", "where(" + "not " * 1000 + "a < b, 1, 2)", "a+" * LONGEST_TEXT + "a", "$a", "a?b", "`a`", "a!",
]


@pytest.mark.parametrize("text", MALICIOUS, ids=lambda text: repr(text[:30]))
def test_what_is_not_an_equation_is_refused_at_once_with_a_caret(text):
    begin = time.perf_counter()
    with pytest.raises(ProblemError) as caught:
        read(text)
    assert time.perf_counter() - begin < 1
    sentence, shown, caret = str(caught.value.faults[-1]).split("\n")
    assert sentence.startswith("rate of 'v': ")
    assert caret.strip() == "^"
    assert len(caret) <= max(len(shown), 4) + 1
    assert len(shown) < 140


@pytest.mark.parametrize(("text", "character"), [
    ("a + b.real", "."), ("a + (b).real", "."), ("a*b ^ 2", "^"), ("a*(b + c) // 2", "//"), ("a + foo(b)", "foo"),
    ("a + wrong*b", "wrong"), ("a + 'x'", "'"), ("a + 1/0", "/0"), ("sin(a) + sin(a, b)", "sin(a, b)"),
    ("where(v, 1, 2)", "v"), ("sin(x=a)", "x"), ("a + (b > c)", "b > c"), ("a + [b]", "["),
    ("where(a in b, 1, 2)", "in"),
])
def test_the_caret_stands_under_the_offending_character(text, character):
    with pytest.raises(ProblemError) as caught:
        read(text)
    _, shown, caret = str(caught.value).split("\n")
    assert shown[caret.index("^"):].startswith(character)


def test_the_caret_counts_characters_not_bytes():
    with pytest.raises(ProblemError) as caught:
        parse_expression("αβγ + δ.x", {name: casadi.SX.sym(name) for name in ("αβγ", "δ")})
    _, shown, caret = str(caught.value).split("\n")
    assert shown[caret.index("^")] == "."


def test_the_caret_stays_right_in_a_long_equation_shown_in_part():
    with pytest.raises(ProblemError) as caught:
        read(" + ".join(["a"] * 300) + " + b.c + " + " + ".join(["x"] * 300))
    _, shown, caret = str(caught.value).split("\n")
    assert shown[caret.index("^"):].startswith(".c")


def test_all_unknown_names_of_an_equation_are_listed_with_what_was_meant():
    symbols = {name: casadi.SX.sym(name) for name in ("mass", "speed")}
    with pytest.raises(ProblemError) as caught:
        parse_expression("mas*sped + mass", symbols)
    assert len(caught.value.faults) == 2
    assert "Did you mean 'mass'?" in caught.value.faults[0]
    assert "Did you mean 'speed'?" in caught.value.faults[1]


def test_an_unknown_function_does_not_hide_an_unknown_name():
    with pytest.raises(ProblemError) as caught:
        read("sinus(wrong) + other")
    assert [fault.split("'")[3] for fault in caught.value.faults] == ["sinus", "wrong", "other"]


def test_a_forgotten_times_sign_is_named():
    with pytest.raises(ProblemError, match=r"To multiply write a\*\(...\)"):
        read("a(b + c)")


def test_a_power_written_with_a_hat_is_named():
    with pytest.raises(ProblemError, match=r"For a power write \*\*"):
        read("a^2")


def test_a_misspelt_function_is_named():
    with pytest.raises(ProblemError, match="Did you mean 'sqrt'"):
        read("sqr(a)")


def test_a_long_sum_is_not_deep():
    assert value_of(read(" + ".join(["a"] * 1000))) == pytest.approx(1000 * POINT["a"])


def test_reading_leaves_the_recursion_limit_alone():
    before = sys.getrecursionlimit()
    with pytest.raises(ProblemError):
        read("-" * 4000 + "a")
    assert sys.getrecursionlimit() == before


def test_names_come_in_order_of_first_appearance_without_functions():
    assert names_in("zeta*sin(a) + pi*b - zeta + t") == ("zeta", "a", "b", "t")


@pytest.mark.parametrize("number", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e15, 1e16, 123456789.0])
def test_numbers_come_back_to_the_bit(number):
    texts, _ = expressions_to_text({"it": casadi.SX(number)}, [])
    assert float(parse_expression(texts["it"], {})) == number


def test_shared_parts_are_written_once_under_a_name_that_is_free():
    e1, y = casadi.SX.sym("e1"), casadi.SX.sym("y")
    shared = casadi.tanh(e1 * y)
    texts, definitions = expressions_to_text({"p": shared + 1, "q": shared * 2 + y}, [e1, y], taken=["e2"])
    assert definitions == {"e3": "tanh(e1*y)"}
    assert all("e3" in text and "tanh" not in text for text in texts.values())


def test_a_deep_expression_is_written_in_parts_that_can_be_read_again():
    expression = SYMBOLS["a"]
    for k in range(400):
        expression = casadi.sin(expression + SYMBOLS["b"] / (k + 1))
    texts, definitions = expressions_to_text({"it": expression}, list(SYMBOLS.values()))
    known = dict(SYMBOLS)
    for name, text in definitions.items():
        known[name] = parse_expression(text, known)
    assert value_of(parse_expression(texts["it"], known)) == value_of(expression)


def test_a_doubling_condition_does_not_double_the_text_forever():
    condition = SYMBOLS["a"] > 0
    for name in ("b", "c", "v", "x") * 5:
        condition = casadi.logic_or(casadi.logic_and(condition, SYMBOLS[name] > 0), casadi.logic_not(condition))
    texts, definitions = expressions_to_text({"it": casadi.if_else(condition, 1, 2)}, list(SYMBOLS.values()))
    assert max(map(len, [*texts.values(), *definitions.values()])) < LONGEST_TEXT


def test_a_comparison_used_as_a_number_is_written_as_a_choice():
    texts, _ = expressions_to_text({"it": (SYMBOLS["a"] > 0) * SYMBOLS["b"]}, list(SYMBOLS.values()))
    assert value_of(read(texts["it"])) == POINT["b"]


def test_a_function_that_text_cannot_hold_is_named():
    with pytest.raises(ProblemError, match="erf"):
        expressions_to_text({"it": casadi.erf(SYMBOLS["a"])}, list(SYMBOLS.values()))
