"""A network of its own for one command, with h3probe on the only way out (Linux).

The command lives in network namespace C ("client"). A veth pair leads to M ("middle"), where the what-ifs and the
redirects stand, and from there an uplink without privileges (pasta, or slirp4netns) leads out through the host's own
sockets. Nothing here needs root: both namespaces belong to a user namespace that an ordinary user may make.

    h3probe ── control socket ── init (PID 1 of a namespace: what it starts ends with it)
                                  ├─ the command        in C:  eth0 ─┐
                                  └─ pasta         out of M:  tap0   ├ veth
                                                          client ────┘
"""
