"""Is an equation set as the formula that it is, and never as markup?"""

from __future__ import annotations

import pytest

from dynident.workbench.mathml import equation, formula, rate_of, symbol


def text(element) -> str:
    """A formula back as text, with the brackets that are drawn."""
    if not isinstance(element, list):
        return element
    name, *children = element
    inside = [text(child) for child in children]
    written = {"mfrac": "{{{0}}}/{{{1}}}", "msup": "{0}^{{{1}}}", "msub": "{0}_{1}", "msqrt": "√{{{0}}}"}
    return written[name].format(*inside) if name in written else "".join(inside)


@pytest.mark.parametrize(("given", "wanted"), [
    ("a + b*c", "a+b⋅c"), ("(a + b)*c", "(a+b)⋅c"), ("a - (b - c)", "a−(b−c)"), ("a - b - c", "a−b−c"), ("-(a + b)", "−(a+b)"),
    ("(a + b)/(c + d)", "{a+b}/{c+d}"), ("a**2", "a^{2}"), ("(a*b)**2", "(a⋅b)^{2}"), ("(-a)**2", "(−a)^{2}"),
    ("a**(b + 1)", "a^{b+1}"), ("sqrt(a)", "√{a}"), ("abs(v)", "|v|"), ("tanh(v/v_smooth)", "tanh({v}/{v_smooth})"),
    ("where(v > 0, 1, -1)", "where(v>0,1,−1)"), ("omega1*t", "ω_1⋅t"), ("a*(-b)", "a⋅(−b)"), ("2.50*x", "2.5⋅x"),
    ("interp(x, [0, 1], [2, 3])", "interp(x,[0,1],[2,3])")])
def test_formula_means_what_the_text_means(given, wanted):
    assert text(formula(given)) == wanted


@pytest.mark.parametrize("given", ["a +", "(", "a b", "a = b", "lambda: 1", "a.b", "x[0]", "", "(" * 500 + ")" * 500])
def test_what_cannot_be_read_has_no_formula(given):
    assert formula(given) is None


def test_a_name_stays_a_text():
    assert symbol("<b>") == ["mi", "<b>"]
    assert equation(rate_of("q"), "v") == ["math", ["mrow", ["mover", ["mi", "q"], ["mo", "˙"]], ["mo", "="], ["mi", "v"]]]
