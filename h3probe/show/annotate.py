"""What packets showed, written beside them: comments for Wireshark, out of moments and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.records import FindingRecord, QuicRecord, RaceRecord, TcpRecord, VerdictRecord
from h3probe.text import clean, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.records import AnyRecord, Moment, ProcessInfo

PREFIX = "h3probe: "
LIMIT = 50_000
"""Packets that get a comment for what happened; what findings are proved by gets one always."""
LONGEST = 512
"""Characters of one line."""
VERDICTS = 100
"""Verdicts that are told of the whole file."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What stands beside one packet.

    Attributes:
        text: Lines, each with `PREFIX`.
        pid: The process that sent it; None where it is not known, or came back.
    """

    text: str
    pid: int | None = None


type _Seen = tuple[str | None, bool | None, str]
"""Of a moment: its connection, whether it is outgoing, its text."""


class Annotator:
    """Collects moments and records as they come, and tells at the end what stands beside which packet.

    Attributes:
        left_out: Packets that got no comment, beyond the first `LIMIT`.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._seen: dict[int, list[_Seen]] = {}
        self._proofs: dict[int, list[str]] = {}
        self._ready: dict[str, int] = {}
        self._processes: dict[str, ProcessInfo] = {}
        self._begun: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._attempts: dict[int, list[str]] | None = None
        self._verdicts: list[str] = []

    def moments(self, moments: Iterable[Moment]) -> None:
        """Take what happened."""
        for moment in moments:
            if moment.frame is None:
                continue
            if moment.frame not in self._seen and len(self._seen) >= LIMIT:
                self.left_out += 1
                continue
            self._seen.setdefault(moment.frame, []).append((moment.connection, moment.outgoing, moment.text))
            if moment.connection is not None and moment.weight == "good":
                self._ready.setdefault(moment.connection, moment.frame)

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Take what is settled."""
        for record in records:
            match record:
                case QuicRecord() | TcpRecord():
                    self._connection(record)
                case RaceRecord():
                    self._race(record)
                case FindingRecord():
                    for proof in record.evidence:
                        if proof.frame is not None:
                            text = f"{record.rule} ({record.severity}): {proof.what}"
                            self._proofs.setdefault(proof.frame, []).append(text)
                case VerdictRecord():
                    if len(self._verdicts) < VERDICTS:
                        self._verdicts.append(f"{record.origin or 'any origin'}, {record.client}: {record.sentence}")
                case _:
                    pass

    @property
    def whole(self) -> str | None:
        """What is told of the whole file: the verdicts; None where there are none."""
        return "\n".join(_line(verdict) for verdict in self._verdicts) or None

    def annotation(self, frame: int) -> Annotation | None:
        """What stands beside a packet, by its number from 1; everything must have been taken by now."""
        if self._attempts is None:
            self._attempts = self._further_attempts()
        seen, proofs = self._seen.get(frame, []), self._proofs.get(frame, [])
        if not seen and not proofs:
            return None
        owners = [(self._processes.get(connection or ""), outgoing) for connection, outgoing, _ in seen]
        named = next((owner for owner, _ in owners if owner is not None), None)
        pid = next((owner.pid for owner, outgoing in owners if owner is not None and outgoing), None)
        said = [text for _, _, text in seen]
        if named is not None:
            said[0] = f"{said[0]}, {named.name}[{named.pid}]"
        lines = dict.fromkeys(map(_line, (*said, *self._attempts.get(frame, ()), *proofs)))
        return Annotation("\n".join(lines), pid)

    def _connection(self, record: QuicRecord | TcpRecord) -> None:
        if record.process is not None and len(self._processes) < LIMIT:
            self._processes[record.id] = record.process
        if isinstance(record, QuicRecord) and record.first_packet is not None and record.initials_sent:
            begun = self._begun.setdefault((record.client, record.server), [])
            if len(self._begun) < LIMIT:
                begun.append((record.first_packet, record.id))

    def _further_attempts(self) -> dict[int, list[str]]:
        """Further attempts over one socket: nothing but the connection ID tells them from a retransmission."""
        return {
            frame: [f"attempt {number} over QUIC from the same port, new DCID (before it: {begun[number - 2][1]})"]
            for begun in map(sorted, self._begun.values())
            for number, (frame, _) in enumerate(begun, 1)
            if number > 1
        }

    def _race(self, race: RaceRecord) -> None:
        if race.ready_margin is None or race.first_ready is None:
            return
        first, second = ("QUIC", "TCP") if race.first_ready == "quic" else ("TCP", "QUIC")
        frame = self._ready.get(race.tcp if first == "QUIC" else race.quic)
        if frame is not None:
            text = f"{second} ready, {seconds(abs(race.ready_margin))} after {first}"
            self._seen.setdefault(frame, []).append((None, None, text))


def _line(text: str) -> str:
    return PREFIX + clean(text, LONGEST)
