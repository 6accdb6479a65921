"""A module a figure: `python benchmarks FIGURE --help`."""
