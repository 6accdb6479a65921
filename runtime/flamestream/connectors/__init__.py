"""Connectors: a folder each, beside the kit that they are made with. The registries here know which there
are."""
