"""Patience with bad clients is bounded: silent connections are closed, and broken text does not fill the terminal."""

import collections

HALF_OPEN = 64  # connections that have not asked yet: beyond this the oldest is closed
SECONDS = 10.0  # for the whole head of a request to arrive


def quiet(record):
    """A logging filter: the socket of a client whose text is not UTF-8 is closed (1007), and that is all there is to say."""
    return not record.getMessage().startswith("Invalid UTF-8")


def patient_protocol():
    """uvicorn's HTTP protocol with bounded patience for connections that are silent or slow to ask.

    uvicorn itself waits for ever for the first request of a connection, and counts such connections against its limit: some
    hundred silent ones would lock everyone out.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    waiting = collections.OrderedDict()  # protocols that have not got a whole request yet, the oldest first

    class Patient(H11Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            waiting[self] = self.loop.call_later(SECONDS, self._give_up)
            while len(waiting) > HALF_OPEN:
                next(iter(waiting))._give_up()

        def data_received(self, data):
            super().data_received(data)
            if self.cycle is not None or self.transport.get_protocol() is not self:  # it asked, or became a socket
                self._asked()

        def connection_lost(self, exc):
            self._asked()
            super().connection_lost(exc)

        def _asked(self):
            if (timer := waiting.pop(self, None)) is not None:
                timer.cancel()

        def _give_up(self):
            self._asked()
            if not self.transport.is_closing():
                self.transport.abort()

    return Patient
