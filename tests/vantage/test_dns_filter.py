from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.vantage import dns_filter
from h3probe.vantage.dns_filter import DnsFilter, answers, asks_for_bindings, nodata, without_bindings
from h3probe.vantage.proxy_ports import claim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

NAME = "example.org."
AT_ONCE = 8
HTTPS = '1 . alpn="h3,h2" ipv4hint=192.0.2.1'
RECORDS = {
    "A": "192.0.2.1",
    "HTTPS": HTTPS,
    "SVCB": "1 svc.example.org. port=8443",
    "TXT": " ".join(["x" * 200] * 20),
}
RRSIG = "HTTPS 13 2 300 20300101000000 20200101000000 1 example.org. AAAA"


def asked(kind: str, *, edns: bool = True) -> bytes:
    """A query."""
    return dns.message.make_query(NAME, kind, use_edns=0 if edns else False, payload=1232).to_wire()


def answered(query: bytes, *records: str, flags: int = dns.flags.AD) -> bytes:
    """An answer with records of these types."""
    message = dns.message.make_response(dns.message.from_wire(query), recursion_available=True, our_payload=1232)
    message.flags |= flags
    for record in records:
        kind, _, text = record.partition(" ")
        message.answer.append(dns.rrset.from_text(NAME, 300, "IN", kind, text or RECORDS[kind]))
    return message.to_wire(max_size=65535)


@pytest.mark.parametrize("kind", ["HTTPS", "SVCB"])
def test_bindings_are_taken_out(kind: str) -> None:
    """Whoever asks for one gets the same answer with nothing in it, EDNS and id kept, and no claim of authenticity."""
    query = asked(kind)
    before = dns.message.from_wire(answered(query, kind, f"RRSIG {RRSIG}"))
    after = dns.message.from_wire(without_bindings(query, before.to_wire()))
    assert (after.answer, after.id, after.question) == ([], before.id, before.question)
    assert (after.rcode(), after.edns, after.payload) == (dns.rcode.NOERROR, 0, 1232)
    assert before.flags ^ after.flags == dns.flags.AD


def test_the_rest_is_kept() -> None:
    """A CNAME before a binding, and other records beside it, stay; so does a truncation."""
    query = asked("ANY")
    answer = answered(query, "CNAME www.example.net.", "HTTPS", "A", flags=dns.flags.TC)
    after = dns.message.from_wire(without_bindings(query, answer))
    assert [rrset.rdtype.name for rrset in after.answer] == ["CNAME", "A"]
    assert after.flags & dns.flags.TC


@pytest.mark.parametrize("record", ["A", "A 0.64.0.65", "TXT"])
def test_other_answers_are_not_touched(record: str) -> None:
    """What has no binding in it comes back byte for byte, whatever its bytes look like."""
    query = asked(record.partition(" ")[0])
    answer = answered(query, record)
    assert without_bindings(query, answer) is answer


def test_an_answer_that_cannot_be_read() -> None:
    """It is NODATA to whoever asked for bindings, and passes untouched otherwise."""
    for kind, edns in (("HTTPS", True), ("HTTPS", False), ("A", True)):
        query = asked(kind, edns=edns)
        broken = answered(query, "HTTPS")[:-3]
        after = without_bindings(query, broken)
        if kind == "A":
            assert after == broken
        else:
            message = dns.message.from_wire(after)
            assert (message.answer, message.id, message.edns) == ([], int.from_bytes(query[:2]), 0 if edns else -1)


def test_a_query_that_cannot_be_read() -> None:
    """One for bindings, with rubbish behind its question, is answered without dnspython."""
    query = asked("HTTPS", edns=False)[:10] + b"\x00\x01" + asked("HTTPS", edns=False)[12:] + b"\xff"
    with pytest.raises(dns.exception.DNSException):
        dns.message.from_wire(query)
    message = dns.message.from_wire(nodata(query))
    assert (message.question[0].rdtype.name, message.answer) == ("HTTPS", [])
    assert answers(query, nodata(query))


@pytest.mark.parametrize(
    "query",
    [b"", bytes(12), bytes(5) + b"\x01" + bytes(6), asked("HTTPS")[:20], asked("A"), b"\x00" * 5 + b"\x01" * 300],
    ids=["nothing", "a header", "one question and no more", "cut", "another type", "pointers"],
)
def test_no_question_for_bindings(query: bytes) -> None:
    """Rubbish and other questions are none."""
    assert not asks_for_bindings(query)


@given(st.binary(max_size=300), st.binary(max_size=300), st.sampled_from([b"", b"\x00\x40", b"\x00\x41"]))
@settings(max_examples=300, deadline=None)
def test_rubbish(query: bytes, answer: bytes, kind: bytes) -> None:
    """Nothing that comes from the network raises."""
    assert isinstance(without_bindings(query, answer + kind), bytes)
    answers(query, answer)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_bent_answers(data: st.DataObject) -> None:
    """An answer with some bytes exchanged never raises, and never brings a binding that can be read."""
    query = asked("HTTPS")
    answer = bytearray(answered(query, "CNAME www.example.net.", "HTTPS", "SVCB", "A"))
    for _ in range(data.draw(st.integers(1, 4))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    after = without_bindings(query, bytes(answer))
    try:
        message = dns.message.from_wire(after)
    except dns.exception.DNSException:
        return
    assert not [rrset for rrset in message.answer if rrset.rdtype in dns_filter.BINDINGS]


# The forwarder


class Upstream(asyncio.DatagramProtocol):
    """A server that says what it is told to, over UDP and TCP on one port."""

    def __init__(self, say: Callable[[bytes], list[bytes]]) -> None:
        self.say = say
        self.asked = 0
        self.enough = asyncio.Event()
        self.port = 0
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Listen over UDP."""
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        """Answer over UDP."""
        self.asked += 1
        if self.asked >= AT_ONCE:
            self.enough.set()
        for answer in self.say(data):
            self._transport.sendto(answer, addr)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer over TCP."""
        try:
            while True:
                query = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
                for answer in self.say(query):
                    writer.write(len(answer).to_bytes(2) + answer)
        except EOFError:
            writer.close()


@asynccontextmanager
async def forwarding(say: Callable[[bytes], list[bytes]]) -> AsyncIterator[tuple[Upstream, int]]:
    """A forwarder before a server."""
    loop = asyncio.get_running_loop()
    # One that is free for both transports: any other has the one, and perhaps not the other.
    where, here = (("127.0.0.1", claim("127.0.0.1", 0, udp=True)[1]) for _ in range(2))
    transport, upstream = await loop.create_datagram_endpoint(lambda: Upstream(say), local_addr=where)
    server = await asyncio.start_server(upstream.connected, "127.0.0.1", upstream.port)
    served = DnsFilter(("127.0.0.1", upstream.port))
    await served.start(here)
    try:
        yield upstream, served.address[1]
    finally:
        await served.close()
        transport.close()
        server.close()


def everything(query: bytes) -> list[bytes]:
    """Something that is no answer to this query, then one with all that the filter knows of."""
    return [bytes([query[0] ^ 1]) + query[1:2] + b"\x80" + query[3:], query, answered(query, "HTTPS", "A")]


@pytest.mark.parametrize("over", [dns.query.udp, dns.query.tcp])
def test_there_and_back(over: Callable[..., dns.message.Message]) -> None:
    """A query goes on, and its answer, the first that matches, comes back without bindings."""

    async def run() -> dns.message.Message:
        async with forwarding(everything) as (_, port):
            query = dns.message.make_query(NAME, "ANY")
            return await asyncio.to_thread(over, query, "127.0.0.1", port=port, timeout=10)

    assert [rrset.rdtype.name for rrset in asyncio.run(run()).answer] == ["A"]


def test_many_queries_on_one_connection() -> None:
    """Queries that come at once over TCP are answered in order."""

    async def run() -> list[int]:
        async with forwarding(everything) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            queries = [asked("HTTPS") for _ in range(5)]
            writer.write(b"".join(len(query).to_bytes(2) + query for query in queries))
            ids = []
            for query in queries:
                answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
                ids.append(int.from_bytes(answer[:2]) ^ int.from_bytes(query[:2]))
            writer.close()
            return ids

    assert asyncio.run(run()) == [0] * 5


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more queries than may be under way, the rest goes nowhere; and none of them waits for ever."""
    monkeypatch.setattr(dns_filter, "PATIENCE_S", 0.5)
    monkeypatch.setattr(dns_filter, "MOST", AT_ONCE)

    async def run() -> tuple[int, int]:
        async with forwarding(lambda _: []) as (upstream, port):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.connect(("127.0.0.1", port))
                for _ in range(20):
                    client.send(asked("A"))
                await upstream.enough.wait()
                reader, _ = await asyncio.open_connection("127.0.0.1", port)
                assert await reader.read() == b""
                first = upstream.asked
                await asyncio.sleep(1)
                upstream.enough.clear()
                client.send(asked("A"))
                await upstream.enough.wait()
                return first, upstream.asked

    assert asyncio.run(asyncio.wait_for(run(), 20)) == (AT_ONCE, AT_ONCE + 1)


def test_nobody_upstream() -> None:
    """Without a server there is no answer over UDP, and an end over TCP."""

    async def run() -> bytes:
        served = DnsFilter(("127.0.0.1", 9))
        await served.start(("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(*served.address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(asked("A"), served.address)
            client.sendto(b"short", served.address)
        rest = await reader.read()
        writer.close()
        await served.close()
        return rest

    assert asyncio.run(asyncio.wait_for(run(), 20)) == b""


def test_any_port_is_one_that_is_free_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """With port 0, a port that is free for UDP and taken for TCP is left for another one."""
    begin = asyncio.start_server
    refused: list[int] = []

    async def start_server(connected: Any, host: str, port: int, **options: int) -> asyncio.Server:  # noqa: ANN401
        if not refused:
            refused.append(port)
            raise OSError(errno.EADDRINUSE, "in use")
        return await begin(connected, host, port, **options)

    async def run() -> tuple[str, int]:
        served = DnsFilter(("127.0.0.1", 9))
        await served.start(("127.0.0.1", 0))
        _, writer = await asyncio.open_connection(*served.address)
        writer.close()
        await served.close()
        return served.address

    monkeypatch.setattr(asyncio, "start_server", start_server)
    host, port = asyncio.run(asyncio.wait_for(run(), 20))
    assert host == "127.0.0.1"
    assert [port] != refused


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start it as a program."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "h3probe.vantage.dns_filter", *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
        process.wait()


def test_the_program(program: Callable[..., subprocess.Popen[str]]) -> None:
    """It says when it listens, and ends when its standard input does."""
    process = program("127.0.0.1", "0", "127.0.0.1", "9")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(10) == 0


def test_the_program_cannot_run(program: Callable[..., subprocess.Popen[str]]) -> None:
    """What is wrong is one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = program("127.0.0.1", str(taken.getsockname()[1]), "127.0.0.1", "9")
        assert process.wait(10) == 1
        assert process.stderr is not None
        lines = process.stderr.readlines()
        assert len(lines) == 1
        assert "in use" in lines[0]
    assert program("127.0.0.1").wait(10) == 2
