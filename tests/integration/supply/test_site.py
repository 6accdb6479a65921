"""The site that `make docs` has made, in a browser and from a folder, as who has no network reads it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import Browser

SITE = Path(__file__).parents[3] / "site"
PAGES = sorted(page for page in SITE.rglob("*.html") if page.name != "404.html")
"""All but what only a server shows."""
NARROW = 360
"""Pixels: a telephone."""
PICTURES_MISSING = (
    "[...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)"
)
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not PAGES:
        pytest.skip("no site: `make docs` makes it")
    with Browser(tmp_path_factory.mktemp("chromium") / "profile") as running:
        yield running


def test_every_page_is_whole_on_a_narrow_screen_and_asks_nobody(browser: Browser) -> None:
    browser.wide(NARROW)
    missing, wider = {}, {}
    for page in PAGES:
        browser.open(page.as_uri())
        missing[page.name], wider[page.name] = browser.value(PICTURES_MISSING), browser.value(SIDEWAYS)
    assert not {page: pictures for page, pictures in missing.items() if pictures}
    assert not {page: pixels for page, pixels in wider.items() if pixels > 0}
    assert not browser.faults
    assert not [
        address
        for address in browser.requested
        if not address.startswith(("file:", "data:", "blob:", "about:"))
    ]


def test_pictures_of_graphs_are_drawn_without_a_network(browser: Browser) -> None:
    browser.open((SITE / "how-to" / "graph.html").as_uri())
    browser.until(
        "document.querySelectorAll('div.mermaid').length > 5 && !document.querySelector('pre.mermaid')"
    )
    assert not browser.faults


def test_search_finds_a_word_without_a_server(browser: Browser) -> None:
    browser.open((SITE / "index.html").as_uri())
    browser.value("""{
        document.querySelector("[data-md-toggle=search]").click();
        const query = document.querySelector("[data-md-component=search-query]");
        query.focus();
        query.value = "watermark";
        query.dispatchEvent(new KeyboardEvent("keyup"));
    }""")
    browser.until("document.querySelector('.md-search-result__item a')")
    found = browser.value(
        "[...document.querySelectorAll('.md-search-result__item a')].map(link => link.getAttribute('href'))"
    )
    assert any("glossary.html" in link for link in found)
    assert not browser.faults
