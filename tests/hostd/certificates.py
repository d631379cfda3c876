"""Certificates for tests, made by openssl: authorities, certificates of servers and of hosts, any
validity."""

import subprocess
import time
from pathlib import Path


def openssl(*words, stdin=None):
    r = subprocess.run(["openssl", *map(str, words)], input=stdin, capture_output=True, timeout=60)
    assert r.returncode == 0, r.stderr.decode()
    return r.stdout


def stamp(seconds):
    """An ASN.1 time, seconds from now."""
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))


class Authority:
    """A folder with a CA: cert is what others believe it by."""

    def __init__(self, folder, name="test authority"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        self.cert, self.key, self.serial = self.folder / "ca.pem", self.folder / "ca.key", 1
        (self.folder / "index").touch()
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", self.key, "-out", self.cert,
                "-subj", f"/CN={name}", "-days", "30", "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def sign(self, csr, san, seconds=86400, since=-3600):
        """The certificate for a request in PEM, valid from since to seconds from now."""
        self.serial += 1
        (self.folder / "serial").write_text(f"{self.serial:04X}\n")
        config = self.folder / "ca.conf"
        config.write_text(f"""[ca]
default_ca=d
[d]
database={self.folder}/index
serial={self.folder}/serial
new_certs_dir={self.folder}
default_md=sha256
policy=p
x509_extensions=x
unique_subject=no
[p]
commonName=optional
organizationName=optional
[x]
subjectAltName={san}
basicConstraints=critical,CA:FALSE
""")
        request = self.folder / "request.pem"
        request.write_bytes(csr)
        openssl("ca", "-batch", "-notext", "-config", config, "-cert", self.cert, "-keyfile", self.key,
                "-in", request, "-out", self.folder / "out.pem",
                "-startdate", stamp(since), "-enddate", stamp(seconds))
        return (self.folder / "out.pem").read_bytes()

    def issue(self, name, san="IP:127.0.0.1,DNS:localhost", subject=None, **validity):
        """(certificate, key) files in the authority's folder."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        csr = openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", key, "-subj", subject or f"/CN={name}")
        cert.write_bytes(self.sign(csr, san, **validity))
        key.chmod(0o600)
        return cert, key

    def lists(self, *revoked, due=86400):
        """Its revocation list with these certificates' files in it, and those of before."""
        config = self.folder / "ca.conf"
        for cert in revoked:
            openssl("ca", "-config", config, "-cert", self.cert, "-keyfile", self.key, "-revoke", cert)
        (self.folder / "crlnumber").write_text(f"{int(time.time()):08X}\n")
        return openssl("ca", "-config", config, "-gencrl", "-cert", self.cert, "-keyfile", self.key,
                       "-crlsec", due).decode()
