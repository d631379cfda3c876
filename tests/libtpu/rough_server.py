"""An HTTP/2 server that speaks gRPC wrongly, by what it is asked for: the method's name says how."""

import gzip
import socket
import struct
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events

OK = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0")]


def frame(data, flag=0):
    return struct.pack(">BI", flag, len(data)) + data


class RoughServer:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        self.cancelled = threading.Event()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def _accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(s)
            self.connections += 1
            threading.Thread(target=self._serve, args=(s,), daemon=True).start()

    def _serve(self, s):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        c.initiate_connection()
        paths = {}
        try:
            s.sendall(c.data_to_send())
            while data := s.recv(65536):
                for event in c.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        paths[event.stream_id] = dict(event.headers)[":path"]
                    elif isinstance(event, h2.events.DataReceived):
                        c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamReset):
                        self.cancelled.set()
                    elif isinstance(event, h2.events.StreamEnded):
                        getattr(self, paths[event.stream_id].rsplit("/", 1)[1])(c, event.stream_id, s)
                s.sendall(c.data_to_send())
        except OSError:
            self.cancelled.set()
        self.cancelled.set()

    # --- The methods ---

    def good(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(b"hello"))
        c.send_headers(n, DONE, end_stream=True)

    def truncated(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(b"hello")[:-2])
        c.send_headers(n, DONE, end_stream=True)

    def two(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(b"one") + frame(b"two"))
        c.send_headers(n, DONE, end_stream=True)

    def no_message(self, c, n, s):
        c.send_headers(n, OK)
        c.send_headers(n, DONE, end_stream=True)

    def no_trailers(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(b"hello"), end_stream=True)

    def bad_flag(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(b"hello", 7))
        c.send_headers(n, DONE, end_stream=True)

    def odd_status(self, c, n, s):
        c.send_headers(n, OK)
        c.send_headers(n, [("grpc-status", "99")], end_stream=True)

    def reset(self, c, n, s):
        c.send_headers(n, OK)
        c.reset_stream(n, h2.errors.ErrorCodes.INTERNAL_ERROR)

    def hang_up(self, c, n, s):
        s.shutdown(socket.SHUT_RDWR)

    def goaway(self, c, n, s):
        """An answer, and that this connection takes no more calls."""
        self.good(c, n, s)
        s.sendall(c.data_to_send() + struct.pack(">HBBBIII", 0, 8, 7, 0, 0, n, 0))

    def goaway_unseen(self, c, n, s):
        """This call was not looked at."""
        s.sendall(c.data_to_send() + struct.pack(">HBBBIII", 0, 8, 7, 0, 0, n - 1, 0))

    def other_protocol(self, c, n, s):
        s.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        s.shutdown(socket.SHUT_WR)

    def never(self, c, n, s):
        pass

    def half(self, c, n, s):
        """Begins an answer, and that is all."""
        c.send_headers(n, OK)
        c.send_data(n, frame(b"hello")[:7])

    def huge_head(self, c, n, s):
        """Says that 4 GiB follow. Who believes it waits, or runs out of memory."""
        c.send_headers(n, OK)
        c.send_data(n, b"\0\xff\xff\xff\xff")

    def flood(self, c, n, s):
        c.send_headers(n, OK)
        try:
            while True:
                while c.local_flow_control_window(n) < 20000:
                    for _ in c.receive_data(s.recv(65536)):
                        pass
                c.send_data(n, frame(b"x" * 16000))
                s.sendall(c.data_to_send())
        except Exception:  # whatever the client ends it with is what is waited for
            raise OSError from None

    def packed(self, c, n, s):
        c.send_headers(n, OK + [("grpc-encoding", "gzip")])
        c.send_data(n, frame(gzip.compress(b"hello packed"), 1))
        c.send_headers(n, DONE, end_stream=True)

    def packed_untold(self, c, n, s):
        c.send_headers(n, OK)
        c.send_data(n, frame(gzip.compress(b"hello packed"), 1))
        c.send_headers(n, DONE, end_stream=True)

    def bomb(self, c, n, s):
        c.send_headers(n, OK + [("grpc-encoding", "gzip")])
        c.send_data(n, frame(gzip.compress(bytes(8 << 20)), 1))
        c.send_headers(n, DONE, end_stream=True)

    def page(self, c, n, s):
        c.send_headers(n, [(":status", "200"), ("content-type", "text/html")])
        c.send_data(n, b"<html>log in first</html>", end_stream=True)

    def not_found(self, c, n, s):
        c.send_headers(n, [(":status", "404"), ("content-type", "text/html")])
        c.send_data(n, b"<html>", end_stream=True)

    def gateway(self, c, n, s):
        c.send_headers(n, [(":status", "503")], end_stream=True)

    def words(self, c, n, s):
        c.send_headers(n, OK + [("grpc-status", "7"), ("grpc-message", "no%20way%1b[31m: caf%C3%A9%zz")],
                       end_stream=True)

    def denied_late(self, c, n, s):
        """Trailers only, and the stream reset right behind them, as servers do who did not read all."""
        c.send_headers(n, OK + [("grpc-status", "7"), ("grpc-message", "no")], end_stream=True)
        # h2 itself would not reset what is closed
        s.sendall(c.data_to_send() + struct.pack(">HBBBII", 0, 4, 3, 0, n, 0))
