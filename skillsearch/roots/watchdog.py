"""Connections that are shut when the time of a download is over, whatever the server does."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import suppress
from typing import Any


class Watchdog:
    """Makes connections, and shuts all of them when its time is over; a context manager.

    The time limit of a socket is one for each sign of life: a server that sends a byte now and
    then would never reach it.

    Attributes:
        has_bitten: True once the time was over.
    """

    def __init__(self, seconds: float) -> None:
        """Say after how long everything is shut."""
        self.has_bitten = False
        self._watched: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._bite)
        self._timer.daemon = True

    def __enter__(self) -> Watchdog:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for watched in self._watched:
            watched.close()

    def plain(self, host: str, **options: Any) -> http.client.HTTPConnection:
        """Return a connection for http."""
        return _connection_class(self)(host, **options)

    def secure(self, host: str, **options: Any) -> http.client.HTTPConnection:
        """Return a connection for https, watched from before its handshake."""

        class Connection(http.client.HTTPSConnection, _connection_class(self)):  # type: ignore[misc]
            """The second of the bases connects, then the first begins with TLS."""

        return Connection(host, **options)

    def watch(self, connected: socket.socket) -> None:
        """Shut this one too; a duplicate is kept, for TLS takes the socket itself over."""
        with self._lock:
            self._watched.append(connected.dup())
        if self.has_bitten:
            self._bite()

    def _bite(self) -> None:
        """Shut everything."""
        self.has_bitten = True
        with self._lock:
            for watched in self._watched:
                with suppress(OSError):
                    watched.shutdown(socket.SHUT_RDWR)


def _connection_class(watchdog: Watchdog) -> type[http.client.HTTPConnection]:
    """Return the class of the connections that a watchdog watches."""

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            watchdog.watch(self.sock)

    return Connection
