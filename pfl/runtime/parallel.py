"""Work on a stream of items by several threads, with results in order and memory bounded.

joblib's ``Parallel(return_as="generator")`` draws all items while results wait to be taken, and so
does not bound memory.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order, with ``workers`` of them under way at a time.

    Threads suffice where NumPy does the work: it frees the interpreter lock. At most twice as many
    items as workers are drawn ahead of the results, so that memory stays bounded.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
