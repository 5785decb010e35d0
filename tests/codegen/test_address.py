"""Is the address of an array that of its first number, whatever the array is?"""

from __future__ import annotations

import numpy as np
import pytest

from dynident.codegen.pointers import address


def still(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((4, 5))[1:], np.zeros((4, 5))[:, 2],
                                   still(np.ones(3)), np.asfortranarray(np.zeros((3, 4))), np.zeros(3, np.uint8)])
def test_address_is_that_of_the_first_number(array):
    assert address(array) == array.ctypes.data


def test_without_numbers_there_is_none():
    assert address(np.zeros((2, 0))) == 0
