"""A TCP proxy that does to connections what networks do: it cuts streams after some bytes, and swallows responses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from urllib.parse import urlsplit

BUFFER_BYTES = 65536


class CuttingProxy:
    """Passes connections to a server on this machine."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname is not None
        assert target.port is not None
        self._target = (target.hostname, target.port)
        self.streams = 0
        """Requests for events so far."""
        self.cut_streams_after: list[int] = []
        """After how many bytes of its response each of the next streams is cut. When the list is empty, no further one is."""
        self.cut_every_stream_after: int | None = None
        """The same for all streams."""
        self.swallow_next_response = False
        """The next response does not arrive: its connection is cut."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts no further connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        """Serves one connection, which may have several requests after each other."""
        with near, socket.create_connection(self._target) as far, contextlib.suppress(OSError):
            # How many bytes of the current response may still pass. None: all.
            left: list[int | None] = [None]
            pump = threading.Thread(target=self._pump, args=(near, far, left), daemon=True)
            pump.start()
            while data := far.recv(BUFFER_BYTES):
                if self.swallow_next_response:
                    self.swallow_next_response = False
                    left[0] = 0
                allowed = left[0]
                if allowed is not None and len(data) > allowed:
                    near.sendall(data[:allowed])
                    # A reset, without the end that HTTP has. A socket is closed when no thread reads from it.
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                near.sendall(data)
                # Otherwise the next request may already have set it.
                if allowed is not None:
                    left[0] = allowed - len(data)
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RD)
            pump.join()

    def _pump(self, near: socket.socket, far: socket.socket, left: list[int | None]) -> None:
        """Passes requests on."""
        with contextlib.suppress(OSError):
            while data := near.recv(BUFFER_BYTES):
                # A small request arrives in one piece.
                line = data.split(b"\r\n", 1)[0]
                if line.startswith(b"GET ") and b"/events" in line:
                    self.streams += 1
                    left[0] = self.cut_streams_after.pop(0) if self.cut_streams_after else self.cut_every_stream_after
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)
