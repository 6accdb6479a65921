"""Calls: functions that ask the outside, what they ask with, and chains of functions that are made such."""
