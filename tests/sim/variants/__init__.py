"""Every broken variant: the engine without one of its rules, each caught by the simulator (table:
docs/explanation/reliability.md)."""

from sim.variants import (
    calls,
    decisions,
    deliveries,
    event_times,
    fronts,
    loads,
    queries,
    releases,
    skips,
    states,
    tables,
    ticks,
    times,
    versions,
)

VARIANTS = [
    *times.VARIANTS,
    *states.VARIANTS,
    *deliveries.VARIANTS,
    *skips.VARIANTS,
    *decisions.VARIANTS,
    *event_times.VARIANTS,
    *calls.VARIANTS,
    *ticks.VARIANTS,
    *fronts.VARIANTS,
    *versions.VARIANTS,
    *loads.VARIANTS,
    *tables.VARIANTS,
    *queries.VARIANTS,
    *releases.VARIANTS,
]
