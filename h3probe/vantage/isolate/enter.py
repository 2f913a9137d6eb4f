"""Runs a program in the middle namespace: `python -I -S enter.py NETWORK USER IDENTITY PROGRAM [ARGS…]`.

NETWORK and USER are open descriptors of namespaces, USER -1 for none to be joined; IDENTITY is `UID:GID:GROUP,GROUP…`
to be taken on afterwards, or empty. PROGRAM is a path: looking for it would import modules, which the user that this
process has become may not be able to read.
"""

import os
import sys

if __name__ == "__main__":
    network, user = int(sys.argv[1]), int(sys.argv[2])
    if user >= 0:
        os.setns(user, os.CLONE_NEWUSER)
    os.setns(network, os.CLONE_NEWNET)
    if sys.argv[3]:
        uid, gid, groups = sys.argv[3].split(":")
        os.setgroups([int(group) for group in groups.split(",") if group])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
    os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - which program, h3probe says
