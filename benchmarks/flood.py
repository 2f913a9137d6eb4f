"""Loopback as busy as its processors make it: long transfers over UDP and TCP, until somebody ends this process.

    python -m benchmarks.flood SECONDS

It is started by `benchmarks.load`, once for each processor. UDP goes by sendmmsg(2), a system call for hundreds of
datagrams, which look like QUIC's short headers; nobody reads them. TCP is written beside it, and read.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
import time

FLOWS = 4
TRAIN = 256
SIZE = 100
"""Bytes of a datagram: what counts is their number."""


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("parts", ctypes.POINTER(_Part)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    _fields_ = (("header", _Header), ("sent", ctypes.c_uint))


def send_datagrams(until: float) -> None:
    """Send trains from a few ports to sockets that are there and are not read."""
    payload = ctypes.create_string_buffer(b"\x41" + os.urandom(SIZE - 1), SIZE)
    part = _Part(ctypes.addressof(payload), SIZE)
    messages = (_Message * TRAIN)()
    for message in messages:
        message.header.parts, message.header.count = ctypes.pointer(part), 1
    libc = ctypes.CDLL(None)
    pairs = []
    for _ in range(FLOWS):
        sink, source = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
        sink.bind(("127.0.0.1", 0))
        source.connect(sink.getsockname())
        pairs.append((sink, source))
    while time.monotonic() < until:
        for _, source in pairs:
            libc.sendmmsg(source.fileno(), messages, TRAIN, 0)


def send_stream(until: float) -> None:
    """Write to a TCP connection whose other end reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = socket.create_connection(server.getsockname())
        sink, _ = server.accept()
    threading.Thread(target=_swallow, args=(sink,), daemon=True).start()
    data = bytes(1 << 16)
    while time.monotonic() < until:
        source.sendall(data)
        time.sleep(0.001)


def _swallow(sink: socket.socket) -> None:
    room = bytearray(1 << 20)
    while sink.recv_into(room):
        pass


def main() -> None:
    """Flood for a time."""
    until = time.monotonic() + float(sys.argv[1])
    threading.Thread(target=send_stream, args=(until,), daemon=True).start()
    send_datagrams(until)


if __name__ == "__main__":
    main()
