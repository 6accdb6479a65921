"""Functions of a payload that are said by operations on its fields."""
