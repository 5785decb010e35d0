"""How is an estimate shown: in the terminal, as figures, as one page that opens offline?

See the manual, reference/results.

Examples
--------
>>> import dynident as di
>>> decay = di.EquationModel(states={"x": "-k*x"})
>>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
>>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
>>> estimate = di.identify(problem)
>>> di.report.html(estimate, "decay.html").name
'decay.html'
"""

from dynident.report.figures import convergence_figure, estimate_figure, spy_figure, waterfall_figure
from dynident.report.html_report import comparison_html, estimate_fragment, html
from dynident.report.terminal import comparison_text, estimate_text, print_comparison, print_estimate

__all__ = [
    "comparison_html",
    "comparison_text",
    "convergence_figure",
    "estimate_figure",
    "estimate_fragment",
    "estimate_text",
    "html",
    "print_comparison",
    "print_estimate",
    "spy_figure",
    "waterfall_figure",
]
