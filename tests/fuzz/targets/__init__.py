"""All targets, by name."""

from fuzz.target import Target
from fuzz.targets import durable, http, links, payloads, values

TARGETS: dict[str, Target] = {
    target.name: target for module in (payloads, durable, links, http, values) for target in module.TARGETS
}
