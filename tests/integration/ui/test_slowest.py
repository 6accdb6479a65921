"""What holds a job up whose functions take no time, as its page says it in a real Chromium: the way in, or consumers.

Functions that take theirs are in test_page.py.
"""

import time
from collections.abc import Iterator, Sequence

import pytest

from flamestream.core.protocol.actions import Bundle
from flamestream.testing.consumer import ConsumerServer
from support.runs.page import KEPT, SPEC, Page, looked_at

TELLS = "document.querySelector('.why')?.textContent.includes('Slowest: {}')"
MARKED = (
    "[...document.querySelectorAll('.vertex.slow text:first-of-type')]"
    ".map(each => each.textContent).sort().join() === '{}'"
)


class Busy:
    """A consumer's work: it answers when this is done."""

    seconds = 0.0

    def __call__(self, bundles: Sequence[Bundle]) -> None:
        time.sleep(self.seconds)


@pytest.fixture(scope="module")
def busy() -> Busy:
    return Busy()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, busy: Busy) -> Iterator[Page]:
    with ConsumerServer(busy) as consumer:
        sinks = {**SPEC["sinks"], "large": {"socket": {"address": consumer.address}}}
        with looked_at(tmp_path_factory.mktemp("page"), {"sinks": sinks}) as made:
            yield made


def test_where_nothing_else_takes_long_it_is_the_way_in(page: Page) -> None:
    page.view("#/jobs/job")
    page.browser.until(TELLS.format("the way in: results leave "))
    page.browser.until(MARKED.format("lines"))


def test_a_consumer_that_answers_late_is_told_with_both_latencies(page: Page, busy: Busy) -> None:
    page.view("#/jobs/job")
    busy.seconds = 0.4
    page.browser.until(TELLS.format("the consumers: results leave after "))
    page.browser.until(MARKED.format("large,totals"))
    page.browser.screenshot(KEPT / "job-consumers.png")
