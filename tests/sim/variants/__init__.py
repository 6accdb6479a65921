"""Every broken variant: the engine without one of its rules, each to be caught by the simulator (docs/reliability.md has the table)."""

from sim.variants import decisions, deliveries, states, times

VARIANTS = [*times.VARIANTS, *states.VARIANTS, *deliveries.VARIANTS, *decisions.VARIANTS]
