"""Upgrades of a job that runs, measured from outside."""
