"""Control without telemetry, before a real VictoriaMetrics: agents push there, and are members of a
tpu-collectord that keeps no telemetry."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "hostd"))
import test_apart  # noqa: E402  (of tests/hostd)
from peer_case import PeerCase, free_port, get  # noqa: E402


class VictoriaMetrics(test_apart.Apart):
    peer, start, wait = PeerCase.peer, PeerCase.start, PeerCase.wait

    def receiver(self):
        binary, port = self.peer("trixie", "victoria-metrics"), free_port()
        self.start(binary, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={self.folder}/data",
                   "-retentionPeriod=1d", "-loggerLevel=ERROR",
                   "-search.latencyOffset=0s", ready=(port, "/health"))

        def has_come(host):
            get(port, "/internal/force_flush")
            status, text = get(port, "/api/v1/export", **{"match[]": '{__name__=~".+"}'})
            self.assertEqual(status, 200)
            return f'"{host}"' in text

        return f"http://127.0.0.1:{port}/opentelemetry", has_come


del test_apart

if __name__ == "__main__":
    unittest.main()
