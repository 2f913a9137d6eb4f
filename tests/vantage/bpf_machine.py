"""A machine for the kernel's filters: what `bpf` writes, run on any bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from h3probe.vantage.assembler import DIRECTION, HARDWARE_TYPE, INTERFACE, NETWORK, PROTOCOL

WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Seen:
    """A packet as a filter sees it.

    Attributes:
        data: From the link header on.
        network: Where in it the network header begins.
        protocol: The EtherType.
        direction: 0 for one that came to this host, 4 for one that it sent.
        interface: An index.
        hardware: An ARPHRD_ number.
    """

    data: bytes
    network: int = 14
    protocol: int = 0x0800
    direction: int = 0
    interface: int = 1
    hardware: int = 1


def run(program: bytes, seen: Seen) -> int:  # noqa: C901, PLR0912 - a case for each operation
    """What the program returns: how many bytes of the packet are kept (Documentation/networking/filter.rst)."""
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    a = x = at = 0
    memory = [0] * 16
    while True:
        operation, true, false, k = code[at]
        at += 1
        value = x if operation & 0x08 and operation & 0x07 in {4, 5} else k
        match operation:
            case 0x06 | 0x16:
                return k if operation == 0x06 else a
            case 0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50:
                loaded = load(seen, k, x if operation & 0x40 else 0, {0x00: 4, 0x08: 2, 0x10: 1}[operation & 0x18])
                if loaded is None:
                    return 0
                a = loaded
            case 0xB1:
                loaded = load(seen, k, 0, 1)
                if loaded is None:
                    return 0
                x = (loaded & 0x0F) * 4
            case 0x00:
                a = k
            case 0x01:
                x = k
            case 0x60:
                a = memory[k]
            case 0x02:
                memory[k] = a
            case 0x80:
                a = len(seen.data)
            case 0x07:
                x = a
            case 0x87:
                a = x
            case 0x04 | 0x0C:
                a = a + value & WORD
            case 0x14:
                a = a - k & WORD
            case 0x54:
                a &= k
            case 0x74:
                a >>= k
            case 0x05:
                at += k
            case 0x15 | 0x25 | 0x2D | 0x35 | 0x3D | 0x45:
                kind = operation & 0xF0
                holds = {0x10: a == value, 0x20: a > value, 0x30: a >= value, 0x40: bool(a & value)}[kind]
                at += true if holds else false
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")


def load(seen: Seen, k: int, x: int, size: int) -> int | None:
    """A number from the packet, or from beside it; None where there is none, which ends the program."""
    beside = {
        PROTOCOL: seen.protocol,
        DIRECTION: seen.direction,
        INTERFACE: seen.interface,
        HARDWARE_TYPE: seen.hardware,
    }
    if k in beside:
        return beside[k]
    at = k - NETWORK + seen.network + x if k >= NETWORK else k + x
    return int.from_bytes(seen.data[at : at + size]) if 0 <= at <= len(seen.data) - size else None
