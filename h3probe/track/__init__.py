"""From decoded packets to connections: QUIC connections, TCP connections, tunnels, names. Sans-IO."""
