"""`python -m tests.support.fake_mig LIBRARY HOST GPU COUNT`: add MIG instances to a GPU of a host engine.

By DCGM's test API (`dcgmCreateFakeEntities`): each instance has one compute instance. The engine forgets them when it
ends.
"""

from __future__ import annotations

import ctypes
import sys

_GPU, _INSTANCE, _COMPUTE_INSTANCE = 1, 4, 5
_CAPACITY = 560
_VERSION = 2


class _Entity(ctypes.Structure):
    _fields_ = (("group", ctypes.c_int), ("id", ctypes.c_uint))


class _Link(ctypes.Structure):
    _fields_ = (("parent", _Entity), ("entity", _Entity))


class _Request(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), ("count", ctypes.c_uint), ("links", _Link * _CAPACITY))


def main(library: str, host: str, gpu: str, count: str) -> None:
    """Add instances."""
    dcgm, handle = ctypes.CDLL(library), ctypes.c_void_p()
    assert dcgm.dcgmInit() == 0
    assert dcgm.dcgmConnect(host.encode(), ctypes.byref(handle)) == 0

    def create(parent: tuple[int, int], group: int) -> int:
        request = _Request(version=ctypes.sizeof(_Request) | _VERSION << 24, count=1)
        link = request.links[0]
        link.parent.group, link.parent.id = parent
        link.entity.group = group
        assert dcgm.dcgmCreateFakeEntities(handle, ctypes.byref(request)) == 0
        return int(link.entity.id)

    for _ in range(int(count)):
        create((_INSTANCE, create((_GPU, int(gpu)), _INSTANCE)), _COMPUTE_INSTANCE)


if __name__ == "__main__":
    main(*sys.argv[1:])
