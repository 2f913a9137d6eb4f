"""Classic BPF, assembled: instructions with labels in, what the kernel takes out."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

# Opcodes (linux/bpf_common.h): class | size | mode.
LOAD_WORD: Final = 0x20
LOAD_HALF: Final = 0x28
LOAD_BYTE: Final = 0x30
LOAD_WORD_AT_X: Final = 0x40
LOAD_HALF_AT_X: Final = 0x48
LOAD_BYTE_AT_X: Final = 0x50
LOAD_NUMBER: Final = 0x00
LOAD_STORED: Final = 0x60
LOAD_LENGTH: Final = 0x80
LOAD_X_NUMBER: Final = 0x01
LOAD_X_HEADER_LENGTH: Final = 0xB1  # X = 4 * (byte & 0x0f), made for IPv4
STORE: Final = 0x02
ADD: Final = 0x04
ADD_X: Final = 0x0C
SUBTRACT: Final = 0x14
AND: Final = 0x54
SHIFT_RIGHT: Final = 0x74
TO_X: Final = 0x07
FROM_X: Final = 0x87
JUMP: Final = 0x05
JUMP_EQUAL: Final = 0x15
JUMP_GREATER: Final = 0x25
JUMP_GREATER_THAN_X: Final = 0x2D
JUMP_AT_LEAST: Final = 0x35
JUMP_AT_LEAST_X: Final = 0x3D
JUMP_SET: Final = 0x45
RETURN: Final = 0x06
RETURN_A: Final = 0x16

# Places outside the packet (linux/filter.h).
_AUXILIARY: Final = 0xFFFFF000
PROTOCOL: Final = _AUXILIARY + 0
DIRECTION: Final = _AUXILIARY + 4
INTERFACE: Final = _AUXILIARY + 8
HARDWARE_TYPE: Final = _AUXILIARY + 28
NETWORK: Final = 0xFFF00000
"""Offsets from here count from the network header."""


@dataclass(slots=True)
class Assembler:
    """Instructions with labels in, the kernel's `struct sock_filter` array out."""

    _code: list[tuple[int, int, str | None, str | None]] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self._labels[name] = len(self._code)

    def emit(self, code: int, value: int = 0, *, true: str | None = None, false: str | None = None) -> None:
        """Append an instruction; a branch without a label falls through."""
        self._code.append((code, value, true, false))

    def assemble(self) -> bytes:
        """The program, 8 bytes an instruction.

        Raises:
            ValueError: A branch goes back, further than 255 instructions, or nowhere.
        """
        return b"".join(self._instruction(at, *parts) for at, parts in enumerate(self._code))

    def _instruction(self, at: int, code: int, value: int, true: str | None, false: str | None) -> bytes:
        if code == JUMP:
            return struct.pack("=HBBI", code, 0, 0, self._distance(at, true))
        distances = self._distance(at, true), self._distance(at, false)
        if max(distances) > 255:
            raise ValueError(f"instruction {at} branches too far")
        return struct.pack("=HBBI", code, *distances, value)

    def _distance(self, at: int, label: str | None) -> int:
        if label is None:
            return 0
        distance = self._labels.get(label, -1) - at - 1
        if distance < 0:
            raise ValueError(f"no {label} after instruction {at}")
        return distance
