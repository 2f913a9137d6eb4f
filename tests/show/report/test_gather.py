"""Records and moments by what they are about."""

from __future__ import annotations

from h3probe.records import AltSvcRecord, DnsRecord
from h3probe.show.report.gather import gather

from .samples import TIME, explanation, finding, moment, quic, tcp, verdict


def test_each_is_found_where_it_is_looked_for() -> None:
    """Connections by id, findings and verdicts by origin, what happened by connection."""
    told = explanation(
        quic(), tcp(), finding(), finding(2, origin=None), verdict(), moments=(moment("tcp-1", 0.0, "SYN"),)
    )
    found = gather(told)
    assert set(found.connections) == {"quic-1", "tcp-1"}
    assert {label: len(each) for label, each in found.findings.items()} == {"example.org:443": 1, None: 1}
    assert [each.text for each in found.moments["tcp-1"]] == ["SYN"]
    assert found.labels == ["example.org:443"]
    assert found.stories["example.org:443"][0].connections == ("quic-1", "tcp-1")


def test_offers_are_told_in_words() -> None:
    """DNS by the host's name, Alt-Svc by the origin's."""
    dns = DnsRecord("dns-1", 0.0, TIME, "Example.org.", None, 1, ["h3", "h2"], 8443, [], False, 1)
    header = AltSvcRecord("alt-svc-1", 0.5, TIME, "example.org:443", 'h3=":443"', [], "proxy")
    found = gather(explanation(dns, header))
    assert found.offers == {
        "example.org": [(0.0, "DNS HTTPS record of Example.org.: h3, h2, port 8443")],
        "example.org:443": [(0.5, 'Alt-Svc: h3=":443" (seen at: proxy)')],
    }
