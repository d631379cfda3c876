"""Callers of the agent's API over TCP: certificates of several kinds, a tpu-hostd that answers to some,
and calls as one of them."""

import http.client
import json
import re
import ssl

from around import Hostd, wait_until
from certificates import Authority

READER, ACTOR = "spiffe://site/people", "spiffe://site/control/drainer"


class Site:
    """An authority with a server certificate, and one client certificate of each kind: {name:
    (certificate, key)}."""

    def __init__(self, folder):
        self.authority = Authority(folder / "ca")
        foreign = Authority(folder / "foreign", "another authority")
        issue = self.authority.issue
        self.server = issue("server", "IP:127.0.0.1,IP:::1,DNS:localhost")
        self.clients = {
            "reader": issue("reader", f"DNS:x,URI:{READER}"),
            "actor": issue("actor", f"URI:spiffe://site/first,URI:{ACTOR}"),
            "other": issue("other", "URI:spiffe://site/other"),
            "unnamed": issue("unnamed", "DNS:nobody"),
            "expired": issue("expired", f"URI:{ACTOR}", since=-7200, seconds=-3600),
            "early": issue("early", f"URI:{ACTOR}", since=3600),
            "foreign": foreign.issue("actor", f"URI:{ACTOR}"),
        }

    def settings(self, **changes):
        keys = {"Listen": "127.0.0.1:0", "Certificate": self.server[0], "Key": self.server[1],
                "ClientCa": self.authority.cert,
                "AllowReaders": f"spiffe://elsewhere/x {READER}", "AllowActors": "spiffe://site/control/*",
                **changes}
        return "[Api]\n" + "".join(f"{k}={v}\n" for k, v in keys.items() if v is not None)

    def context(self, who=None):
        context = ssl.create_default_context(cafile=self.authority.cert)
        if who:
            context.load_cert_chain(*self.clients[who])
        return context


class TlsHostd(Hostd):
    """A Hostd whose API answers on TCP, too."""

    def __init__(self, site, api=None, **hostd):
        super().__init__(**hostd)
        self.site, self.plain = site, self.config.read_text()
        self.configure(**(api or {}))

    def configure(self, **changes):
        self.config.write_text(self.plain + self.site.settings(**changes))

    def port(self):
        """Where it listens now."""
        found = wait_until(lambda: re.findall(r"the API answers on \S*:(\d+) too", self.output.read_text()),
                           10, "the listener")
        return int(found[-1])

    def remote(self, who, path, method="GET", host="127.0.0.1", context=None, body=None):
        """(status, body as JSON or text) of a call as one of the site's clients; None: without a
        certificate."""
        c = http.client.HTTPSConnection(host, self.port(), timeout=60,
                                        context=context or self.site.context(who))
        try:
            c.request(method, path, body)
            r = c.getresponse()
            text = r.read()
            return (r.status, json.loads(text) if r.getheader("Content-Type") == "application/json"
                    else text.decode())
        finally:
            c.close()
