"""A network of its own for one command, with h3probe on the only way out (Linux).

The command lives in network namespace C ("client"), which an uplink without privileges (pasta, or slirp4netns)
connects with the host's own sockets. Where something is to stand between them (a what-if, a redirect) there is another
namespace, M ("middle"), and a veth pair leads there; the uplink is then M's. Nothing here needs root: both namespaces
belong to a user namespace that an ordinary user may make. h3probe itself stays outside of them all.

    h3probe ── control socket ── init (process 1 of a namespace: what it starts ends with it)
                                  ├─ the command   in C: eth0 ── pasta                   when nothing stands between
                                  └─ pasta         in C: eth0 ── client, tap0 in M ── pasta             when it does

`isolation` is what h3probe uses; `plan` decides everything beforehand, from the flags (`spec`) and the host; `scripts`
words it for ip, nft and tc; `init` and `enter` are programs of their own. The command sees the host's files, user and
terminal. It is not locked in: this is no sandbox.
"""
