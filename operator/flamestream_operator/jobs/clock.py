"""Moments as Kubernetes writes them, for the operator's core.

Does not: read a clock.
"""

from flamestream.job.moments import CLOCKS_DIFFER, moment, passed, precise, written

__all__ = ["CLOCKS_DIFFER", "moment", "passed", "precise", "written"]
