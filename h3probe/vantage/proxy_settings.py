"""A command's environment, with the proxy in it: as much of it as the command's kind looks at."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from h3probe.vantage.proxy_spec import PASSWORD_VARIABLE
from h3probe.vantage.proxy_trust import TRUST_STORE_PASSWORD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from h3probe.events import Endpoint
    from h3probe.vantage.proxy_trust import Trust

Kind = Literal["java", "native", "unknown"]
"""What a command is: a JVM or something that starts one, something that certainly is not, or anybody's guess."""

PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
BYPASS_VARIABLES: Final = ("NO_PROXY", "no_proxy")
BUNDLE_VARIABLES: Final = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
JAVA_VARIABLE: Final = "JAVA_TOOL_OPTIONS"

_JAVA: Final = re.compile(
    r"(java|jshell|mvn|mvnw|mvnd|gradle|gradlew|sbt|ant|kotlin|scala|clojure)[\d.]*", re.IGNORECASE
)
_CHROMIUM: Final = re.compile(
    r"(chromium|google-chrome|chrome|msedge|microsoft-edge|brave|vivaldi|opera)(-(browser|stable|beta|dev|unstable))?",
    re.IGNORECASE,
)
_NATIVE: Final = re.compile(r"(firefox|curl|wget|http|https|xh|python|pypy|node|npm|deno|bun|ruby|php|perl|git)[\d.]*")
_LOOPBACK: Final = re.compile(r"\.?localhost|127\.[\d./]*|\[?::1\]?(/128)?|\*", re.IGNORECASE)


def kind_of(argv: Sequence[str]) -> Kind:
    """Tell a command's kind by its name."""
    name = PurePath(argv[0]).name.removesuffix(".exe") if argv else ""
    if _JAVA.fullmatch(name) or name.endswith(".jar"):
        return "java"
    return "native" if _NATIVE.fullmatch(name) or is_chromium(argv) else "unknown"


def is_chromium(argv: Sequence[str]) -> bool:
    """Whether a command is Chromium, or a browser that is made of it, by its name."""
    return bool(argv and _CHROMIUM.fullmatch(PurePath(argv[0]).name.removesuffix(".exe")))


def proxy_environment(
    kind: Kind,
    proxy: Endpoint | None,
    *,
    trust: Trust | None = None,
    loopback: bool = True,
    environment: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Make the environment in which a command uses the proxy.

    Args:
        kind: What the command is.
        proxy: Where the proxy listens; None for one that is found without a setting.
        trust: What makes the command trust the proxy's authority; None when no TLS is terminated.
        loopback: Whether connections to this host are to go through the proxy too. Most clients go past it there when
            they are told to, the JDK even when they are not.
        environment: What to start from; this process's own unless given.

    Returns:
        The whole environment, and a line for each thing that was set or taken away.
    """
    result = dict(os.environ if environment is None else environment)
    result.pop(PASSWORD_VARIABLE, None)
    lines: list[str] = []
    if proxy is not None:
        lines += _proxy_variables(result, f"http://{proxy}")
        lines += _bypass(result) if loopback else []
    if proxy is not None and kind != "java":
        result["NODE_USE_ENV_PROXY"] = "1"
        lines.append("NODE_USE_ENV_PROXY=1")
    if trust is not None:
        lines += _bundles(result, trust)
    if kind != "native":
        lines += _java(result, _java_proxy(proxy, loopback=loopback) + _java_trust(trust))
    return result, lines


def _proxy_variables(environment: dict[str, str], url: str) -> list[str]:
    lines = [f"{PROXY_VARIABLES[0]}={url} (and {', '.join(PROXY_VARIABLES[1:])})"]
    before = next((environment[name] for name in PROXY_VARIABLES if environment.get(name)), None)
    if before is not None and before != url:
        lines.append(f"{_without_credentials(before)} was the proxy before: --upstream goes through it as well")
    environment.update(dict.fromkeys(PROXY_VARIABLES, url))
    return lines


def _without_credentials(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return parts.netloc.rpartition("@")[2] or "another one"


def _bypass(environment: dict[str, str]) -> list[str]:
    """Take this host, and everything, off the lists of what goes past a proxy; leave the rest on them."""
    lines = []
    for name in BYPASS_VARIABLES:
        before = environment.pop(name, "")
        kept = [each for part in before.split(",") if (each := part.strip()) and not _LOOPBACK.fullmatch(each)]
        if kept:
            environment[name] = ",".join(kept)
        if before and environment.get(name) != before:
            lines.append(f"{name}={','.join(kept)}" if kept else f"{name} taken away")
    return lines


def _bundles(environment: dict[str, str], trust: Trust) -> list[str]:
    environment.update(dict.fromkeys(BUNDLE_VARIABLES, str(trust.bundle)))
    environment["NODE_EXTRA_CA_CERTS"] = str(trust.ca_file)
    return [
        f"{BUNDLE_VARIABLES[0]}={trust.bundle} (and {', '.join(BUNDLE_VARIABLES[1:])})",
        f"NODE_EXTRA_CA_CERTS={trust.ca_file}",
    ]


def _java_proxy(proxy: Endpoint | None, *, loopback: bool) -> list[str]:
    if proxy is None:
        return []
    options = [
        f"-D{scheme}.{name}={value}"
        for scheme in ("http", "https")
        for name, value in (("proxyHost", proxy.address), ("proxyPort", proxy.port))
    ]
    return [*options, "-Dhttp.nonProxyHosts="] if loopback else options


def _java_trust(trust: Trust | None) -> list[str]:
    if trust is None:
        return []
    return [
        f"-Djavax.net.ssl.trustStore={trust.trust_store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
    ]


def client_log_environment(
    kind: Kind, categories: str, *, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, str] | None, list[str]]:
    """Make the environment in which a JVM's HttpClient logs what it does, to its standard error.

    Args:
        kind: What the command is; a native one gets nothing.
        categories: What it is to log.
        environment: What to start from; this process's own unless given.

    Returns:
        The whole environment, None where nothing is to be set, and a line for each thing that was set.
    """
    if kind == "native":
        return (None if environment is None else dict(environment)), []
    result = dict(os.environ if environment is None else environment)
    return result, _java(result, [f"-Djdk.httpclient.HttpClient.log={categories}"])


def _java(environment: dict[str, str], options: list[str]) -> list[str]:
    if not options:
        return []
    # The JVM cuts this at white space, and knows a shell's quotes.
    text = " ".join(shlex.quote(option) for option in options)
    before = environment.get(JAVA_VARIABLE, "").strip()
    environment[JAVA_VARIABLE] = f"{before} {text}" if before else text
    return [f"{JAVA_VARIABLE}={text}" + (" (after what it was)" if before else "")]
