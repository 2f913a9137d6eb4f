"""Runs a program in the middle namespace: `python -I -S enter.py NET USER PROGRAM [ARGS…]`, descriptors of both."""

import os
import sys

if __name__ == "__main__":
    network, user = int(sys.argv[1]), int(sys.argv[2])
    if user >= 0:
        os.setns(user, os.CLONE_NEWUSER)
    os.setns(network, os.CLONE_NEWNET)
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - which program, h3probe says
