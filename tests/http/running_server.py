"""A running `sightline serve`, driven over sockets as its users drive it. SIGHTLINE_BINARY names the program."""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("SIGHTLINE_BINARY", ROOT / "build" / "bin" / "sightline")).resolve()
PICTURES = ROOT / "tests" / "data" / "images"
AWKWARD = PICTURES / "awkward"
READY = "Application startup complete"
SECONDS = 120

JSON_TYPE = {"Content-Type": "application/json"}


def text_of(picture):
    """A picture file as an image field."""
    return base64.b64encode(pathlib.Path(picture).read_bytes()).decode()


def without_times(text):
    """The bytes of an answer that must be equal when the same is asked again."""
    text, times = re.subn(rb'"timing_ms":\{[^}]*\},', b"", text)
    text = re.sub(rb'"cached":\{[^}]*\},', b"", text)
    text, ids = re.subn(rb'"request_id":"[^"]*"', b"", text)
    assert times == 1 and ids == 1, text[:500]
    return text


class Reply:
    """What came back: status, headers (names in lower case), body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {k.lower(): v for k, v in headers}, body

    @property
    def document(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The error code, or "ok"."""
        return self.document.get("error", {}).get("code", "ok")


class Server:
    """One server process. Use it as a context manager."""

    model = None  # what is served

    def __init__(self, *arguments, weights, environment=None, port="0", command=()):
        self._folder = tempfile.TemporaryDirectory(prefix="sightline-http-")
        self.folder = pathlib.Path(self._folder.name)
        self._log = open(self.folder / "log", "w+b")
        port_option = [] if port is None else ["--port", str(port)]
        self.process = subprocess.Popen(
            [*command, BINARY, "serve", self.model, *weights, *port_option, *map(str, arguments)],
            env={**os.environ, "SIGHTLINE_CACHE": str(self.folder / "cache"), "LC_ALL": "C", **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self.port = None

    def __enter__(self):
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()
        self._folder.cleanup()

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def wait_for_log(self, text):
        end = time.monotonic() + SECONDS
        while text not in self.log():
            if self.process.poll() is not None and text not in self.log():
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > end:
                raise RuntimeError(f"the log never said {text!r}:\n{self.log()}")
            time.sleep(0.005)

    def wait_until_it_listens(self):
        self.wait_for_log("loading weights")
        self.port = int(re.search(r"listening on http://[^ ]*:(\d+)", self.log())[1])

    def wait_until_ready(self):
        self.wait_until_it_listens()
        self.wait_for_log(READY)

    def stop(self, number=signal.SIGTERM):
        """Sends a signal and returns (exit code, seconds it took)."""
        start = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(SECONDS), time.monotonic() - start

    # ---- asking

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        return contextlib.closing(connection)

    def ask(self, method, path, body=None, headers=None):
        with self.connect() as connection:
            return ask_on(connection, method, path, body, headers)

    def get(self, path):
        return self.ask("GET", path)

    def predict(self, request, headers=None):
        """`request` is an object, or bytes to be sent as they are."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.ask("POST", "/predict", body, {**JSON_TYPE, **(headers or {})})

    def socket(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return contextlib.closing(connection)

    def send(self, data):
        """The status of the first answer to raw bytes; None when the connection just ends."""
        with self.socket() as connection:
            connection.sendall(data)
            return read_status(connection)

    # ---- looking inside

    def metric(self, name, **labels):
        """The sum of all samples of one name that have these labels."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            match = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if match and all(f'{key}="{value}"' in (match[1] or "") for key, value in labels.items()):
                total += float(match[2])
        return total

    def private_memory(self):
        """RssAnon and swap, in bytes: what a leak fills."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(value) << 10 for value in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", status, re.M))

    def wait_until_idle(self):
        end = time.monotonic() + SECONDS
        while self.metric("sightline_requests_admitted") > 0:
            if time.monotonic() > end:
                raise RuntimeError("requests are still inside")
            time.sleep(0.01)


def ask_on(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Reply(response.status, response.getheaders(), response.read())


def read_status(connection):
    data = b""
    while b"\r\n" not in data:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return None
        data += part
    return int(data.split()[1])


def raw_predict(request):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
            len(body)) + body


class ServerTest(unittest.TestCase):
    """Each test class has one server, made by `start`; `arguments` are its options."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.start(*cls.arguments)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def assert_error(self, reply, status, code, param=None, says=None):
        self.assertEqual((reply.status, reply.code), (status, code), reply.body)
        error = reply.document["error"]
        self.assertEqual(set(error), {"code", "message", "param", "request_id"})
        self.assertEqual(error["request_id"], reply.headers["x-request-id"])
        self.assertEqual(reply.headers["content-type"], "application/json")
        if param:
            self.assertEqual(error["param"], param)
        if says:
            self.assertIn(says, error["message"])
        self.assertNotRegex(error["message"], r"0x[0-9a-f]{6,}|/home/|/tmp/|\.cc\b")


def seeded(seed):
    return random.Random(seed)
