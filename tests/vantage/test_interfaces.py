from __future__ import annotations

import socket
import sys

import pytest

from h3probe.errors import UserError
from h3probe.vantage import interfaces


def test_indexes_are_the_kernels() -> None:
    """Every interface of this host is found under its name."""
    for index, name in socket.if_nameindex():
        assert interfaces.indexes([name]) == [index]


def test_unknown_name_lists_the_known() -> None:
    """A name that does not exist is refused with the names that do."""
    known = [name for _, name in socket.if_nameindex()]
    with pytest.raises(UserError) as caught:
        interfaces.indexes([known[0], "no such\x1b[31m"])
    message = str(caught.value)
    assert all(name in message for name in known)
    assert "\x1b" not in message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
def test_loopback_is_known_by_the_kernels_word() -> None:
    """Loopback is; one that is not there is not."""
    assert interfaces.is_loopback(interfaces.by_name()["lo"])
    assert not interfaces.is_loopback(987_654)
