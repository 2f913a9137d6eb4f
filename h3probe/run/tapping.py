"""What hands events on to a recorder while they are explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.events import CaptureEnded, Frame

if TYPE_CHECKING:
    from h3probe.events import Event, Told
    from h3probe.run.folder import FolderRecorder
    from h3probe.show.progress import Progress
    from h3probe.track.tracker import Tracker

OVERHEAD = 32
"""Bytes that a file has about each packet, by and large."""


@dataclass(slots=True)
class Tapping:
    """A `Tap` that records what it is given.

    Attributes:
        progress: Told how far it is.
        recorder: Gets packets and what else was observed; None where that is recorded already.
    """

    progress: Progress
    recorder: FolderRecorder | None = None

    def note(self, text: str) -> None:
        """The recorder's complaint; it is kept there."""

    def take(self, event: Event, tracker: Tracker) -> None:
        """Take an event that the engine has taken."""
        if isinstance(event, Frame):
            self.progress.advance(len(event.data) + OVERHEAD)
        if self.recorder is not None and not isinstance(event, CaptureEnded):  # which is told anew at the end
            self.recorder.take(event, tracker)

    def observed(self, event: Event) -> None:
        """Take what is no packet, secrets too, which are no part of what is read."""
        if self.recorder is not None:
            self.recorder.observed(event)

    def decrypted(self, event: Told) -> None:
        """Take what decrypted traffic tells."""
        if self.recorder is not None:
            self.recorder.decrypted(event)
