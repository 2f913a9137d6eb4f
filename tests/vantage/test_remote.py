from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import CaptureError, MissingExtraError
from h3probe.records import CaptureRecord
from h3probe.run.explaining import Asked, explained
from h3probe.vantage.files import open_source
from h3probe.vantage.remote import is_url_of_folder, open_url, shown, urls_in
from tests.run.mixes import FOLDER

fsspec = pytest.importorskip("fsspec", reason="no fsspec: pip install 'h3probe[cluster]'")

if TYPE_CHECKING:
    from pathlib import Path

NAME = "curl-http3.pcap"


@pytest.fixture
def memory() -> str:
    """A folder in memory with a capture in it, and a URL of it."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pipe("/captures/b.pcap", (FOLDER / NAME).read_bytes())
    system.pipe("/captures/deeper/a.pcap", (FOLDER / NAME).read_bytes())
    system.pipe("/captures/event", b'{"h3probe":1}\n')
    return "memory://captures"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://bucket/a@b.pcap", "s3://bucket/a@b.pcap"),
        ("s3://KEY@bucket/a.pcap", "s3://…@bucket/a.pcap"),
        ("s3://KEY:SEC/RET@bucket/a@b.pcap", "s3://…@bucket/a@b.pcap"),
        ("http://host:8080/a@b.pcap", "http://host:8080/a@b.pcap"),
        ("sftp://me:a@b@host/a.pcap", "sftp://…@host/a.pcap"),
        ("ftp://me:a@b?c@host/a.pcap", "ftp://…@host/a.pcap"),
        ("https://host/a?X-Amz-Signature=abc&abc", "https://host/a?X-Amz-Signature=…&…"),
        ("zip://a.pcap::sftp://me:x::y@host/b.zip", "zip://a.pcap::sftp://…@host/b.zip"),
        ("/home/me:you@x/a?b=c", "/home/me:you@x/a?b=c"),
    ],
)
def test_credentials_are_not_shown(url: str, told: str) -> None:
    """Neither user information nor the values of a query; the rest stays, and names of files as they are."""
    assert shown(url) == told


def test_a_url_is_explained_like_a_file(memory: str) -> None:
    """The same is said, under the URL's name; `file://` too."""
    here = explained(Asked((str(FOLDER / NAME),))).all_records
    for url in (f"{memory}/b.pcap", f"file://{FOLDER.resolve() / NAME}"):
        there = explained(Asked((url,))).all_records
        assert isinstance(there[0], CaptureRecord)
        assert there[0].source == url
        assert there[1:] == here[1:]


def test_a_folder_is_listed_by_url(memory: str) -> None:
    """All files in it at any depth, by name, as URLs that can be opened."""
    assert is_url_of_folder(memory)
    assert not is_url_of_folder(f"{memory}/b.pcap")
    assert urls_in(f"{memory}/") == [f"{memory}/b.pcap", f"{memory}/deeper/a.pcap", f"{memory}/event"]
    with open_source(urls_in(memory)[1]) as reader:
        assert reader.format == "pcap"


def test_what_cannot_be_opened_is_one_line_without_credentials(memory: str) -> None:
    """A file that is missing, a storage that nobody knows, and a file that is no capture."""
    with pytest.raises(CaptureError, match=r"^memory://…@captures/none cannot be opened: there is no such file$"):
        open_source("memory://me:hidden@captures/none")
    with pytest.raises(CaptureError, match=r"^nowhere://…@x/y cannot be opened: Protocol not known: nowhere$"):
        open_source("nowhere://me:hidden@x/y")
    with pytest.raises(CaptureError, match="captures/event is JSON"):
        open_source(f"{memory}/event")


def test_an_error_in_the_middle_names_no_url(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storages put what they were asked for into their errors; readers get an OSError without it."""

    def failing(*_: object) -> bytes:
        raise RuntimeError("GET https://me:hidden@storage/ failed")

    with open_url(f"{memory}/b.pcap") as stream:
        assert stream.seekable()
        monkeypatch.setattr(type(fsspec.filesystem("memory").store["/captures/b.pcap"]), "read", failing, raising=False)
        with pytest.raises(OSError, match=r"^RuntimeError$"):
            stream.read()


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with what to type."""
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"^s3://…@b/c is a URL, .*: pip install 'h3probe\[cluster\]'$"):
        open_source("s3://k:s@b/c")


def test_a_bundle_is_opened_by_url(tmp_path: Path) -> None:
    """It is read as the same file here is."""
    from h3probe.run.bundling import bundle_captures  # noqa: PLC0415 - here alone
    from h3probe.show.progress import shown_progress  # noqa: PLC0415

    target = tmp_path / "b.h3probe.zip"
    with shown_progress() as progress:
        bundle_captures(Asked((str(FOLDER / NAME),)), target, full=False, force=False, progress=progress)
    here, there = (explained(Asked((name,))).all_records for name in (str(target), f"file://{target}"))
    assert there[1:] == here[1:]
