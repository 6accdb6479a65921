"""A Markdown table of each figure, from its rows."""
