"""WHAT COMES BACK: data only; how it was computed stands in statistics, how it is shown in report."""
