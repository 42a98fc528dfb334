"""Throw-away certificate authorities.

    ca = Authority(tmp_path / "ca")
    tls = ca.host(tmp_path / "h1", "h1", "127.0.0.1", "10.0.0.1")

`tls` is a folder as nbdkit, libnbd and Weft want it: ca-cert.pem,
server-cert.pem, server-key.pem and client-*.pem, one certificate for both uses.
ca.revoked(7) is the CA's list of what is revoked, of number 7.
"""

import pathlib

from wefttest import run


def openssl(*words):
    return run("openssl", *words).stdout


class Authority:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir()
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=a test's own CA", "-keyout", self.dir / "key.pem",
                "-out", self.dir / "cert.pem",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def host(self, directory, name, *addresses):
        d = pathlib.Path(directory)
        d.mkdir()
        names = ",".join([f"DNS:{name}", *(f"IP:{a}" for a in addresses)])
        (d / "extensions").write_text(
            "basicConstraints=critical,CA:false\n"
            "keyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth,clientAuth\n"
            f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-subj", f"/CN={name}",
                "-keyout", d / "server-key.pem", "-out", d / "csr.pem")
        openssl("x509", "-req", "-in", d / "csr.pem", "-days", "2",
                "-CA", self.dir / "cert.pem", "-CAkey", self.dir / "key.pem",
                "-CAcreateserial", "-extfile", d / "extensions",
                "-out", d / "server-cert.pem")
        (d / "ca-cert.pem").symlink_to(self.dir / "cert.pem")
        for what in ("cert", "key"):
            (d / f"client-{what}.pem").symlink_to(d / f"server-{what}.pem")
        return d

    def revoked(self, number):
        """Its list of revoked certificates, an empty one, with this number."""
        (self.dir / "index").touch()
        (self.dir / "number").write_text(f"{number:02x}\n")
        (self.dir / "conf").write_text(
            "[ca]\ndefault_ca=x\n[x]\n"
            f"database={self.dir}/index\ncrlnumber={self.dir}/number\n"
            "default_md=sha256\ndefault_crl_days=9\ncrl_extensions=e\n"
            "[e]\nauthorityKeyIdentifier=keyid\n")
        return openssl("ca", "-gencrl", "-config", self.dir / "conf", "-keyfile",
                       self.dir / "key.pem", "-cert", self.dir / "cert.pem")


def nbd_connect(handle, uri, tls):
    """Connect a libnbd handle with this folder's certificate."""
    handle.set_tls_certificates(str(tls))
    handle.set_tls_verify_peer(True)
    handle.connect_uri(uri)
    return handle
