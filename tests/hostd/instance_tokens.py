"""A stand-in of Google, as far as instance identity tokens go: RSA keys made by openssl, the file of their
public halves, and tokens that are signed with them. And of whoever would like to be Google: any header,
any claim."""

import base64
import hashlib
import hmac
import json
import subprocess
import time

AUDIENCE = "https://collectors.site.example"
PROJECT, ZONE = "site-tpu", "us-east5-a"


def base64url(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def openssl(*words, stdin=b""):
    done = subprocess.run(["openssl", *map(str, words)], input=stdin, capture_output=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Key:
    def __init__(self, folder, name, bits=2048):
        self.id, self.path = name, folder / f"{name}.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}", "-out", self.path)
        self.public = openssl("pkey", "-in", self.path, "-pubout").decode()

    def jwk(self):
        modulus = openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().split("=")[1]
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id, "e": "AQAB",
                "n": base64url(bytes.fromhex(modulus)).decode()}

    def sign(self, data):
        return openssl("dgst", "-sha256", "-sign", self.path, stdin=data)


def jwks(*keys):
    return json.dumps({"keys": [k.jwk() for k in keys]})


def claims(vm, since=0, life=3600, number=None, vm_claims=None, **more):
    """What a token of this VM says; None leaves a claim out."""
    now = int(time.time()) + since
    machine = {"project_id": PROJECT, "project_number": 739419398126, "zone": ZONE, "instance_name": vm,
               "instance_id": number or str(int(hashlib.sha256(vm.encode()).hexdigest()[:15], 16)),
               "instance_creation_timestamp": now - 100000, **(vm_claims or {})}
    said = {"iss": "https://accounts.google.com", "aud": AUDIENCE, "azp": "1", "sub": "1",
            "iat": now, "exp": now + life, "email": "agent@site-tpu.iam.gserviceaccount.com",
            "email_verified": True, "google": {"compute_engine": without(machine)}, **more}
    return without(said)


def without(o):
    return {k: v for k, v in o.items() if v is not None}


def token(key, said, header=None, sign=None):
    head = without({"alg": "RS256", "kid": key.id, "typ": "JWT", **(header or {})})
    signed = base64url(head) + b"." + base64url(said)
    return (signed + b"." + base64url((sign or key.sign)(signed))).decode()


def hs256(secret):
    """Signs by a text that everybody knows, such as a public key."""
    return lambda data: hmac.new(secret.encode(), data, hashlib.sha256).digest()
