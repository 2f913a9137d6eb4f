"""The catalogue of rules: one file each, named like its slug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rules import (
    fallback_delay,
    incomplete_capture,
    no_fallback,
    proxy_downgrade,
    quic_closed,
    quic_refused,
    quic_stalled,
    quic_unanswered,
    quic_version_mismatch,
    race_lost,
    repeated_timeout,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h3probe.diagnose.rule import Rule

# In the order in which they are printed: what explains first.
_RULES = (
    repeated_timeout.RULE,
    fallback_delay.RULE,
    no_fallback.RULE,
    quic_unanswered.RULE,
    quic_refused.RULE,
    quic_stalled.RULE,
    quic_closed.RULE,
    quic_version_mismatch.RULE,
    race_lost.RULE,
    proxy_downgrade.RULE,
    incomplete_capture.RULE,
)

CATALOGUE: Mapping[str, Rule] = {rule.slug: rule for rule in _RULES}
