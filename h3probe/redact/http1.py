"""Heads of HTTP/1 messages, rewritten without changing their length (RFC 9112)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping

_REQUEST_LINE: Final = re.compile(
    rb"(?P<method>[A-Z]+)(?P<space>[ \t]+)(?P<target>\S+)(?P<rest>[ \t]+HTTP/1\.\d[ \t]*)"
)
_STATUS_LINE: Final = re.compile(rb"(?P<status>HTTP/1\.\d[ \t]+(?P<code>\d{3})[ \t]*)(?P<reason>.*)", re.DOTALL)
_FIELD: Final = re.compile(
    rb"(?P<name>[!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?P<colon>[ \t]*:[ \t]*)(?P<value>.*?)(?P<rest>[ \t]*)", re.DOTALL
)
_METHODS: Final = frozenset((b"GET", b"CONNECT", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"))
_URL: Final = re.compile(
    rb"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/?#@]*@)?(?P<authority>[^/?#]*)(?P<path>.*)", re.DOTALL
)
_MASQUE: Final = re.compile(
    rb"(?P<before>/\.well-known/masque/udp/)(?P<host>[^/?#]+)(?P<port>/\d{1,5})(?P<after>/?)(?P<rest>.*)", re.DOTALL
)
_PATH_WORD: Final = re.compile(rb"[^/?&=#;,]+")
_WORD: Final = re.compile(rb"[^\s,;=\"()]+")
_ALT_SVC_PART: Final = re.compile(rb'"(?P<authority>[^"]*)"|[^\s,;="]+')
# What Alt-Svc holds beside authorities: protocols, parameters and numbers.
_ALT_SVC_WORD: Final = re.compile(
    rb"(?i)h2c?|h3(?:(?:-|%2d)\w{1,4})?|quic|http(?:%2f|/)1(?:\.|%2e)1|clear|ma|persist|v|\d{1,10}|:\d{1,5}"
)
_NO_AUTHORITY: Final = re.compile(rb":?\d{1,5}|\d{1,3}(?:,\d{1,3})*")  # a port; versions of gQUIC
# Of the fields below, a word as protocols define them, or a number; neither a name with a dot in it nor an address.
_PLAIN_WORD: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+:?_-]{1,64}|(?:q|v|[A-Za-z]{1,8}/)?\d{1,4}\.\d{1,4}")
_MEDIA: Final = re.compile(
    rb"(?i)(?:\*|text|image|audio|video|font|application)/(?:\*|html|plain|css|csv|(?:x-)?javascript|event-stream|markdown"
    rb"|png|jpeg|gif|webp|avif|apng|bmp|x-icon|mpeg|mp4|ogg|webm|aac|wav|woff2?|ttf|otf"
    rb"|(?:(?:xhtml|svg|rss|atom|soap|problem|ld|geo|hal)\+)?(?:json|xml)|octet-stream|x-www-form-urlencoded|pdf|wasm|zip|gzip"
    rb"|grpc|dns-message|ocsp-(?:request|response)|signed-exchange)|multipart/(?:form-data|mixed|byteranges)"
)
_SCHEME: Final = re.compile(rb"(?i)(?:http|ws|ftp)s?://")

# Fields whose values say what an implementation does, and not for whom.
_PLAIN: Final = frozenset(
    {b"connection", b"proxy-connection", b"upgrade", b"transfer-encoding", b"content-length", b"content-type",
     b"content-encoding", b"accept", b"accept-encoding", b"accept-language", b"accept-ranges", b"te", b"trailer",
     b"cache-control", b"pragma", b"date", b"expires", b"age", b"vary", b"keep-alive", b"expect",
     b"max-forwards", b"http2-settings", b"upgrade-insecure-requests", b"capsule-protocol", b"last-modified",
      b"retry-after", b"strict-transport-security"}
)  # fmt: skip
# Of those, the ones that name other fields.
_FIELD_LISTS: Final = frozenset({b"connection", b"proxy-connection", b"vary", b"trailer"})
_CONNECTION_OPTIONS: Final = frozenset({b"close", b"*"})
_HOSTS: Final = frozenset({b"host", b"alt-used", b":authority"})
_URLS: Final = frozenset({b"referer", b"location", b"content-location", b"origin"})
# Fields that are named as they are; their values become letters.
_NAMED: Final = frozenset(
    {b"cookie", b"set-cookie", b"etag", b"if-none-match", b"via", b"forwarded", b"if-modified-since",
     b"x-forwarded-for", b"x-api-key", b"authentication-info", b"proxy-authentication-info", b"x-cache", b"link",
     b"content-disposition", b"warning", b"content-security-policy", b"access-control-allow-origin", b"nel",
     b"report-to", b"proxy-status"}
)  # fmt: skip
_SCHEMES: Final = re.compile(rb"(?i)(basic|digest|negotiate|ntlm|bearer|kerberos)\b")
_AGENT: Final = re.compile(
    rb"(?:Java-http-client|curl|Java|Mozilla|okhttp|Go-http-client|python-requests|Apache-HttpClient|mitmproxy)"
    rb"/[0-9]{1,4}(?:\.[0-9]{1,6}){0,4}(?![^\s])"
)
_SOFTWARE: Final = re.compile(
    rb"(?i)(?:nginx|openresty|apache|squid|tinyproxy|mitmproxy|privoxy|cloudflare|cloudfront|akamaighost|akamainetstorage|"
    rb"microsoft-iis|gws|sffe|esf|envoy|istio-envoy|caddy|litespeed|h2o|varnish|haproxy|traefik|kestrel|jetty|hypercorn|"
    rb"uvicorn|gunicorn|werkzeug|basehttp|simplehttp|python|aioquic|amazons3|zscaler|mcafee|bluecoat-proxy|h3probe)"
    rb"(?:/[0-9]{1,4}(?:\.[0-9]{1,6}){0,4})?(?![^\s])"
)
# Fields of which the beginning stays, where it is a well-known word.
_BEGINNINGS: Final = {
    b"user-agent": _AGENT,
    b"server": _SOFTWARE,
    b"proxy-agent": _SOFTWARE,
    **dict.fromkeys((b"www-authenticate", b"proxy-authenticate", b"authorization", b"proxy-authorization"), _SCHEMES),
}
_KNOWN_FIELDS: Final = _PLAIN | _HOSTS | _URLS | _NAMED | frozenset(_BEGINNINGS) | _CONNECTION_OPTIONS | {b"alt-svc"}
_REASONS: Final = frozenset(
    {s.phrase.lower().encode() for s in HTTPStatus} | {b"connection established", b"connected", b"unable to connect"}
)  # fmt: skip


def head(data: bytes, mapping: Mapping) -> bytes:
    """Rewrite a head, from its first line to the empty one, whatever of it is there."""
    made = []
    for number, line in enumerate(data.splitlines(keepends=True)):
        bare = line.rstrip(b"\r\n")
        end = line[len(bare) :]
        made.append((_first(bare, mapping) if number == 0 and bare else _field(bare, mapping)) + end)
    whole = b"".join(made)
    return whole if len(whole) == len(data) else _letters(data, mapping)


def authority(text: bytes, mapping: Mapping) -> bytes:
    """Rewrite `host:port`, the port optional."""
    host, colon, port = text.rpartition(b":")
    if colon and port.isdigit() and len(port) <= 5 and (b":" not in host or host.endswith(b"]")):
        return mapping.host(host) + colon + port
    return mapping.host(text)


def url(text: bytes, mapping: Mapping) -> bytes:
    """Rewrite a URL, or a path."""
    found = _URL.fullmatch(text)
    if found is None:
        return path(text, mapping)
    user = found["user"] or b""
    return b"".join(
        (
            found["scheme"] if _SCHEME.fullmatch(found["scheme"]) else mapping.word(found["scheme"][:-3]) + b"://",
            mapping.word(user[:-1]) + b"@" if user else b"",
            authority(found["authority"], mapping),
            path(found["path"], mapping),
        )
    )


def path(text: bytes, mapping: Mapping) -> bytes:
    """Rewrite a path and its query, part by part."""
    masque = _MASQUE.fullmatch(text)
    if masque is not None:
        host = masque["host"]
        plain = host.replace(b"%3A", b":").replace(b"%3a", b":")
        replaced = mapping.host(plain)
        if plain != host:
            replaced = replaced.replace(b":", b"%3A")
        if len(replaced) == len(host):
            return masque["before"] + replaced + masque["port"] + masque["after"] + path(masque["rest"], mapping)
    return _PATH_WORD.sub(lambda part: mapping.word(part.group()), text)


def alt_svc(value: bytes, mapping: Mapping) -> bytes:
    """Rewrite the authorities in an Alt-Svc value (RFC 7838, section 3), quoted as they should be or not."""

    def replaced(match: re.Match[bytes]) -> bytes:
        text = match["authority"]
        if text is None:
            word = match.group()
            return word if _ALT_SVC_WORD.fullmatch(word) else authority(word, mapping)
        return b'"' + (text if not text or _NO_AUTHORITY.fullmatch(text) else authority(text, mapping)) + b'"'

    return _ALT_SVC_PART.sub(replaced, value)


def _first(line: bytes, mapping: Mapping) -> bytes:
    request = _REQUEST_LINE.fullmatch(line)
    if request is not None:
        target = request["target"]
        if request["method"] == b"CONNECT":
            target = authority(target, mapping)
        elif target != b"*":
            target = url(target, mapping)
        method = request["method"] if request["method"] in _METHODS else mapping.word(request["method"]).upper()
        return method + request["space"] + target + request["rest"]
    status = _STATUS_LINE.fullmatch(line)
    if status is not None:
        reason = status["reason"]
        return status["status"] + (reason if reason.lower() in _REASONS else _letters(reason, mapping))
    return _letters(line, mapping)


def _field(line: bytes, mapping: Mapping) -> bytes:
    found = _FIELD.fullmatch(line)
    if found is None:
        return _letters(line, mapping)  # a folded line, or none at all
    name, value = found["name"], found["value"]
    low = name.lower()
    if low in _HOSTS:
        value = authority(value, mapping)
    elif low == b"alt-svc":
        value = alt_svc(value, mapping)
    elif low in _URLS:
        value = url(value, mapping)
    elif low in _BEGINNINGS:
        known = _BEGINNINGS[low].match(value)
        kept = known.end() if known else 0
        value = value[:kept] + _letters(value[kept:], mapping)
    elif low in _FIELD_LISTS:
        value = _WORD.sub(lambda word: _field_name(word.group(), mapping), value)
    elif low in _PLAIN:
        value = _WORD.sub(lambda word: _plain(word.group(), mapping), value)
    else:
        value = _letters(value, mapping)
        name = _field_name(name, mapping)
    return name + found["colon"] + value + found["rest"]


def _field_name(name: bytes, mapping: Mapping) -> bytes:
    """The name of a field: well-known, or words."""
    if name.lower() in _KNOWN_FIELDS:
        return name
    return b"-".join(mapping.word(part) if part else part for part in name.split(b"-"))


def _plain(word: bytes, mapping: Mapping) -> bytes:
    return word if _PLAIN_WORD.fullmatch(word) or _MEDIA.fullmatch(word) else mapping.word(word)


def _letters(text: bytes, mapping: Mapping) -> bytes:
    """Letters for every word; what parts them stays."""
    return _WORD.sub(lambda word: mapping.word(word.group()), text)
