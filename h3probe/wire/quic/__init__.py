"""QUIC as seen from outside a connection: headers, Initial protection, frames, parameters (RFC 8999-9001, 9369)."""
