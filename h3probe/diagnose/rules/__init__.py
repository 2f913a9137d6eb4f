"""The catalogue of rules: one file each, named like its slug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rules import (
    alt_svc_unusable,
    ca_rejected,
    fallback_delay,
    h3_learned_late,
    incomplete_capture,
    joined_failing_attempt,
    no_fallback,
    no_quic_attempt,
    proxy_bypass,
    proxy_died,
    proxy_downgrade,
    proxy_refused,
    proxy_strips_alt_svc,
    quic_closed,
    quic_cut_off,
    quic_lost,
    quic_refused,
    quic_stalled,
    quic_unanswered,
    quic_version_mismatch,
    race_lost,
    repeated_timeout,
    server_distrusted,
    socket_fan_out,
    stale_alt_svc,
    stuck_on_quic,
    tls_failed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h3probe.diagnose.rule import Rule

# In the order in which they are printed: what explains first.
_RULES = (
    stuck_on_quic.RULE,
    joined_failing_attempt.RULE,
    stale_alt_svc.RULE,
    repeated_timeout.RULE,
    fallback_delay.RULE,
    no_fallback.RULE,
    quic_unanswered.RULE,
    quic_refused.RULE,
    quic_stalled.RULE,
    quic_closed.RULE,
    quic_lost.RULE,
    quic_cut_off.RULE,
    quic_version_mismatch.RULE,
    race_lost.RULE,
    tls_failed.RULE,
    ca_rejected.RULE,
    server_distrusted.RULE,
    proxy_refused.RULE,
    proxy_downgrade.RULE,
    proxy_bypass.RULE,
    proxy_strips_alt_svc.RULE,
    no_quic_attempt.RULE,
    h3_learned_late.RULE,
    alt_svc_unusable.RULE,
    socket_fan_out.RULE,
    proxy_died.RULE,
    incomplete_capture.RULE,
)

CATALOGUE: Mapping[str, Rule] = {rule.slug: rule for rule in _RULES}
