"""One attack, in a process of its own: `python -m attacks.attacker NAME SECONDS`. It says that it is ready,
waits for the site on its input, and prints how often it struck.

Keeps: bounded in count and time; only this machine's ports, and folders that it is given. Its priority is
low: an attacker elsewhere has a processor of its own.
"""

import contextlib
import os
import signal
import sys
import time

from attacks.catalogue import ATTACKS
from attacks.hands import Hands
from attacks.site import decoded

LATE = 1.0
"""Seconds after which a strike that is not over is given up."""


class TimeIsUp(Exception):
    """In the middle of a strike."""


def time_is_up(*_: object) -> None:
    raise TimeIsUp


def main(name: str, seconds: float) -> int:
    os.nice(10)
    signal.signal(signal.SIGALRM, time_is_up)
    attack = ATTACKS[name]
    attack.prepare()
    print("ready", flush=True)
    hands = Hands(decoded(sys.stdin.readline()))
    signal.setitimer(signal.ITIMER_REAL, seconds + LATE)
    start, struck = time.monotonic(), 0
    with contextlib.suppress(TimeIsUp):
        while struck < max(1, attack.a_second * seconds) and (left := start + seconds - time.monotonic()) > 0:
            attack.strike(hands, struck)
            struck += 1
            time.sleep(min(left, max(0.0, start + struck / attack.a_second - time.monotonic())))
        hands.wait(start + seconds - time.monotonic())
    signal.setitimer(signal.ITIMER_REAL, 0)
    return struck


if __name__ == "__main__":
    print(main(sys.argv[1], float(sys.argv[2])), flush=True)
