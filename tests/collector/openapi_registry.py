"""What tests/collector/test_openapi.py drives of the registry: each answer of each call."""

import json
import time

JSON = {"Content-Type": "application/json"}
INTENT = {"name": "h0", "user": "alice", "argv": ["train"], "slices": ["h0"]}


def member(worker, **more):
    return {"v": 1, "slice": "h0", "worker": worker, "host": f"h{worker}", "id": f"id{worker}",
            "incarnation": "a", "address": ["10.0.0.1"],
            "hosts": 2, "next": ["h1"], "orders": "cordoned: why", "state": "degraded",
            "reasons": "nic.mtu eth1",
            "version": "0.1.0", "accelerator": "v6e-16", **more}


class Drive:
    def __init__(self, case):
        self.case = case

    def call(self, method, path, status, body=None, headers=None, name="h0", worker=0, query=""):
        url = path.replace("{name}", name).replace("{worker}", str(worker)) + query
        port = self.case.c.otlp if path.startswith("/registry/") else self.case.c.api
        text = json.dumps(body) if isinstance(body, dict) else body
        got, kind, answer, _ = self.case.request(port, method, url, text, headers)
        self.case.assertEqual(got, status, (method, url, answer))
        return self.case.file.take(method, path, got, kind, answer)

    def before_reads(self):
        """So that every GET finds something."""
        sync = "/registry/v1/sync"
        self.call("POST", sync, 200, {"v": 1, "same": "h0/0", "incarnation": "a"})
        answer = self.call("POST", sync, 200,
                           {"v": 1, "wait": 1,
                            "member": member(0, topology="4x4", runs=[
                                {"name": "j", "generation": 1, "state": "running", "suspected": 1,
                                 "suspicion": "no step for 40 s"}]),
                            "figures": [{"run": "j", "generation": 1, "at": 1, "step": 12, "step_time": 4000000,
                                         "doing": "stall", "goodput": 0.9,
                                         "checkpoint": {"at": 1, "step": 10, "took": 500000, "since": 2}}]})
        self.case.assertEqual(answer["records"]["slice/h0"]["state"], "forming")
        self.case.assertEqual(self.call("POST", sync, 200,
                                        {"v": 1, "member": member(0, id="x")})["conflict"]["holder"], "h0")
        self.call("POST", sync, 400, {"v": 1})
        self.call("POST", sync, 413, "x" * 300000)
        self.call("POST", "/api/v1/runs", 201, INTENT, JSON)
        self.call("POST", "/api/v1/runs", 409, INTENT, JSON)
        self.call("POST", "/api/v1/runs", 415, INTENT)
        self.call("POST", "/api/v1/runs", 413, "x" * 300000, JSON)
        self.call("POST", "/api/v1/runs", 400, {**INTENT, "user": "root", "name": "other"}, JSON)
        for kind in ("mode", "cordon", "drain"):
            path = "/api/v1/hosts/{name}/" + kind
            self.call("PUT", path, 200, query=f"?reason=why&until={int(time.time()) + 3600}")
            self.call("PUT", path, 400, query="?until=1")
            self.call("PUT", path, 404, query="?reason=why", name="nothing")
            self.call("DELETE", path, 404, name="nothing")
        capture = "/api/v1/slices/{name}/capture"
        self.call("POST", capture, 202)
        self.call("POST", capture, 409)
        self.call("POST", capture, 400, query="?nonsense=1")
        self.call("POST", capture, 404, name="nothing")
        pairs = "/api/v1/slices/{name}/pairs"
        self.call("POST", pairs, 409)
        self.call("POST", pairs, 400, query="?nonsense=1")
        self.call("POST", pairs, 404, name="nothing")
        self.post_captures()
        self.call("PUT", "/api/v1/mode", 200, query="?reason=why")
        self.call("PUT", "/api/v1/mode", 400, query="?nonsense=1")

    def post_captures(self):
        path, run = "/registry/v1/capture", "&run=own&generation=1&suspicion=stall&hosts=2&slice_hosts=2&rounds=2"
        who = f"slice=h0&worker=0&host=h0&incarnation=a&round=0&taken={int(time.time() * 1e6)}{run}"
        self.call("POST", path, 200, "x", query="?" + who)
        self.call("POST", path, 400, "x", query="?" + who.replace("round=0", "round=2"))
        self.call("POST", path, 404, "x", query="?episode=none&" + who)
        self.call("POST", path, 413, "x" * 2000000, query="?" + who)
        self.call("POST", path, 503, "x", query="?" + who.replace("worker=0", "worker=1"))

    def after_reads(self):
        slot = "/api/v1/slices/{name}/slots/{worker}"
        orders = self.call("GET", "/api/v1/hosts/{name}/orders", 200)
        self.case.assertEqual((orders["cordon"]["reason"], orders["mode"]["mode"]), ("why", "observe"))
        self.case.assertIsNone(self.call("GET", "/api/v1/hosts/{name}/orders", 200, name="h1")["drain"])
        self.call("GET", "/api/v1/hosts/{name}/orders", 404, name="free")
        self.call("GET", "/api/v1/runs/{name}", 404, name="nothing")
        self.call("GET", "/api/v1/slices/{name}", 404, name="nothing")
        self.call("GET", "/api/v1/slices/{name}/diagnosis", 404, name="nothing")
        self.call("GET", "/api/v1/slices/{name}/diagnosis", 404, name="nothing", query="?for=agent")
        self.call("GET", "/api/v1/slices/{name}/diagnosis", 200, query="?for=agent")
        self.call("GET", "/api/v1/slices/{name}/captures", 404, name="nothing")
        self.call("GET", "/api/v1/slices/{name}/pairs", 404)
        self.call("GET", "/api/v1/slices/{name}/episodes", 404, name="nothing")
        self.call("DELETE", "/api/v1/runs/{name}", 404, name="nothing")
        self.case.assertTrue(self.call("DELETE", "/api/v1/runs/{name}", 202)["intent"]["stop"])
        self.call("DELETE", slot, 409)
        self.call("DELETE", slot, 404, worker=7)
        self.call("DELETE", slot, 400, query="?nonsense=1")
        self.call("POST", "/registry/v1/sync", 404,
                  {"v": 1, "same": "h0/0", "incarnation": "a", "tenant": "another"})
        self.case.assertEqual(self.call("POST", "/registry/v1/sync", 200,
                                        {"v": 1, "same": "h0/0", "incarnation": "a", "leave": True})["tell"],
                              True)
        for kind in ("mode", "cordon", "drain"):
            self.call("DELETE", "/api/v1/hosts/{name}/" + kind, 204)
        self.call("DELETE", "/api/v1/mode", 204)
        self.call("DELETE", slot, 204)
