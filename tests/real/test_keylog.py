"""Decrypted traffic of a real client: what h3probe reads, what the client said itself, and what tshark reads."""

import time
from signal import SIGINT

from h3probe.events import Frame, ToldAltSvc, ToldExchange
from h3probe.vantage.files import open_capture, read_key_log
from tests.track.decrypted_builders import told

from .netns import stop, wait_until
from .parts import ADVERTISED, HTTP1, PLAIN, RETRY, Lab, curl

PATH = "/some/path?token=secret"
SETTLE = 2.0
VERSIONS = {"1.1": "HTTP/1.1", "2": "HTTP/2", "3": "HTTP/3"}
TSHARK = "http2.headers.status or http3.headers.status or http.response"

COMMANDS = [
    curl(f"https://localhost:{ADVERTISED}{PATH}", "--http3-only"),
    curl(f"https://localhost:{ADVERTISED}{PATH}", "--http2"),
    curl(f"https://localhost:{ADVERTISED}{PATH}", "--http2", "--tls-max", "1.2"),
    curl(f"https://localhost:{PLAIN}{PATH}", "--http1.1"),
    curl(f"https://localhost:{RETRY}{PATH}", "--http3-only"),
    curl(f"https://localhost:{HTTP1}{PATH}", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"),
    curl(f"https://localhost:{PLAIN}{PATH}", "--http2", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256"),
]


def test_the_client_and_tshark_say_the_same(lab: Lab) -> None:
    """Version and status of each response are the client's own, and stand in the frames in which tshark has them."""
    packets, log = lab.folder / "packets.pcap", lab.folder / "tcpdump.log"
    argv = ["tcpdump", "-i", "lo", "-w", str(packets), "-s", "0", "-U", "-Z", "root", "--time-stamp-precision=nano"]
    with log.open("w") as complaints:
        sniffer = lab.netns.start(argv, cwd=lab.folder, stderr=complaints)
    wait_until(lambda: "listening on lo" in log.read_text(), "tcpdump", sniffer)
    said = []
    for command in COMMANDS:
        ran = lab.run(["env", "SSLKEYLOGFILE=/lab/keys.log", *command])
        version, status, _ = ran.stdout[0].split()
        said.append((VERSIONS[version], int(status)))
    time.sleep(SETTLE)
    stop(sniffer, by=SIGINT)

    secrets = b"".join(event.key_log for event in read_key_log(lab.folder / "keys.log"))
    with open_capture(packets) as reader:
        frames = [event for event in reader if isinstance(event, Frame)]
    events = told(secrets, frames)
    found = [event for event in events if isinstance(event, ToldExchange)]
    assert [(event.version, event.status) for event in found] == said
    assert {event.url.removeprefix(event.origin) for event in found} == {"/some/path?token=…"}
    assert sum(isinstance(event, ToldAltSvc) for event in events) == sum(
        str(ADVERTISED) in c[-1] or str(RETRY) in c[-1] for c in COMMANDS
    )

    ports = [argument for port in (ADVERTISED, PLAIN, HTTP1) for argument in ("-d", f"tcp.port=={port},tls")]
    keys = ["-o", "tls.keylog_file:keys.log", "-Y", TSHARK, "-T", "fields", "-e", "frame.number"]
    second = lab.run(["tshark", "-r", "packets.pcap", *ports, *keys])
    numbers = {frame.time_ns: frame.number for frame in frames}
    assert [str(numbers[event.time_ns]) for event in found] == second.stdout
