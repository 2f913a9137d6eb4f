from __future__ import annotations

import io
import stat
import struct
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.capture import bundle
from h3probe.capture.bundle import CAPTURE, EVENTS, MOST_MEMBERS, SMALL, STEEPEST, Bundle
from h3probe.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRY = b"PK\x01\x02"


def archive(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        for name, data in members:
            made.writestr(name, data, compress_type=method)
    return stream.getvalue()


GOOD = archive((CAPTURE, b"packets"), (EVENTS, b"one\ntwo\n"))


def opened(data: bytes) -> Bundle:
    """A bundle out of bytes."""
    return Bundle(io.BytesIO(data), name="x.zip")


def refused(data: bytes) -> str:
    """The one line with which an archive is refused."""
    with pytest.raises(CaptureError) as caught:
        opened(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(data: bytes, offset: int, layout: str, value: int) -> bytes:
    """The same archive with a field of the first entry of its list changed."""
    at = data.index(ENTRY) + offset
    return data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :]


def test_members_are_streams() -> None:
    """Each is read as it is needed; what is not there is None."""
    found = opened(GOOD)
    capture, events = found.open(CAPTURE), found.open(EVENTS)
    assert capture is not None
    assert events is not None
    assert [capture.read(4), capture.read(100), capture.read(1)] == [b"pack", b"ets", b""]
    assert [events.readline(), events.readline(2), events.readline()] == [b"one\n", b"tw", b"o\n"]
    assert found.open("report.html") is None


def test_unknown_members_do_no_harm() -> None:
    """A later h3probe may put more into a bundle."""
    assert opened(archive((CAPTURE, b""), ("later.txt", b"more"))).open(CAPTURE) is not None


@pytest.mark.parametrize("name", ["../capture.pcapng", "/etc/passwd", "a/b", "a\\b", "c:x", "..", "folder/"])
def test_paths_are_refused(name: str) -> None:
    """Nothing is unpacked by name, and a bundle with a path in it was made to harm others."""
    assert "paths" in refused(archive((CAPTURE, b""), (name, b"")))


def test_two_members_of_one_name() -> None:
    """Which one a reader takes is anybody's guess."""
    with pytest.warns(UserWarning, match="Duplicate"):
        data = archive((CAPTURE, b"one"), (CAPTURE, b"two"))
    assert "two members" in refused(data)


def test_links_and_devices_are_refused() -> None:
    """A bundle has files."""
    for kind in (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO):
        info = zipfile.ZipInfo(EVENTS)
        info.external_attr = (kind | 0o777) << 16
        assert "no files" in refused(archive((CAPTURE, b""), (info, b"/etc/passwd")))


def test_encryption_is_refused() -> None:
    """There is nobody to ask for a password."""
    assert "encrypted" in refused(changed(GOOD, 8, "<H", 1))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_refused(method: int) -> None:
    """Their decoders give all that comes of a block at once."""
    assert "deflate" in refused(archive((CAPTURE, b"packets"), method=method))


def test_what_unpacks_to_too_much_is_refused() -> None:
    """By what the archive says: more than a capture can be, or hundreds of times of what is there."""
    assert "far more" in refused(changed(GOOD, 24, "<I", SMALL + 1))
    half = archive((CAPTURE, bytes(SMALL // 2)))
    assert len(half) * STEEPEST < SMALL // 2
    assert opened(half).open(CAPTURE) is not None


def test_no_more_comes_out_than_was_said() -> None:
    """A member that unpacks to more than the list says ends there, as damage."""
    found = opened(changed(archive((CAPTURE, bytes(100_000))), 24, "<I", 5_000)).open(CAPTURE)
    assert found is not None
    with pytest.raises(OSError, match="CRC"):
        found.read(1 << 20)


def test_little_is_held_of_what_unpacks_to_much() -> None:
    """A member of 60 MB out of 60 kB is read in as little memory as it is asked for."""
    found = opened(archive((CAPTURE, bytes(60_000_000)))).open(CAPTURE)
    assert found is not None
    tracemalloc.start()
    total = 0
    while piece := found.read(1 << 16):
        total += len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 60_000_000
    assert peak < 2_000_000


def test_too_many_members() -> None:
    """A list that grows without end is not read to its end."""
    assert f"more than {MOST_MEMBERS}" in refused(
        archive((CAPTURE, b""), *((f"m{n}", b"") for n in range(MOST_MEMBERS)))
    )


def test_a_list_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of members is not taken into memory beyond what any bundle needs."""
    monkeypatch.setattr(bundle, "MOST_AT_ONCE", 70_000)
    data = archive((CAPTURE, b""), *((f"{n:05}{'m' * 200}", b"") for n in range(1000)))
    assert "too long" in refused(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda _: b"PK\x03\x04" + bytes(100),
        lambda _: archive((EVENTS, b"")),
        lambda data: changed(data, 42, "<I", 7),
    ],
)
def test_what_is_no_bundle(damage: Callable[[bytes], bytes]) -> None:
    """Half an archive, another one, one that leads nowhere: one line each, when it is opened or its capture is."""
    with pytest.raises(CaptureError, match=r"x\.zip is not read as a bundle"):
        opened(damage(GOOD)).open(CAPTURE)


@given(st.data())
def test_whatever_the_bytes(data: st.DataObject) -> None:
    """A damaged archive is refused with a `CaptureError`, or its members end with an `OSError`; nothing else."""
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        member = opened(bytes(damaged)).open(CAPTURE)
        while member is not None and member.read(100):
            pass
    except (CaptureError, OSError):
        pass
