#!/usr/bin/python3
"""A certificate that was revoked, denied, or has ended: what its holder gets on connections that are open
and on new ones."""

import json
import os
import ssl
import time
import unittest

from attack_case import HOST, READER, Attack, member
from certificates import Authority


class Revoked(Attack):
    def revoke(self, *who, ca=None, name="lists.pem", due=86400):
        """The authority's list of these certificates, into a file."""
        return self.put(name, (ca or self.ca).lists(*(self.who[w][0] for w in who), due=due))

    def says(self, c):
        """What B's sync is answered on this connection."""
        r = self.ask(c, "POST", "/registry/v1/sync", json.dumps({"v": 1, "member": member("b")}))
        return r.status, r.content.decode()

    def looked(self):
        """Files are looked at when somebody connects."""
        for port in (self.c.otlp, self.c.api):
            self.connect("a", port).connect()

    def test_revoked_while_connected(self):
        crl = self.revoke()
        self.collector(Crl=crl)
        c = self.connect("b")
        self.assertEqual(self.says(c)[0], 200)
        self.revoke("b")
        self.looked()
        status, text = self.says(c)
        self.assertEqual((status, self.says(self.connect("b"))[0]), (403, 403))
        self.assertIn("the client certificate is revoked", text)
        self.assertEqual(self.sync("a", member=member("a", "s1")).status, 200)

    def test_list_that_cannot_be_used(self):
        """Damaged, of another authority, gone: the previous one stays in force, and the journal says so."""
        crl = self.revoke("b")
        self.collector(Crl=crl)
        self.assertEqual(self.says(self.connect("b"))[0], 403)
        other = Authority(self.folder / "other")
        other.issue("x", "URI:x:x")
        for change in (lambda: self.put("lists.pem", "-----BEGIN X509 CRL-----\nAAAA\n"),
                       lambda: self.put("lists.pem", ""), lambda: os.unlink(crl),
                       lambda: self.revoke(ca=other)):
            change()
            self.assertEqual((self.says(self.connect("b"))[0], self.sync("a", member=member("a")).status),
                             (403, 200))
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("holds no revocation list in PEM form; the previous files stay in force", self.c.said)
        self.assertIn("is of no authority of ClientCa=; the previous files stay in force", self.c.said)

    def test_overdue_list(self):
        """Whoever forgets to renew the list shuts nobody out, and lets nobody in who is in it."""
        crl = self.revoke("b", due=1)
        time.sleep(2)
        self.collector(Crl=crl)
        self.assertEqual((self.says(self.connect("b"))[0], self.sync("a", member=member("a")).status),
                         (403, 200))

    def test_denied_while_connected(self):
        deny = self.put("deny", "")
        self.collector(DenyUris=deny)
        c, reader = self.connect("b"), self.connect("reader", self.c.api)
        self.assertEqual((self.says(c)[0], self.ask(reader, "GET", "/api/v1/hosts").status), (200, 200))
        self.put("deny", f"# stolen\n{HOST}b\n{READER}\n")
        self.looked()
        self.assertEqual((self.says(c)[0], self.ask(reader, "GET", "/api/v1/hosts").status), (403, 403))
        self.assertIn("is denied here", self.says(self.connect("b"))[1])
        self.put("deny", "")
        self.looked()
        self.assertEqual(self.says(c)[0], 200)

    def test_list_of_a_large_site(self):
        """AllowAgents= in a file of 20,000 names, which changes while its hosts are connected."""
        names = [f"{HOST}host-{i}" for i in range(20000)]
        allow = self.put("allow", "\n".join([*names, HOST + "b"]))
        self.collector(AllowAgents=allow)
        c = self.connect("b")
        self.assertEqual((self.says(c)[0], self.sync("a", member=member("a")).status), (200, 403))
        self.put("allow", "\n".join([*names, HOST + "a"]))
        self.assertEqual((self.sync("a", member=member("a", "s1")).status, self.says(c)[0]), (200, 403))

    def test_ends_while_connected(self):
        self.who["b"] = self.ca.issue("soon", f"URI:{HOST}b", seconds=3)
        self.collector()
        c = self.connect("b")
        self.assertEqual(self.says(c)[0], 200)
        time.sleep(4.1)  # the second of its end is the last that counts
        status, text = self.says(c)
        self.assertEqual(status, 403)
        self.assertIn("the client certificate is expired", text)

    def test_authority_is_rotated(self):
        """Both are believed while both are in the file; then the old one's certificates are not."""
        new = Authority(self.folder / "new", "new authority")
        self.who["c"] = new.issue("c", f"URI:{HOST}c")
        old_text, new_text = self.ca.cert.read_text(), new.cert.read_text()
        clients = self.put("clients.pem", old_text + new_text)
        self.collector(ClientCa=clients)
        old = self.connect("b")
        self.assertEqual((self.says(old)[0], self.sync("c", member=member("c", "s1")).status), (200, 200))
        self.put("clients.pem", new_text)
        self.assertEqual(self.sync("c", member=member("c", "s1")).status, 200)
        self.assertEqual((self.says(old)[0], self.says(self.connect("b"))[0]), (403, 403))

    def test_old_tls(self):
        self.collector()
        with self.assertRaises(OSError):
            self.says(self.connect("b", version=ssl.TLSVersion.TLSv1_2))
        self.assertEqual(self.says(self.connect("b"))[0], 200)


if __name__ == "__main__":
    unittest.main()
