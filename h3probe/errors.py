"""The one tree of errors.

Two branches: `DecodeError` is a property of bytes that came from a network or a file, is raised by
`wire` and caught by the caller that knows what to do without those bytes; `UserError` is something
the person at the terminal can mend, and carries the one line that is shown to them.
"""


class H3probeError(Exception):
    """The root: everything that h3probe raises on purpose."""


class DecodeError(H3probeError, ValueError):
    """Bytes that are not what their place says they should be."""


class TruncatedError(DecodeError):
    """Bytes that end before their own lengths say they should (a snaplen, a segment still to come)."""


class DecryptError(DecodeError):
    """A protected packet that its keys do not open: other keys, or damage."""


class EncryptedError(DecodeError):
    """A frame whose contents no key is there for; the message says what it is, in the plural."""


class UserError(H3probeError):
    """One line for the person at the terminal: what is wrong, and what to do.

    Attributes:
        exit_status: The process's exit status, 2 unless a subclass says otherwise.
    """

    exit_status = 2


class CaptureError(UserError):
    """A file that is no capture, or one that stops being one."""


class KeyLogError(UserError):
    """A file of TLS secrets that cannot be read, or holds none."""


class PrivilegeError(UserError):
    """The operating system does not allow it."""


class MissingExtraError(UserError):
    """Something that needs packages which are not installed with h3probe itself.

    Args:
        what: What needs them, as the beginning of a sentence.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, which is not installed: pip install 'h3probe[cluster]'")


class CommandError(UserError):
    """A command that could not be started.

    Attributes:
        exit_status: As a shell has it: 127 when there is no such command, 126 when it cannot be run.
    """

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status
