"""`environment.json` without names and addresses: what is known to tell nothing of anybody, and no more."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any, Final

from h3probe.redact import http1, names
from h3probe.redact.texts import encoded
from h3probe.run.environment import COMMAND_LINE, JAVA_VARIABLES, PACKAGES, TRIMMED, WHOLE
from h3probe.vantage.proxy_settings import BYPASS_VARIABLES, PROXY_VARIABLES

if TYPE_CHECKING:
    from h3probe.redact import Mapping, Redactor

_VERSION: Final = re.compile(r"\d[\w.+-]{0,31}", re.ASCII)
_PLAIN: Final[dict[str, re.Pattern[str]]] = {
    "h3probe": _VERSION,
    "python": re.compile(r"(?:CPython|PyPy) \d[\w.+-]{0,31}", re.ASCII),
    "recorded": re.compile(r"live|elsewhere"),
    "machine": re.compile(r"x86_64|amd64|AMD64|aarch64|arm64|armv[5-8]\w?|i[3-6]86|riscv64|ppc64le|s390x"),
    "packets_kept": re.compile(f"{WHOLE}|{TRIMMED}"),
    "began": re.compile(r"[\d:.TZ+-]{1,40}", re.ASCII),
    "java_version": _VERSION,
    "java_runtime_version": _VERSION,
}
# A kernel that somebody built may have a name behind its number.
_SYSTEM: Final = re.compile(r"(?:Linux|Darwin|Windows) [\d.]{1,24}", re.ASCII)
_SETTINGS: Final = frozenset((*PROXY_VARIABLES, *BYPASS_VARIABLES, *JAVA_VARIABLES, COMMAND_LINE))
_SETTING: Final = re.compile(r"(?P<name>-D[\w.]{1,64})(?P<mark>=?)(?P<value>\S*)", re.ASCII)
_HARMLESS: Final = re.compile(r"\d{1,6}|true|false|[a-z]{1,12}(?:,[a-z]{1,12}){0,12}")
_ENTRY: Final = re.compile(r"(?P<wild>\*?\.?)(?P<host>[^\s,|/*]+)(?P<rest>/\d{1,3}|\.?\*)?")


def redacted_environment(environment: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Say of where something was recorded what is known to be harmless, in the names of the redacted packets.

    Args:
        environment: As `run.environment` made it; a bundle's may hold anything.
        redactor: Of the packets.
    """
    found = _plain(environment)
    system = _SYSTEM.match(str(environment.get("os", "")))
    if system is not None:
        found["os"] = system.group()
    packages = environment.get("packages")
    if isinstance(packages, dict):
        found["packages"] = {name: packages[name] for name in PACKAGES if _fits(_VERSION, packages.get(name))}
    interfaces = environment.get("interfaces")
    if isinstance(interfaces, list):
        found["interfaces"] = [_interface(each, redactor) for each in interfaces if isinstance(each, dict)]
    settings = environment.get("proxy_settings")
    if isinstance(settings, dict):
        found["proxy_settings"] = {
            name: _proxy_setting(str(text), redactor.mapping) for name, text in settings.items() if name in _SETTINGS
        }
    client = environment.get("client")
    if isinstance(client, dict):
        program = redactor.mapping.program(encoded(str(client.get("program", "")))).decode("latin-1")
        found["client"] = {"program": program, **_plain(client)}
    clock = environment.get("clock")
    if isinstance(clock, dict):
        found["clock"] = _plain(clock) | _numbers(clock, ("offset_from_utc_s", "synchronized"))
    found["redacted"] = what_was_redacted(redactor)
    return found


def what_was_redacted(redactor: Redactor) -> dict[str, Any]:
    """What is not in the redacted packets."""
    return {"packets_left_out": dict(redactor.dropped), "packets_made_noise": redactor.unfinished}


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name, pattern in _PLAIN.items() if _fits(pattern, given.get(name))}


def _numbers(given: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, int | None]:
    return {name: given[name] for name in wanted if name in given and isinstance(given[name], int | None)}


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _interface(given: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    addresses = given.get("addresses")
    packed = [names.literal(encoded(str(each))) for each in (addresses if isinstance(addresses, list) else [])]
    return {
        "name": redactor.interface(str(given.get("name"))),
        "addresses": [str(ipaddress.ip_address(redactor.mapping.address(each))) for each in packed if each is not None],
        **_numbers(given, ("up", "mtu")),
    }


def _proxy_setting(text: str, mapping: Mapping) -> str:
    """A proxy's URL or `host:port`; a list of hosts that are reached without one; or settings of Java's."""
    if text.startswith("-D"):
        return " ".join(_java_setting(each, mapping) for each in text.split())
    if "://" in text:
        return http1.url(encoded(text), mapping).decode("latin-1")
    return ",".join(_hosts(each.strip(), mapping) for each in text.split(","))


def _java_setting(text: str, mapping: Mapping) -> str:
    found = _SETTING.fullmatch(text)
    if found is None:
        return mapping.word(encoded(text)).decode("latin-1")
    value = found["value"]
    if found["name"].endswith("Hosts"):
        value = "|".join(_hosts(each, mapping) for each in value.split("|"))
    elif found["name"].endswith("Host") or not _HARMLESS.fullmatch(value):
        value = _hosts(value, mapping)
    return f"{found['name']}{found['mark']}{value}"


def _hosts(text: str, mapping: Mapping) -> str:
    """A host, with a port or without, or a pattern of hosts."""
    found = _ENTRY.fullmatch(text)
    if found is None:
        return mapping.word(encoded(text)).decode("latin-1") if text.strip("*") else text
    host = http1.authority(encoded(found["host"]), mapping).decode("latin-1")
    return f"{found['wild']}{host}{found['rest'] or ''}"
