"""Array pointers: where in memory does an array begin, asked several times faster than by `array.ctypes.data`?"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class KeepsPointers:
    """Remembers addresses of its arrays or compiled loops, which a copy in another place or process must not."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("pointers", "loops")}


def address(array: np.ndarray) -> int:
    """This counts where a compiled call takes some ten microseconds. Of an array without numbers: none."""
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]  # an array is a buffer
    except TypeError:  # not to be written to
        return array.ctypes.data if array.size else 0
    except ValueError:  # empty
        return 0


def addresses(*arrays: np.ndarray) -> list[int]:
    """Give arrays that have a name: one that is made in the call is gone before anybody uses its address."""
    return [address(a) for a in arrays]
