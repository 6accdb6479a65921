"""What an audit says: every slot's items, as delivered, beside a sequential interpreter's. Lies beside outside.py in its pod."""

from typing import Any


def verdict_of(expected: dict[int, list[bytes]], got: dict[int, list[bytes]], disorder: int, sent: int) -> dict[str, Any]:
    """Counts of what is lost, doubled, reordered or of nowhere, the first difference, and whether all of `expected` is there."""
    lost = doubled = foreign = 0
    first = ""
    for slot in sorted({*expected, *got}):
        wanted, found = expected.get(slot, []), got.get(slot, [])
        common = next((at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found)))
        if common < len(found):
            first = (
                first or f"slot {slot}, item {common}: {found[common]!r} instead of {wanted[common] if common < len(wanted) else None!r}"
            )
            doubled += len(found) - len(set(found))
            foreign += len(set(found) - set(wanted))
            lost += len(set(wanted[: len(found)]) - set(found))
    missing = sum(map(len, expected.values())) - sum(map(len, got.values()))
    clean = not (lost or doubled or foreign or disorder or first)
    return {
        "documents": sent, "items": sum(map(len, got.values())), "missing": missing, "complete": clean and missing == 0, "clean": clean,
        "lost": lost, "doubled": doubled, "foreign": foreign, "reordered": disorder, "first_difference": first[:500],
    }  # fmt: skip
