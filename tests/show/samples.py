"""Records of a made-up session, shared by the tests of what is shown."""

from __future__ import annotations

from h3probe.records import (
    AltService,
    AltSvcRecord,
    AnyRecord,
    CaptureRecord,
    Close,
    DifferenceRecord,
    DifferenceSide,
    DnsRecord,
    Evidence,
    ExchangeRecord,
    ExpectationRecord,
    FindingRecord,
    IcmpRecord,
    Moment,
    ProcessInfo,
    QuicRecord,
    RaceRecord,
    SummaryRecord,
    TcpRecord,
    TimeDifference,
    TunnelRecord,
    VerdictRecord,
)

TIME = "2026-03-01T12:00:00.000000000Z"
JAVA = ProcessInfo(4711, "java")
CURL = ProcessInfo(50123, "curl")
SERVER = "127.0.0.1:4433"


def moments() -> list[Moment]:
    """A timeline with every transport, direction and weight, known and unknown processes, long and odd texts."""
    java_udp, java_tcp, curl = (JAVA, "127.0.0.1:40752"), (JAVA, "127.0.0.1:51884"), (CURL, "10.0.0.5:33210")
    unnamed, v6 = (None, "192.168.1.20:53412"), "[2001:db8::7:8]:40001"
    dns, proxy, far = "192.168.1.1:53", "10.0.0.1:8888", "[2001:db8:1:2:3:4:5:6]:443"
    rows: list[tuple[float, str, tuple[ProcessInfo | None, str], bool | None, str, str, str]] = [
        (0.0, "dns", unnamed, False, dns, "HTTPS record of example.org: h3, h2", "progress"),
        (0.002, "quic", java_udp, True, SERVER, "Initial 1, ClientHello: h3, no SNI, JDK 26 HttpClient", "start"),
        (0.0025, "icmp", java_udp, False, SERVER, "port unreachable, sent by 127.0.0.1", "bad"),
        (0.071, "tcp", java_tcp, True, SERVER, "SYN", "start"),
        (0.0711, "tcp", java_tcp, False, SERVER, "SYN-ACK", "progress"),
        (0.164, "tcp", java_tcp, True, SERVER, "TLS ready, HTTP/2 offered", "good"),
        (1.001, "quic", java_udp, True, SERVER, "Initial 2, the ClientHello again", "progress"),
        (2.752, "quic", java_udp, None, SERVER, "given up after 2.75 s without an answer", "bad"),
        (3.1, "proxy", curl, True, proxy, "CONNECT www.example.org:443", "start"),
        (3.108, "proxy", curl, False, proxy, "407 Proxy Authentication Required", "bad"),
        (63.5, "quic", (ProcessInfo(99, "a-very-long-name"), v6), True, far, "Initial 1, ClientHello: h3", "start"),
        (64.0, "quic", (None, v6), False, far, "closed: \x1b[31mred\x1b[0m \u202egnp.exe", "bad"),
        (7204.25, "quic", (None, "198.51.100.200:40001"), False, "203.0.113.250:443", "ready: established", "good"),
    ]
    return [
        Moment(round(at * 1e9), at, n, f"c{n}", transport, process, client, server, outgoing, text, weight)  # type: ignore[arg-type]
        for n, (at, transport, (process, client), outgoing, server, text, weight) in enumerate(rows, 1)
    ]


def blocked_finding() -> FindingRecord:
    """A problem with evidence, cost and advice."""
    return FindingRecord(
        "finding-1",
        30.0,
        TIME,
        "repeated-timeout",
        "problem",
        "localhost:4433",
        "The client waited 30 s for QUIC, began again with a new connection ID from the same port, and waited "
        "30 s more. JDK 26 HttpClient retries a ConnectException once.",
        [
            Evidence(3, 0.002, "first Initial, DCID 5cd6…, 1200 bytes"),
            Evidence(9, 15.004, "fifth and last Initial of the first attempt"),
            Evidence(12, 30.012, "CONNECTION_CLOSE 0x0c from the client: No response from peer for 30 seconds"),
            Evidence(None, 30.013, "second attempt, new DCID"),
        ],
        "Set -Djdk.httpclient.quic.maxInitialTimeout=3 to wait less, or -Djdk.httpclient.disableRetryConnect=true "
        "to try once; open UDP port 4433 on the path to have HTTP/3.",
        60.02,
        ["quic-1", "quic-2"],
    )


def findings() -> list[FindingRecord]:
    """One finding of each severity, of two origins."""
    many = [Evidence(n, n / 10, f"Initial {n} to 203.0.113.9:443") for n in range(1, 21)]
    return [
        FindingRecord(
            "finding-2", 0.1, TIME, "quic-refused", "info", "localhost:4433",
            "[::1]:4433 refused QUIC while 127.0.0.1:4433 answered: the server listens on IPv4 alone.",
            [Evidence(2, 0.001, "ICMPv6 port unreachable from ::1")], "", None, ["quic-3"],
        ),
        blocked_finding(),
        FindingRecord(
            "finding-3", 0.1, TIME, "quic-unanswered", "notice", None,
            "20 Initials over 2.0 s and not one datagram back.", many, "Open UDP 443.", None, ["quic-4"],
        ),
    ]  # fmt: skip


def verdicts() -> list[VerdictRecord]:
    """A bad, a good and an undecided verdict."""
    return [
        VerdictRecord(
            "verdict-1", 60.02, TIME, "localhost:4433", "java[4711]", None,
            "No request got through: HTTP/3 was the only version allowed, and UDP to port 4433 is dropped.",
            ["repeated-timeout"],
        ),
        VerdictRecord(
            "verdict-2", 61.0, TIME, "example.org:443", "curl[50123]", {"HTTP/3": 4},
            "HTTP/3 from the first request.", [],
        ),
        VerdictRecord(
            "verdict-3", 61.0, TIME, None, "192.168.1.20", {"HTTP/2": 1, "HTTP/3": 3}, "HTTP/2, then HTTP/3.", [],
        ),
    ]  # fmt: skip


def expectations() -> list[ExpectationRecord]:
    """One that was met, one that was not, and one of no origin."""
    return [
        ExpectationRecord(
            "expectation-1", 61.0, TIME, "localhost:4433", "HTTP/3", False, {"HTTP/2": 1, "HTTP/3": 3},
            "Not HTTP/3 for 1 of 4 requests: 1 HTTP/2.",
        ),
        ExpectationRecord(
            "expectation-2", 61.0, TIME, "example.org:443", "HTTP/3", True, {"HTTP/3": 4}, "HTTP/3 for all 4 requests.",
        ),
        ExpectationRecord("expectation-3", 61.0, None, None, "HTTP/3", False, None, "No request was seen."),
    ]  # fmt: skip


def differences() -> list[DifferenceRecord]:
    """One of each kind: changed, the same, and there in one capture alone."""
    good = DifferenceSide(
        "localhost:4433",
        "127.0.0.1 (JDK 26 HttpClient)",
        "HTTP/3 from the first request, ready after 122 ms.",
        True,
        None,
        ["established"],
        [],
        [],
    )
    bad = DifferenceSide(
        "127.0.0.1:4433",
        "127.0.0.1 (JDK 26 HttpClient)",
        "HTTP/2 or HTTP/1.1, not HTTP/3, after 2.79 s of waiting for QUIC: QUIC was not answered.",
        False,
        {"HTTP/2": 3},
        ["unanswered", None],
        ["established"],
        ["fallback-delay", "quic-unanswered"],
    )
    times = [
        TimeDifference("quic-ready", 0.122, None, None, None),
        TimeDifference("tcp-ready", 0.1, 0.15, 0.05, True),
        TimeDifference("cost", 30.0, 2.79, -27.21, False),
        TimeDifference("head-start", 0.02, 1.2, 1.18, False),
    ]
    came = ["fallback-delay", "quic-unanswered"]
    return [
        DifferenceRecord(
            "difference-1", 0.0, None, "localhost:4433", good, bad, False, came, [], times,
            "In A HTTP/3 from the first request; in B HTTP/2: QUIC was not answered (quic-unanswered).",
        ),
        DifferenceRecord(
            "difference-2", 0.0, None, "example.org:443", good, good, True, [], [], [], "In both HTTP/3.",
        ),
        DifferenceRecord("difference-3", 0.0, None, None, None, bad, False, [], [], [], "Only in B: \x1b[31m東京."),
    ]  # fmt: skip


def summary() -> SummaryRecord:
    """The figures of a capture that lost packets."""
    counts = {"quic": 4, "tcp": 2, "icmp": 1, "finding": 3, "verdict": 3}
    return SummaryRecord("summary-1", 61.0, TIME, 12345, ["Ethernet", "Linux SLL2"], True, 17, 2, 0, counts, 1)


def all_records() -> list[AnyRecord]:
    """At least one record of each type, with and without the values that may be null."""
    q = "quic-1"
    return [
        CaptureRecord("capture-1", 0.0, TIME, 1, "0.1.0", "büro.pcapng", "pcapng"),
        QuicRecord(
            q, 0.002, TIME, "127.0.0.1:40752", SERVER, "v1", "5cd6", "0a", None, None, ["h3"], "q13i0309h3_a_b", "Ii",
            "closed", Close(0x178, "no_application_protocol", "\x9b2J\u2028", "server"), 2, 3, None, 2.75, JAVA,
            "JDK 26",
        ),
        QuicRecord(
            "quic-2", 0.0, TIME, "[::1]:1", "[::1]:2", None, None, None, None, None, None, None, "", None, None, 0,
            None, None, None, None, None,
        ),
        TcpRecord(
            "tcp-1", 0.071, TIME, "127.0.0.1:51884", SERVER, "localhost", ["h2", "http/1.1"], None, None, "established",
            0.0711, 0.164, None, None, 5, JAVA, None,
        ),
        TunnelRecord(
            "tunnel-1", 3.1, TIME, "10.0.0.5:33210", "10.0.0.1:8888", "www.example.org:443", "CONNECT", 407, None, None,
            0, None, "server", "tcp-1", CURL,
        ),
        IcmpRecord("icmp-1", 0.0025, TIME, 3, 3, "port unreachable", "127.0.0.1", q, 4),
        DnsRecord("dns-1", 0.0, TIME, "example.org", None, 1, ["h3", "h2"], None, ["192.0.2.1"], False, 1),
        AltSvcRecord("alt-1", 0.2, TIME, None, 'h3=":443"', [AltService("h3", "", 443, 86400, False)], "wire"),
        ExchangeRecord(
            "x-1", 0.2, TIME, "localhost:4433", "GET", None, 200, "HTTP/2", "inferred", "tcp-1", -1e-12, None,
        ),
        RaceRecord("race-1", 0.0, TIME, None, "127.0.0.1", q, "tcp-1", 0.1 + 0.2, None, 0.164, "tcp", None, None, None),
        *findings(),
        *verdicts(),
        *expectations(),
        *differences(),
        summary(),
    ]  # fmt: skip
