"""All attacks, by name."""

from attacks import feeds, insiders, strangers
from attacks.attack import Attack

ATTACKS: dict[str, Attack] = {
    attack.name: attack for attack in (*strangers.ATTACKS, *insiders.ATTACKS, *feeds.ATTACKS)
}
