"""Chromium driven over the DevTools protocol, through a pipe: no port is listened on."""

import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .netns import Netns, stop

PATIENCE = 30.0
"""How long an answer may take, in seconds."""
COMMANDS, MESSAGES = 3, 4
"""The descriptors on which `--remote-debugging-pipe` reads commands and writes messages."""


class Chromium:
    """A browser with one page, in a network namespace with nothing in it, for the length of a `with` block.

    Attributes:
        events: Everything that the browser told unasked, in order.
    """

    def __init__(self, argv: Sequence[str], netns: Netns, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._argv = netns.command([*argv, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
        self._folder = folder
        self._number = 0
        self._session: str | None = None
        self._buffer = b""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            commands, self._to = os.pipe()
            self._from, messages = os.pipe()
            commands, messages = (_moved(descriptor) for descriptor in (commands, messages))
            stack.callback(os.close, self._to)
            stack.callback(os.close, self._from)
            # The shell (dash knows no descriptor above 9) puts both where Chromium looks for them, and becomes it.
            places = f'exec {COMMANDS}<&{commands} {MESSAGES}>&{messages} && exec "$@"'
            process = subprocess.Popen(
                ["bash", "-c", places, "bash", *self._argv],
                cwd=self._folder,
                pass_fds=(commands, messages),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.callback(stop, process)
            os.close(commands)
            os.close(messages)
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the protocol takes
        """Give the result of a command; `RuntimeError` for one that fails."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != self._number:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - whatever it gives
        """Give what a JavaScript expression gives; `RuntimeError` for one that throws."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key and let it go."""
        fields = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **fields)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **fields)

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that a selector finds."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{find}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = self.evaluate(
            f"(() => {{ const r = {find}.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(deadline - time.monotonic(), 0))
            data = os.read(self._from, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("Chromium says nothing more")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _moved(descriptor: int) -> int:
    """Give the same descriptor another number, beyond those that Chromium wants for itself."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved
