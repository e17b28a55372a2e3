import threading
import time

import pytest

from pfl.runtime.parallel import in_order


@pytest.mark.parametrize("workers", [1, 3])
def test_results_keep_the_order_of_the_items(workers):
    def work(item):
        time.sleep(0.002 * (item % 3))
        return 10 * item

    assert list(in_order(work, iter(range(20)), workers)) == [10 * i for i in range(20)]


def test_few_items_are_drawn_ahead_of_the_results():
    drawn = []

    def items():
        for item in range(50):
            drawn.append(item)
            yield item

    results = in_order(lambda item: item, items(), 2)
    for done, _ in enumerate(results):
        assert len(drawn) <= done + 6


def test_a_failure_reaches_the_caller():
    def work(item):
        return 1 // item

    with pytest.raises(ZeroDivisionError):
        list(in_order(work, [1, 0, 2], 2))


def test_items_are_worked_on_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)
    assert list(in_order(lambda _: meeting.wait() >= 0, range(2), 2)) == [True, True]
