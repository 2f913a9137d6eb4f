from __future__ import annotations

import sys

import pytest

from h3probe.vantage.assembler import Assembler


@pytest.mark.skipif(sys.byteorder != "little", reason="compares with bytes of a little-endian machine")
def test_assembled_bytes() -> None:
    """Instructions are 8 bytes in the machine's order, with branches counted from the next one."""
    code = Assembler()
    code.emit(0x15, 7, true="far", false="near")
    code.label("near")
    code.emit(0x06, 1)
    code.label("far")
    code.emit(0x06, 2)
    assert code.assemble().hex(" ", 8) == "1500010007000000 0600000001000000 0600000002000000"


@pytest.mark.parametrize("filler", [256, 300])
def test_branch_too_far(filler: int) -> None:
    """A conditional branch over more than 255 instructions is refused, not cut to a byte."""
    code = Assembler()
    code.emit(0x15, 7, true="end")
    for _ in range(filler):
        code.emit(0x06, 0)
    code.label("end")
    code.emit(0x06, 1)
    with pytest.raises(ValueError, match="too far"):
        code.assemble()


def test_branch_backwards_or_nowhere() -> None:
    """A branch to a label that is behind it, or that there is not, is refused."""
    code = Assembler()
    code.label("start")
    code.emit(0x05, true="start")
    with pytest.raises(ValueError, match="no start"):
        code.assemble()
