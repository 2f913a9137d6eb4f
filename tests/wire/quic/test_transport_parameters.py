from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.quic.transport_parameters import VersionInformation, parameter_name, parse
from h3probe.wire.tls_hello import parse_client_hello
from tests.wire.quic import vectors
from tests.wire.quic_builder import varint


def _parameter(number: int, value: bytes) -> bytes:
    return varint(number) + varint(len(value)) + value


def test_parameters_of_rfc_9001() -> None:
    """The parameters in the sample ClientHello are read with their values and in their order."""
    data = parse_client_hello(vectors.CLIENT_FRAMES[8:]).transport_parameters
    assert data is not None
    parameters = parse(data)
    assert parameters.order == (4, 5, 7, 8, 1, 9, 15, 6)
    assert parameters.initial_max_data == (1 << 62) - 1
    assert parameters.initial_max_stream_data_bidi_local == 65535
    assert parameters.initial_max_stream_data_bidi_remote == 65535
    assert parameters.initial_max_stream_data_uni == 65535
    assert (parameters.initial_max_streams_bidi, parameters.initial_max_streams_uni) == (16, 16)
    assert parameters.max_idle_timeout == 30_000
    assert parameters.max_udp_payload_size is None
    assert parameters.values[15] == vectors.DCID


def test_names_for_what_has_one() -> None:
    """Parameters are named in the order sent, reserved ones as such and unknown ones by number."""
    numbers = (0x11, 27, 27 + 31 * 1000, 0x3128, 0x4752, 0xFF73DB, 0xBEEF)
    parameters = parse(b"".join(_parameter(number, b"x") for number in numbers))
    assert parameters.names == (
        "version_information",
        "reserved",
        "reserved",
        "google_connection_options",
        "google_version",
        "version_information",
        "0xbeef",
    )
    assert parameter_name(0x20) == "max_datagram_frame_size"


@pytest.mark.parametrize("number", [0x11, 0xFF73DB])
def test_version_information(number: int) -> None:
    """The chosen version comes first and the others after it, under the final number and the draft's."""
    parameters = parse(_parameter(number, bytes.fromhex("00000001 6b3343cf 00000001")))
    assert parameters.version_information == VersionInformation(1, (0x6B3343CF, 1))


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x01", bytes(5)])
def test_malformed_version_information_is_none(value: bytes) -> None:
    """Version information that is no list of 32-bit numbers is as good as absent, and its bytes stay."""
    parameters = parse(_parameter(0x11, value))
    assert parameters.version_information is None
    assert parameters.values[0x11] == value


@pytest.mark.parametrize("value", [b"", b"\x40", b"\x01\x02"])
def test_a_malformed_integer_stays_bytes(value: bytes) -> None:
    """A value that is not exactly one integer is kept as it is and is no number."""
    parameters = parse(_parameter(1, value) + _parameter(3, varint(1472)))
    assert parameters.values[1] == value
    assert (parameters.max_idle_timeout, parameters.max_udp_payload_size) == (None, 1472)


def test_the_first_of_two_counts_and_the_order_shows_both() -> None:
    """A parameter sent twice keeps its first value, and the order tells that it was sent twice."""
    parameters = parse(_parameter(14, b"\x02") + _parameter(14, b"\x08") + _parameter(32, varint(65535)))
    assert parameters.order == (14, 14, 32)
    assert (parameters.active_connection_id_limit, parameters.max_datagram_frame_size) == (2, 65535)


def test_parameters_that_do_not_fit_are_an_error() -> None:
    """A list cut within a parameter raises TruncatedError."""
    data = _parameter(0, bytes(8))
    for length in range(1, len(data)):
        with pytest.raises(TruncatedError):
            parse(data[:length])


@given(st.binary(max_size=200))
def test_any_bytes_give_parameters_or_decode_error(data: bytes) -> None:
    """Whatever the bytes, parameters are returned or DecodeError is raised, and nothing else."""
    try:
        parameters = parse(data)
    except DecodeError:
        return
    assert set(parameters.order) == set(parameters.values)
    assert len(parameters.names) == len(parameters.order)
    assert parameters.version_information is None or parameters.version_information.chosen < 1 << 32
