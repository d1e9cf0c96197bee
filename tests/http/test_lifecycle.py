"""Ports, starting, stopping."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from gaze_server import BINARY, SECONDS, GazeServer, raw_predict, toy_request
from test_concurrency import SLOW, slow_request


def run_server(*arguments):
    """A server that is expected to end by itself."""
    return subprocess.run([BINARY, "serve", "gaze-lle", *arguments], capture_output=True, check=False, timeout=SECONDS)


class PortTest(unittest.TestCase):
    # ollama #707
    def test_taken_port_is_named_with_its_process(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            done = run_server("--toy", "--port", str(port))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"port {port} on 127.0.0.1 is taken by process {os.getpid()} (".encode(), done.stderr)

    def test_given_port_is_taken_exactly(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
        with GazeServer(port=port) as server:
            self.assertEqual(server.port, port)

    def test_without_a_port_it_is_20000_or_the_next_free_one(self):
        try:
            other = socket.create_server(("127.0.0.1", 20000))
        except OSError:
            other = None  # somebody has it already: just as good
        try:
            with GazeServer(port=None) as server:
                self.assertGreater(server.port, 20000)
                self.assertLess(server.port, 20100)
                self.assertEqual(server.get("/health").status, 200)
        finally:
            if other:
                other.close()

    def test_bad_hosts_are_usage_errors(self):
        done = run_server("--toy", "--host", "192.0.2.1", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"192.0.2.1", done.stderr)


class StartTest(unittest.TestCase):
    def test_log_says_what_was_decided_and_when_it_is_ready(self):
        with GazeServer() as server:
            log = server.log()
            self.assertRegex(log, r"\d+ threads?: affinity \d+, cgroup quota \S+, physical cores \d+")
            self.assertLess(log.index("listening on http://127.0.0.1:"), log.index("Application startup complete"))
            self.assertIn(f"http://127.0.0.1:{server.port}", log.split("Application startup complete")[1])

    def test_missing_weights_end_it_with_the_reason(self):
        done = run_server("--weights", "/no/such/folder", "--port", "0")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"/no/such/folder", done.stderr)

    # Synthetic weights take seconds to make: time to see a server that is starting.
    def test_starting_server_says_so_and_stops_at_once(self):
        server = GazeServer(weights="--synthetic")
        try:
            server.wait_until_it_listens()
            self.assertEqual(server.get("/health").document, {"status": "starting", "model": "gaze-lle", "device": ""})
            for reply in (server.predict(toy_request()), server.get("/info")):
                self.assertEqual((reply.status, reply.code), (503, "starting"))
                self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
            self.assertEqual(server.get("/v1/models").status, 200)
            self.assertEqual(server.metric("sightline_ready"), 0)
            code, seconds = server.stop()
            self.assertEqual(code, 0)
            self.assertLess(seconds, 2)
        finally:
            server.__exit__()


class StopTest(unittest.TestCase):
    def assert_stops(self, number):
        with GazeServer() as server:
            with server.socket() as idle, server.socket() as half_open:
                idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                idle.recv(65536)
                half_open.sendall(b"GET /hea")
                code, seconds = server.stop(number)
            self.assertEqual(code, 0, server.log())
            self.assertLess(seconds, 1)

    def test_idle_server_stops_at_once_on_sigterm(self):
        self.assert_stops(signal.SIGTERM)

    def test_idle_server_stops_at_once_on_sigint(self):
        self.assert_stops(signal.SIGINT)

    def test_pipe_signals_are_ignored(self):
        with GazeServer() as server:
            server.process.send_signal(signal.SIGPIPE)
            self.assertEqual(server.get("/health").status, 200)

    # wyoming-piper PR 47: process 1 of a container ignored SIGTERM and was killed after ten seconds.
    def test_stops_as_process_1(self):
        isolate = ["unshare", "--pid", "--fork", "--kill-child"]
        if not shutil.which("unshare") or subprocess.run([*isolate, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no right to make a PID namespace here")
        with GazeServer(command=isolate) as server:
            children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
            start = time.monotonic()
            os.kill(int(children.split()[0]), signal.SIGTERM)
            self.assertEqual(server.process.wait(SECONDS), 0)
            self.assertLess(time.monotonic() - start, 1)

    # triton #6230, pytorch/serve #2008: shutdown dropped what was in flight, or hung.
    def test_drain_finishes_what_runs_and_refuses_what_waits(self):
        with GazeServer(*SLOW["arguments"], environment=SLOW["environment"]) as server, \
                concurrent.futures.ThreadPoolExecutor(4) as clients, server.connect() as idle:
            jobs = [clients.submit(server.predict, slow_request(i, heads=4)) for i in range(4)]
            end = time.monotonic() + SECONDS
            while (server.metric("sightline_requests_running"), server.metric("sightline_requests_queued")) != (1, 3):
                self.assertLess(time.monotonic(), end)
            idle.connect()
            server.process.send_signal(signal.SIGTERM)
            replies = [job.result() for job in jobs]
            self.assertEqual(sorted(reply.status for reply in replies), [200, 503, 503, 503])
            for reply in replies:
                self.assertEqual(reply.headers["connection"], "close")
                if reply.status == 503:
                    self.assertEqual(reply.code, "draining")
                    self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
                else:
                    self.assertEqual(reply.document["num_heads"], 4)
            self.assertEqual(server.process.wait(SECONDS), 0)
            with self.assertRaises(ConnectionRefusedError):
                server.get("/health")

    def test_second_signal_ends_it_at_once(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with GazeServer(*SLOW["arguments"], environment=SLOW["environment"]) as server, server.socket() as client:
                client.sendall(raw_predict(slow_request()))
                end = time.monotonic() + SECONDS
                while not server.metric("sightline_requests_running"):
                    self.assertLess(time.monotonic(), end)
                server.process.send_signal(number)
                server.wait_for_log("finishing what runs")
                got, seconds = server.stop(number)
                self.assertEqual(got, code)
                self.assertLess(seconds, 1)


class LocaleTest(unittest.TestCase):
    # nlohmann/json #302: decimal commas.
    def test_answers_do_not_depend_on_the_locale(self):
        known = subprocess.run(["locale", "-a"], capture_output=True, check=False).stdout.decode().split()
        german = next((name for name in known if re.match(r"de_DE\.utf-?8$", name, re.I)), "C.UTF-8")
        texts = []
        for name in ("C", german):
            with GazeServer(environment={"LC_ALL": name, "LANG": name}) as server:
                reply = server.predict(toy_request(heatmap_format="json"), {"X-Request-Id": "x"})
                texts.append(re.sub(rb'"timing_ms":\{"inference":\d+\.\d+,"total":\d+\.\d+\}', b"", reply.body))
                self.assertNotIn(b"timing_ms", texts[-1])
                self.assertRegex(server.get("/metrics").body, rb'(?m)_sum\{route="/predict"\} \d+\.\d+$')
        self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    unittest.main()
