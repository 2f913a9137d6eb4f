"""What the way to a scenario's server does, and who can do that to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from h3probe.vantage.relay_udp import Impairment

if TYPE_CHECKING:
    from h3probe.lab.toml_table import Table

Udp = Literal["open", "dropped", "answers-dropped", "refused", "refused-admin", "refused-host", "refused-net"]

_REFUSALS: Final = {"refused": "port", "refused-admin": "admin", "refused-host": "host", "refused-net": "net"}
_BEYOND_RELAY: Final = {
    "answers-dropped": "dropping UDP one way",
    "refused-admin": "refusing UDP as administratively prohibited",
    "refused-host": "refusing UDP with host unreachable",
    "refused-net": "refusing UDP with network unreachable",
}
_LEAST_MTU: Final = 576
_MOST_MTU: Final = 65535


@dataclass(frozen=True, slots=True)
class Network:
    """The way to the server.

    Attributes:
        udp: What becomes of datagrams: the client's vanish (`dropped`), or the server's (`answers-dropped`), or the
            client's are refused with an ICMP error, which names the port, the administrator, the host or the network.
        loss: Percent of the packets, in each direction, that vanish.
        mtu: Bytes an IP packet may have; 0 for any.
        delay_ms: Milliseconds added to the round trip.
        dropped_after: The request after which the client's idle connections end, and UDP is dropped; 0 for never.
    """

    udp: Udp = "open"
    loss: int = 0
    mtu: int = 0
    delay_ms: int = 0
    dropped_after: int = 0

    @property
    def options(self) -> list[str]:
        """The options of `h3probe watch --isolate` that make a network like this one."""
        options: list[str] = []
        if self.udp == "dropped":
            options += ["--block-udp", ""]
        elif self.udp == "answers-dropped":
            options += ["--block-udp-answers", ""]
        elif self.udp in _REFUSALS:
            options += ["--reject-udp", _REFUSALS[self.udp]]
        for name, value in (("--loss", self.loss), ("--mtu", self.mtu), ("--delay", self.delay_ms)):
            if value:
                options += [name, str(value)]
        return options

    @property
    def impairment(self) -> Impairment | None:
        """What a relay has to do to be a network like this one; None where it cannot be."""
        if self.beyond_relay:
            return None
        return Impairment(drop_udp=self.udp == "dropped", refuse_udp=self.udp == "refused")

    @property
    def beyond_relay(self) -> str:
        """What of it a relay cannot do, in words; empty where it can do all.

        It forwards TCP untouched and sends no ICMP but what the kernel sends for its own closed port.
        """
        beyond = [_BEYOND_RELAY[self.udp]] if self.udp in _BEYOND_RELAY else []
        beyond += [
            words
            for words, value in (
                (f"losing {self.loss} % of all packets", self.loss),
                (f"an MTU of {self.mtu}", self.mtu),
                (f"{self.delay_ms} ms of delay", self.delay_ms),
            )
            if value
        ]
        return ", ".join(beyond)


def read_network(table: Table, requests: int) -> Network:
    """Read the `network` table.

    Raises:
        UserError: It says what a network cannot be.
    """
    network = Network(
        udp=cast("Udp", table.choice("udp", get_args(Udp)) or "open"),
        loss=table.number("loss", 0, most=100, least=0),
        mtu=table.number("mtu", 0, most=_MOST_MTU, least=_LEAST_MTU) if "mtu" in table else 0,
        delay_ms=table.number("delay_ms", 0, most=60_000, least=0),
        dropped_after=table.number("dropped_after", 0, most=requests - 1, least=0),
    )
    table.finish()
    return network
