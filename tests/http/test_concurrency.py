"""Many clients at once, and clients that leave."""
import concurrent.futures
import json
import socket
import time
import unittest

from gaze_server import (SECONDS, TRUTH, GazeServer, ServerTest, ask_on, raw_predict, read_status, seeded, toy_boxes,
                         toy_request, random_request, without_times)

# One thread and the plainest kernels: a request with ten heads takes long enough to be met on the device.
SLOW = {"arguments": ("--threads", "1", "--precision", "f32"), "environment": {"SIGHTLINE_ISA": "generic"}}


def slow_request(index=0, heads=10):
    names = sorted(TRUTH)
    boxes = [[10.0 * i, 12.0 * i, 10.0 * i + 60, 12.0 * i + 50] for i in range(heads)]
    return toy_request(names[index % len(names)], bboxes=boxes, heatmap_format="none")


class EqualAnswersTest(ServerTest):
    # ollama #17475, immich #31142: one customer's data in another's answer.
    def test_eight_clients_get_what_one_gets(self):
        generator = seeded(2026)
        requests = [random_request(generator) for _ in range(200)]
        alone = []
        with self.server.connect() as connection:
            for request in requests:
                alone.append(self.answer(connection, request))
        together = [None] * len(requests)

        def client(number):
            with self.server.connect() as connection:
                for i in range(number, len(requests), 8):
                    together[i] = self.answer(connection, requests[i])
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            list(clients.map(client, range(8)))
        self.assertEqual(together, alone)

    def answer(self, connection, request):
        reply = ask_on(connection, "POST", "/predict", json.dumps(request), {"Content-Type": "application/json"})
        self.assertEqual(reply.status, 200, reply.body)
        return without_times(reply.body)

    def test_aborted_requests_do_not_reach_others(self):
        requests = [toy_request(name, bboxes=[toy_boxes(name)[0]], heatmap_format="json") for name in sorted(TRUTH)[:8]]
        right = [self.server.predict(request).document["predictions"] for request in requests]
        failures = []

        def client(number):
            generator = seeded(number)
            for _ in range(8):
                if generator.random() < 0.4:
                    with self.server.socket() as connection:
                        connection.sendall(raw_predict(requests[number]))
                        time.sleep(generator.uniform(0, 0.05))
                elif self.server.predict(requests[number]).document["predictions"] != right[number]:
                    failures.append(number)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            list(clients.map(client, range(8)))
        self.assertEqual(failures, [])


class SlowServerTest(unittest.TestCase):
    def start(self, *arguments):
        server = GazeServer(*SLOW["arguments"], *arguments, environment=SLOW["environment"])
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)

    def storm(self, server, leave):
        """Fifty clients that leave while their requests are inside; returns how long until nothing is inside."""
        sockets = []
        for i in range(50):
            connection = self.enterContext(server.socket())
            connection.sendall(raw_predict(slow_request(i)))
            sockets.append(connection)
        self.wait_for(lambda: server.metric("sightline_requests_admitted") == 50)
        self.assertEqual(server.get("/health").document["status"], "ok")
        start = time.monotonic()
        for connection in sockets:
            leave(connection)
        left = time.monotonic()
        self.wait_for(lambda: server.metric("sightline_requests_cancelled_total") >= 50 and
                      server.metric("sightline_requests_admitted") == 0)
        freed = time.monotonic()
        self.assertEqual(server.get("/health").document["status"], "ok")
        self.assertLess(left - start, 0.25)
        return freed - left

    # llama.cpp #24496, ollama #11889, vllm #54947: work went on after the client had left.
    def test_work_stops_when_clients_close(self):
        server = self.start("--max-queue", "64")
        self.assertLess(self.storm(server, lambda connection: connection.close()), 0.25)
        self.assertEqual(server.metric("sightline_requests_cancelled_total"), 50)
        self.assertEqual(server.predict(toy_request(heatmap_format="none")).status, 200)

    def test_work_stops_when_clients_close_half(self):
        server = self.start("--max-queue", "64")
        self.assertLess(self.storm(server, lambda connection: connection.shutdown(socket.SHUT_WR)), 0.25)
        self.assertEqual(server.metric("sightline_requests_total", route="/predict", code="cancelled"), 50)

    # tt-inference-server PR 863: a full queue gave 500.
    def test_full_queue_is_503_with_retry_after(self):
        server = self.start("--max-queue", "2")
        with concurrent.futures.ThreadPoolExecutor(2) as clients:
            inside = [clients.submit(server.predict, slow_request(i, heads=3)) for i in range(2)]
            self.wait_for(lambda: server.metric("sightline_requests_admitted") == 2)
            start = time.monotonic()
            reply = server.predict(slow_request(2))
            self.assertLess(time.monotonic() - start, 1)
            self.assertEqual((reply.status, reply.code), (503, "busy"))
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
            self.assertEqual(server.get("/health").status, 200)
            self.assertEqual([job.result().status for job in inside], [200, 200])
        self.assertEqual(server.predict(toy_request(heatmap_format="none")).status, 200)

    def test_full_queue_refuses_before_the_body(self):
        server = self.start("--max-queue", "1")
        with self.enterContext(server.socket()) as inside, self.enterContext(server.socket()) as refused:
            inside.sendall(raw_predict(slow_request()))
            self.wait_for(lambda: server.metric("sightline_requests_admitted") == 1)
            refused.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                            b"Content-Length: 1000000\r\n\r\n")
            self.assertEqual(read_status(refused), 503)

    def test_answer_is_due_by_the_deadline(self):
        server = self.start("--deadline-s", "0.3")
        start = time.monotonic()
        reply = server.predict(slow_request())
        if reply.status != 200:  # a fast machine may be in time
            self.assertEqual((reply.status, reply.code), (504, "deadline"))
        self.assertLess(time.monotonic() - start, 2)
        server.wait_until_idle()


class SlowClientsTest(ServerTest):
    arguments = ("--max-queue", "4")

    # tests/net_test.cc has the others: slow heads, bodies and readers, with shorter limits.
    def test_half_open_clients_do_not_hurt_others(self):
        half_open = [self.enterContext(self.server.socket()) for _ in range(40)]
        for i, connection in enumerate(half_open):  # half of them in the head, half in the body
            connection.sendall(b"POST /predict HT" if i % 2 else raw_predict(toy_request())[:1000])
        start = time.monotonic()
        for _ in range(10):
            self.assertEqual(self.server.get("/health").status, 200)
        self.assertLess(time.monotonic() - start, 2)
        self.assert_answers()


if __name__ == "__main__":
    unittest.main()
