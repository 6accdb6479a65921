"""The pages hold together: what is made from the code is current, every link leads somewhere, and the site
shows every page."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(
    DOCS.rglob("*.md")
)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
sys.path.append(str(ROOT / "scripts"))

import dashboards  # noqa: E402  # from the line above
import reference_pages  # noqa: E402  # the same


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_that_is_made_from_the_code_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == reference_pages.PAGES[name](), "run: make reference"


@pytest.mark.parametrize("name", dashboards.DASHBOARDS)
def test_a_dashboard_is_what_its_table_of_panels_makes(name: str) -> None:
    assert (dashboards.FOLDER / name).read_text() == dashboards.text(name), "run: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_is_there(page: Path) -> None:
    assert not list(broken(page, page.read_text()))


def test_a_broken_link_is_seen() -> None:
    text = "[a](nowhere.md) [b](reference/glossary.md#no-such-part) [c](reference/glossary.md) [d](https://example.org)"
    assert list(broken(DOCS / "index.md", text)) == ["nowhere.md", "reference/glossary.md#no-such-part"]


def broken(page: Path, text: str) -> Iterator[str]:
    """Links of `text` to files and headings that are not there."""
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not re.match(r"[a-z]+:", link) and not (
            target.exists() and (not anchor or anchor in anchors(target))
        ):
            yield link


@cache
def anchors(page: Path) -> set[str]:
    """Of its headings, as a forge and the site make them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_site_shows_every_page() -> None:
    """All but decisions stand in its menu; those are on a page of their own."""
    menu = set(
        re.findall(r"[\w-]+(?:/[\w-]+)*\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    )
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if not re.match(r"\d", page.name)}
    assert menu == there


DECISIONS = {page: page.name[:3] for page in (DOCS / "decisions").rglob("[0-9]*.md")}


def test_no_two_decisions_have_one_number() -> None:
    assert len(set(DECISIONS.values())) == len(DECISIONS)
    assert all(page.read_text().startswith(f"# {number}: ") for page, number in DECISIONS.items())


def test_a_decision_that_is_named_is_there() -> None:
    listed = subprocess.run(
        ["git", "grep", "-hoE", "[Dd]ecisions? [0-9]{3}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = {mention[-3:] for mention in listed.stdout.splitlines()}
    assert "006" in named
    assert named <= set(DECISIONS.values())
