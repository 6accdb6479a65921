"""The papers' experiments: what the seed says, beside what the real core and an exhaustive search show.

    systems, definitions, explore, policies    delivery policies as data, every history of them, and which
                                               definitions of the delivery paper they break
    observed                                   whole jobs of the simulator, seen as their consumers see them
    the others                                 an experiment a file: `run()` gives its Report

Keeps: nothing that is printed is written down here: it is computed, by the explorer or by the core that
ships. Does not: know the command line. Source: "Delivery, consistency, and determinism: rethinking guarantees
in distributed stream processing" (2019, the delivery paper); "FlameStream: model and runtime for distributed
analytical stream processing" (EDBT), and the poster of the same year. Figures, tables and definitions have
the numbers of the authors' public drafts (github.com/flame-stream/Papers): the printed papers were not at
hand.
"""
