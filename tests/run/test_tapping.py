"""What hands events on to a recorder while they are explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from h3probe.events import CaptureEnded, Frame, Secrets, ToldAltSvc
from h3probe.run.tapping import OVERHEAD, Tapping
from h3probe.show.progress import Progress
from h3probe.track.tracker import Tracker

if TYPE_CHECKING:
    from h3probe.run.folder import FolderRecorder

FRAME = Frame(1, 1, 1, bytes(60), 60)


class Kept(Progress):
    """A progress that adds up."""

    def __init__(self) -> None:
        super().__init__(None)
        self.size = 0

    def advance(self, size: int) -> None:
        """Add."""
        self.size += size


class Recording:
    """A recorder that remembers what it is given."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def take(self, event: object, tracker: Tracker) -> None:
        """Remember."""
        del tracker
        self.given.append(event)

    def observed(self, event: object) -> None:
        """Remember."""
        self.given.append(event)

    decrypted = observed


def test_everything_is_handed_on_but_the_end() -> None:
    """Packets, observations and what was decrypted reach the recorder; how the capture ended is told anew."""
    recording, progress = Recording(), Kept()
    tapping = Tapping(progress, cast("FolderRecorder", recording))
    told = ToldAltSvc(1, "decrypted", "https://example.org:443", ("clear",))
    tapping.take(FRAME, Tracker())
    tapping.take(CaptureEnded(truncated=False, dropped=0), Tracker())
    tapping.observed(Secrets(b""))
    tapping.decrypted(told)
    assert recording.given == [FRAME, Secrets(b""), told]
    assert progress.size == 60 + OVERHEAD


def test_without_a_recorder_the_progress_goes_on() -> None:
    """Where everything is recorded already, nothing is handed on, and how far it is is told all the same."""
    progress = Kept()
    tapping = Tapping(progress)
    tapping.take(FRAME, Tracker())
    tapping.observed(Secrets(b""))
    assert progress.size == 60 + OVERHEAD
