"""Proxies and certificates as the environment names them, through the built program. Everything stays on loopback."""
import shutil
import socket
import ssl
import subprocess
import threading
import unittest

from forward_proxy import ForwardProxy
from store_home import TT_MODEL, WITH_WEIGHTS, RunningHub, StoreTest, noise

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def port_of(url):
    return int(url.rsplit(":", 1)[1])


class NetworkTest(StoreTest):
    def setUp(self):
        super().setUp()
        for name in (*VARIABLES, "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUEST_METHOD"):
            self.environment.pop(name, None)
            self.environment.pop(name.upper(), None)

    def proxy(self, hub, password=None):
        """Before a hub that is known by names which nobody else resolves."""
        scheme = hub.hub.split(":")[0]
        proxy = ForwardProxy({"hub.test": port_of(hub.hub), "cdn.test": port_of(hub.cdn)}, password)
        self.addCleanup(proxy.stop)
        hub.set(hub=f"{scheme}://hub.test", cdn=f"{scheme}://cdn.test")
        self.environment["HF_ENDPOINT"] = f"{scheme}://hub.test"
        return proxy


class ProxyTest(NetworkTest):
    def test_everything_goes_through_it(self):
        proxy = self.proxy(self.hub)
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS, environment={"http_proxy": proxy.url})
        self.assertEqual(proxy.hosts(), {"hub.test", "cdn.test"})
        for line, headers in proxy.asked:
            self.assertEqual("authorization" in headers, "//hub.test/" in line, line)
        self.assertIn("ok", self.output_of("verify"))

    def test_capitals_do_but_not_in_a_web_server(self):
        proxy = self.proxy(self.hub)
        self.output_of("search", "dit", environment={"HTTP_PROXY": proxy.url})
        self.assertEqual(proxy.hosts(), {"hub.test"})
        proxy.asked.clear()
        done = self.run_program("search", "dit", environment={"HTTP_PROXY": proxy.url, "REQUEST_METHOD": "GET"})
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(proxy.asked, [])

    def test_no_proxy_is_kept(self):
        proxy = self.proxy(self.hub)
        direct = f"http://0.0.0.0:{port_of(self.hub.hub)}"  # this machine, by an address that does not say so
        for variable in ("no_proxy", "NO_PROXY"):
            self.output_of("search", "dit", environment={"http_proxy": proxy.url, variable: "a.test,0.0.0.0",
                                                         "HF_ENDPOINT": direct})
        self.assertEqual(proxy.asked, [])
        self.output_of("search", "dit", environment={"http_proxy": proxy.url, "no_proxy": "a.test", "HF_ENDPOINT": direct})
        self.assertEqual(proxy.hosts(), {"0.0.0.0"})

    def test_this_machine_is_asked_directly(self):
        proxy = self.proxy(self.hub)
        self.output_of("search", "dit", environment={"http_proxy": proxy.url, "all_proxy": proxy.url,
                                                     "HF_ENDPOINT": self.hub.hub})
        self.assertEqual(proxy.asked, [])

    def test_passwords_are_sent_and_never_shown(self):
        proxy = self.proxy(self.hub, password="me:s3cret")
        self.output_of("search", "dit", environment={"http_proxy": proxy.url})
        wrong = proxy.url.replace("s3cret", "wr0ng")
        for url, sentence in ((wrong, "the proxy does not let us through"),
                              (wrong.replace(str(proxy.port), "9"), "proxies (https_proxy)")):
            done = self.run_program("search", "dit", environment={"http_proxy": url})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(sentence, done.stderr)
            self.assertNotIn("wr0ng", done.stdout + done.stderr)


class CountingServer:
    """Shakes hands with a certificate and counts who came; nobody gets an answer."""

    def __init__(self, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                if connection.recv(1, socket.MSG_PEEK) == b"":
                    return
                self.connections += 1
                try:
                    self.context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    pass  # the client hung up, as it should

    def stop(self):
        socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join()
        self.listener.close()


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class CertificateTest(NetworkTest):
    """A hub with a certificate that nobody but SSL_CERT_FILE and its like vouches for."""

    def setUp(self):
        super().setUp()
        self.certificate = self.scratch / "certificate.pem"
        names = "IP:127.0.0.1,DNS:localhost,DNS:hub.test,DNS:cdn.test"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-subj", "/CN=hub", "-days", "2", "-addext", f"subjectAltName={names}",
                        "-keyout", self.scratch / "key.pem", "-out", self.certificate], check=True, capture_output=True)
        both = self.scratch / "both.pem"
        both.write_bytes(self.certificate.read_bytes() + (self.scratch / "key.pem").read_bytes())
        self.secure = RunningHub(both)
        self.addCleanup(self.secure.stop)
        self.secure.put("org/W", {"config.json": b"{}", "model.bin": noise(200_000)})
        self.secure.put("org/my-dit", self.files)
        self.environment["HF_ENDPOINT"] = self.secure.hub

    def test_what_nobody_vouches_for_is_refused(self):
        done = self.assert_fails(1, "certificate", "pull", "org/my-dit", program=TT_MODEL)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.secure.log(), [])

    def test_a_refusal_is_final_and_says_what_to_set(self):
        server = CountingServer(self.scratch / "both.pem")
        self.addCleanup(server.stop)
        hub = {"HF_ENDPOINT": f"https://127.0.0.1:{server.port}"}
        nobody = {**hub, "SSL_CERT_FILE": str(self.scratch / "absent.pem")}
        wrong_name = {"SSL_CERT_FILE": str(self.certificate), "HF_ENDPOINT": f"https://0.0.0.0:{server.port}"}
        self.assert_fails(7, "set SSL_CERT_FILE or REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE", "pull", "org/my-dit",
                          environment=hub)
        self.assertEqual(server.connections, 1)
        self.assert_fails(7, f"SSL_CERT_FILE={self.certificate}", "pull", "org/my-dit", environment=wrong_name)
        self.assertEqual(server.connections, 2)
        self.assert_fails(7, "set SSL_CERT_FILE", "pull", f"oci://0.0.0.0:{server.port}/team/package:1")
        self.assertEqual(server.connections, 3)
        self.assert_fails(7, "absent.pem", "pull", "org/my-dit", environment=nobody)

    def test_each_variable_names_roots(self):
        for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            self.output_of("search", "dit", environment={variable: str(self.certificate)})
        self.assertEqual(len(self.secure.log()), 3)
        self.output_of("pull", "org/my-dit", "--container", environment={"SSL_CERT_FILE": str(self.certificate)})
        self.assertIn("ok", self.output_of("verify"))

    def test_a_name_that_the_certificate_lacks_is_refused(self):
        port = port_of(self.secure.hub)
        done = self.run_program("search", "dit", environment={"SSL_CERT_FILE": str(self.certificate),
                                                              "HF_ENDPOINT": f"https://0.0.0.0:{port}"})
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.secure.log(), [])

    def test_through_a_proxy_nobody_reads_along(self):
        proxy = self.proxy(self.secure)
        roots = {"SSL_CERT_FILE": str(self.certificate)}
        self.output_of("pull", "org/my-dit", "--container", environment={"https_proxy": proxy.url, **roots})
        self.assertEqual(proxy.hosts(), {"hub.test", "cdn.test"})
        before = len(proxy.asked)
        self.output_of("search", "dit", environment={"HTTPS_PROXY": proxy.url, **roots})
        self.assertGreater(len(proxy.asked), before)
        for line, headers in proxy.asked:
            self.assertTrue(line.startswith("CONNECT "), line)
            self.assertNotIn("authorization", headers)

    def test_files_do_not_come_in_the_open(self):
        commit = self.secure.state("org/W")["commit"]
        elsewhere = {"Location": f"{self.hub.cdn}/objects/{'0' * 64}", "X-Repo-Commit": commit, "X-Linked-Size": "9",
                     "X-Linked-Etag": '"' + "0" * 64 + '"'}
        self.secure.fault(match="HEAD .*/resolve/", kind="status", status=302, headers=elsewhere, times=1000)
        self.hub.reset()
        self.assert_fails(1, "not encrypted", "pull", "org/my-dit", program=TT_MODEL,
                          environment={"SSL_CERT_FILE": str(self.certificate)})
        self.assertEqual(self.hub.log(), [])


if __name__ == "__main__":
    unittest.main()
