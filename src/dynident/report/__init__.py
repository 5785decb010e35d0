"""How is an estimate shown: in the terminal, as figures, as one page that opens offline?"""

from dynident.report.figures import convergence_figure, estimate_figure, spy_figure
from dynident.report.html_report import comparison_html, estimate_fragment, html
from dynident.report.terminal import comparison_text, estimate_text, print_comparison, print_estimate
from dynident.report.waterfall import waterfall_figure

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
