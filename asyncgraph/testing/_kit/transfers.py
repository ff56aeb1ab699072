"""Transfers: what goes to a device, from one to another, or over DLPack comes back as it was."""

from __future__ import annotations

import json
import re
from abc import ABC
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from ...abc import Array, Backend, Capabilities, Device
from .base import HostArray, KitBase, group, on_device, on_host, within
from .cases import DTYPES
from .layouts import any_memory

_KIND: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_LARGE: Final = 1 << 20
"""Elements of an array that a backend may move in pieces."""


class Transfers(KitBase, ABC):
    """What is asked of the backend alone: its devices, and the ways to them and back."""

    @group("transfers")
    def test_it_has_a_name_and_distinct_devices(self, backend: Backend, devices: Sequence[Device]) -> None:
        """`name`, `capabilities` and `devices()` are what they are said to be."""
        assert backend.name
        assert isinstance(backend.capabilities, Capabilities)
        assert len(devices) > 0
        assert len(set(devices)) == len(devices)
        for one in devices:
            assert _KIND.match(one.kind), f"{one.kind!r} is not lower-case letters, digits and '_'"
            assert one.index >= 0

    @group("transfers")
    def test_its_details_are_values_that_json_has(self, backend: Backend, devices: Sequence[Device]) -> None:
        """For `doctor`, which shows them of every backend."""
        assert json.dumps(dict(backend.details()))

    @group("transfers")
    def test_every_expected_failure_is_the_name_of_a_test(self) -> None:
        """A name that is none would hide that a test was renamed, or never failed."""
        assert sorted(set(self.expected_failures) - set(self.names_of_tests())) == []

    @group("transfers")
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_an_array_comes_back_as_it_was(self, dtype: str, backend: Backend, devices: Sequence[Device]) -> None:
        """Its dtype, shape and bits, from every device, whatever its strides; it is not written meanwhile."""
        if dtype not in self.dtypes:
            pytest.skip("the backend lacks the dtype")
        for where in devices:
            for array in any_memory(dtype):
                before = array.tobytes()
                back = within(backend, where, lambda: backend.to_host(backend.to_device(array, where)))  # noqa: B023  # called at once
                _check_same(back, array)
                assert array.tobytes() == before

    @group("transfers")
    def test_a_large_array_comes_back_as_it_was(self, backend: Backend, devices: Sequence[Device]) -> None:
        """Also one whose elements are not next to each other, there and back in two steps."""
        array = np.arange(2 * _LARGE, dtype=self.a_float())[::-2]
        for where in devices:
            (back,) = on_host(backend, where, on_device(backend, where, array))
            _check_same(back, array)

    @group("transfers")
    def test_values_go_from_device_to_device_through_the_host(
        self, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """What one device computed, another takes."""
        array = np.arange(6, dtype=self.a_float()).reshape(2, 3)
        for start in devices:
            for end in devices:
                (between,) = on_host(backend, start, on_device(backend, start, array))
                (back,) = on_host(backend, end, on_device(backend, end, between))
                _check_same(back, array)

    @group("transfers")
    def test_values_go_from_device_to_device_where_that_is_declared(
        self, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """`to_device` takes an array of another device."""
        if not backend.capabilities.between_devices or len(devices) < 2:
            pytest.skip("the backend does not declare between_devices, or has one device")
        array = np.arange(6, dtype=self.a_float()).reshape(2, 3)
        for start in devices:
            for end in devices:
                (back,) = on_host(backend, end, on_device(backend, end, on_device(backend, start, array)))
                _check_same(back, array)

    @group("transfers")
    def test_an_array_is_taken_over_dlpack_where_that_is_declared(
        self, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """Arrays say on which device they are, and are taken there as the backend's own, with their values."""
        kind = _dlpack(backend)
        array = np.arange(6, dtype=self.a_float()).reshape(2, 3)
        for where in devices:
            given = on_device(backend, where, array)
            assert tuple(map(int, given.__dlpack_device__())) == (kind, where.index)
            taken = within(backend, where, lambda: backend.from_dlpack(given, where))  # noqa: B023  # called at once
            _check_same(on_host(backend, where, taken)[0], array)

    @group("transfers")
    def test_what_is_not_exchanged_over_dlpack_is_not_taken(self, backend: Backend, devices: Sequence[Device]) -> None:
        """Without the capability, `from_dlpack` is not implemented."""
        if backend.capabilities.dlpack is not None:
            pytest.skip("the backend declares dlpack")
        with pytest.raises(NotImplementedError):
            within(backend, devices[0], lambda: backend.from_dlpack(np.zeros(2), devices[0]))


def _dlpack(backend: Backend) -> int:
    kind = backend.capabilities.dlpack
    if kind is None:
        pytest.skip("the backend does not declare dlpack")
    return kind


def _check_same(back: Array, array: HostArray) -> None:
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    # Not left to pytest's comparison of bytes, which takes minutes for megabytes where the variable CI is set.
    if back.tobytes() != array.tobytes():
        np.testing.assert_array_equal(back, array)
        raise AssertionError(f"equal values of other bytes: got {back!r}, expected {array!r}")
