"""Files that are watched by one epoll, with who is called when they are ready.

Keeps: a callback is looked up at the last moment, for an earlier one of the same turn may have unwatched its file.
Does not: wait for anything else (reactor.py), or decide when to look (gathering.py). Source: ours. `select.epoll`
itself: `selectors` on top of it doubles the cost of a poll (1.2 against 0.65 us), and we are Linux only.
"""

import select
from collections.abc import Callable
from typing import Final

Call = Callable[[], None]
# Errors and hang-ups come unasked, to both kinds of callback: whoever reads or writes then finds out.
_READABLE: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_WRITABLE: Final = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR


class Files:
    """The files of one epoll."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._callbacks: dict[int, tuple[Call | None, Call | None]] = {}
        self.poll = epoll.poll
        self.fileno = epoll.fileno

    def watch(self, fd: int, readable: Call | None, writable: Call | None) -> None:
        """Call back whenever `fd` is ready. Replaces an earlier watch of the same fd; with neither it is unwatched."""
        if readable is None and writable is None:
            self.unwatch(fd)
            return
        mask = (select.EPOLLIN | select.EPOLLRDHUP if readable else 0) | (select.EPOLLOUT if writable else 0)
        if fd in self._callbacks:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.register(fd, mask)
        self._callbacks[fd] = (readable, writable)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; call it before closing. Unknown ones are ignored."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_back(self, fd: int, events: int) -> None:
        """Call whoever watches `fd`, which is ready."""
        readable, _ = self._callbacks.get(fd, (None, None))
        if readable is not None and events & _READABLE:
            readable()
        _, writable = self._callbacks.get(fd, (None, None))
        if writable is not None and events & _WRITABLE:
            writable()

    def close(self) -> None:
        """Let go of the epoll."""
        self._epoll.close()
