"""The collector is told to stop while its clients ask again as soon as they are answered: each is
answered, or its connection ends."""

import http.client
import json
import signal
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from collector_case import Case  # noqa: E402

HOSTS = 30


class Stop(Case):
    def ask(self, worker):
        """Holds a sync, as an agent does; answered, it asks the next, until nobody is there."""
        member = {"v": 1, "slice": "s0", "worker": worker, "host": f"h{worker}", "id": str(worker),
                  "incarnation": f"{worker:016x}",
                  "address": ["10.0.0.1"], "hosts": HOSTS}
        c = http.client.HTTPConnection("127.0.0.1", self.c.otlp, timeout=60)
        try:
            while True:
                c.request("POST", "/registry/v1/sync",
                          json.dumps({"v": 1, "member": member, "since": "", "wait": 5}),
                          {"Content-Type": "application/json"})
                answer = c.getresponse()
                body = answer.read()
                self.asked.append((answer.status, body))
        except (OSError, http.client.HTTPException):
            pass
        finally:
            c.close()

    def test_who_asks_again_at_once(self):
        self.start()
        self.asked = []
        threads = [threading.Thread(target=self.ask, args=(w,)) for w in range(HOSTS)]
        for t in threads:
            t.start()
        self.until(lambda: sum(status == 200 for status, _ in list(self.asked)) >= HOSTS)
        self.c.process.send_signal(signal.SIGTERM)
        code = self.c.process.wait(60)
        for t in threads:
            t.join(60)
        self.c.log.seek(0)
        self.assertEqual(code, 0, self.c.log.read().decode())
        self.assertLessEqual({status for status, _ in self.asked}, {200, 503})


if __name__ == "__main__":
    unittest.main()
