"""Simulated stand-ins for the outside of a job: network, links, journals, stores, the job record, consumers
and producers."""
