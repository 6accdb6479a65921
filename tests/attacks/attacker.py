"""One attack, in a process of its own: `python -m attacks.attacker NAME SECONDS`. It says that it is ready, waits for the site on its
input, and prints how often it struck.

Keeps: bounded in count and time; only this machine's ports, and folders that it is given. Its priority is the lowest: an attacker
elsewhere has a processor of its own.
"""

import os
import sys
import time

from attacks.catalogue import ATTACKS
from attacks.hands import Hands
from attacks.site import decoded


def main(name: str, seconds: float) -> int:
    os.nice(19)
    attack = ATTACKS[name]
    print("ready", flush=True)
    hands = Hands(decoded(sys.stdin.readline()))
    start, struck = time.monotonic(), 0
    while struck < max(1, attack.a_second * seconds) and (left := start + seconds - time.monotonic()) > 0:
        attack.strike(hands, struck)
        struck += 1
        time.sleep(min(left, max(0.0, start + struck / attack.a_second - time.monotonic())))
    hands.wait(start + seconds - time.monotonic())
    return struck


if __name__ == "__main__":
    print(main(sys.argv[1], float(sys.argv[2])), flush=True)
