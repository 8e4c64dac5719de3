import threading

import pytest

from compress.tasks.image_classification.pixels import one_ahead


def test_items_come_in_order_and_one_ahead():
    made = []

    def items():
        for number in range(4):
            made.append(number)
            yield number

    ahead = one_ahead(items())
    assert next(ahead) == 0
    assert list(ahead) == [1, 2, 3]
    assert made == [0, 1, 2, 3]


def test_the_next_item_is_made_while_the_last_is_used():
    begun = threading.Event()

    def items():
        yield 0
        begun.set()
        yield 1

    for item in one_ahead(items()):
        if item == 0:
            assert begun.wait(10)


def test_an_error_reaches_the_caller():
    def items():
        yield 0
        raise OSError("the disk is gone")

    ahead = one_ahead(items())
    assert next(ahead) == 0
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)
