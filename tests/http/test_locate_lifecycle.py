"""The LocateAnything server: starting, clients at once, clients that leave, stopping, the smoke test."""
import concurrent.futures
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from locate_server import CAR, PICTURE, LocateServer, LocateServerTest, question, weights_of
from running_server import BINARY, PICTURES, SECONDS, raw_predict, seeded, without_times

# A picture in as many patches as the limit allows takes seconds on one thread of the plainest kernels.
SLOW = {"arguments": ("--threads", "1", "--max-seq-len", "16384", "--warmup-runs", "0", "--precision", "f32"),
        "environment": {"SIGHTLINE_ISA": "generic"}}


def slow_question(side=110):
    """Each grid is a picture of its own to the cache."""
    return question(grid=f"{side}x{side}", in_token_limit=25600)


class TogetherTest(LocateServerTest):
    def test_four_clients_get_what_one_gets(self):
        requests = [question(query, picture=picture, mode=mode)
                    for query in ("car", "person", "dog", "cat", "bus") for mode in ("slow", "hybrid")
                    for picture in (PICTURE, PICTURES / "cat.png")]
        alone = [without_times(self.server.predict(request).body) for request in requests]
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            together = list(clients.map(lambda request: without_times(self.server.predict(request).body), requests))
        self.assertEqual(together, alone)

    # ollama #17475: after aborted requests customers got each other's data.
    def test_aborted_requests_do_not_reach_others(self):
        failures = []

        def client(number):
            query, found = [("car", 1), ("person", 2), ("cat", 0), ("bus", 1)][number]
            generator = seeded(number)
            for _ in range(6):
                if generator.random() < 0.4:
                    with self.server.socket() as connection:
                        connection.sendall(raw_predict(question(query)))
                        time.sleep(generator.uniform(0, 0.1))
                elif len(self.server.predict(question(query)).document["detections"]) != found:
                    failures.append(query)
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            list(clients.map(client, range(4)))
        self.assertEqual(failures, [])


class StartTest(unittest.TestCase):
    def test_landmarks_come_in_the_seeds_order(self):
        with LocateServer(environment={"LA_PREC": "accuracy", "TT_FUSED": "1"}) as server:
            log = server.log()
        landmarks = ["Loading weights: resolving", "Loading weights: Qwen2.5-3B LLM", "Loading weights: MoonViT",
                     "Warming up", "Warmup run 1/2", "Warmup run 2/2", "Warmup complete",
                     "Application startup complete"]
        places = [log.find(landmark) for landmark in landmarks]
        self.assertNotIn(-1, places, log)
        self.assertEqual(places, sorted(places))
        self.assertEqual(log.count("without effect on a CPU: LA_PREC, TT_FUSED"), 1)
        self.assertNotIn("Opening mesh device", log)

    def test_starting_server_says_so_and_stops_at_once(self):
        server = LocateServer("--warmup-runs", "100")
        try:
            server.wait_until_it_listens()
            self.assertEqual(server.get("/health").document,
                             {"status": "starting", "model": "LocateAnything-3B", "device": ""})
            for reply in (server.predict(question()), server.get("/info")):
                self.assertEqual((reply.status, reply.code), (503, "starting"))
                self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
            self.assertEqual(server.get("/v1/models").status, 200)
            server.wait_for_log("Warmup run 3/100")
            self.assertEqual(server.get("/health").document["status"], "starting")
            code, seconds = server.stop()
            self.assertEqual(code, 0)
            self.assertLess(seconds, 2)
        finally:
            server.__exit__()

    def test_variables_of_the_seed_work(self):
        environment = {"LA_CANON_GRID": "8x10", "LA_MAX_NEW_TOKENS": "3", "LA_MAX_NEW_TOKENS_CAP": "5",
                       "LA_WARMUP_RUNS": "0"}
        with LocateServer(environment=environment) as server:
            self.assertNotIn("Warmup run", server.log())
            answer = server.predict(question()).document
            self.assertEqual(answer["grid_hw"], [8, 10])
            self.assertEqual(answer["num_generated_tokens"], 3)
            self.assertEqual(server.predict(question(max_new_tokens=6)).status, 400)

    def test_language_model_is_extracted_where_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "llm"
            with LocateServer(environment={"LA_LLM_DIR": str(target)}) as server:
                log = server.log()
            self.assertLess(log.index("Loading weights: resolving"), log.index("Loading weights: extracting"))
            self.assertLess(log.index("Loading weights: extracting"), log.index("Loading weights: Qwen2.5-3B LLM"))
            self.assertTrue((target / "model.safetensors").exists())
            written = (target / "model.safetensors").stat().st_mtime_ns
            with LocateServer(environment={"LA_LLM_DIR": str(target)}):
                self.assertEqual((target / "model.safetensors").stat().st_mtime_ns, written)
            with LocateServer(environment={"LA_LLM_DIR": str(target), "LA_FORCE_EXTRACT": "1"}):
                self.assertNotEqual((target / "model.safetensors").stat().st_mtime_ns, written)

    def test_weights_come_from_the_variable_too(self):
        done = subprocess.run([BINARY, "serve", "locate-anything", "--port", "0"], check=False, capture_output=True,
                              env={"LA_WEIGHTS_DIR": "/no/such/folder", "HOME": "/tmp"}, timeout=SECONDS)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"/no/such/folder", done.stderr)

    def test_wrong_variables_are_usage_errors(self):
        done = subprocess.run([BINARY, "serve", "locate-anything", "--port", "0"], check=False, capture_output=True,
                              env={"LA_CANON_GRID": "9x9", "HOME": "/tmp"}, timeout=SECONDS)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"LA_CANON_GRID is '9x9'", done.stderr)


class LeaveTest(unittest.TestCase):
    # llama.cpp #24496, vllm #54947: work went on for clients that had left.
    def test_work_stops_when_the_client_goes(self):
        with LocateServer(*SLOW["arguments"], environment=SLOW["environment"]) as server:
            for i in range(3):
                with server.socket() as connection:
                    connection.sendall(raw_predict(slow_question(100 + 2 * i)))
                    while server.metric("sightline_requests_running") == 0:
                        time.sleep(0.005)
                left = time.monotonic()
                server.wait_until_idle()
                self.assertLess(time.monotonic() - left, 2)
            self.assertEqual(server.metric("sightline_requests_cancelled_total"), 3)
            self.assertEqual(server.get("/health").document["status"], "ok")
            self.assertEqual(server.predict(question()).document["detections"][0]["box_norm"], CAR)

    # triton #6230, pytorch/serve #2008: shutdown dropped what was in flight, or hung.
    def test_drain_finishes_what_runs_and_refuses_what_waits(self):
        with LocateServer(*SLOW["arguments"], environment=SLOW["environment"]) as server, \
                concurrent.futures.ThreadPoolExecutor(4) as clients:
            jobs = [clients.submit(server.predict, slow_question(90))]
            while server.metric("sightline_requests_running") == 0:
                time.sleep(0.005)
            jobs += [clients.submit(server.predict, question()) for _ in range(3)]
            while server.metric("sightline_requests_queued") < 3:
                time.sleep(0.005)
            server.process.send_signal(signal.SIGTERM)
            replies = [job.result() for job in jobs]
            self.assertEqual([reply.status for reply in replies], [200, 503, 503, 503])
            self.assertEqual({reply.code for reply in replies[1:]}, {"draining"})
            self.assertEqual(server.process.wait(SECONDS), 0)

    def test_full_queue_is_busy(self):
        with LocateServer(*SLOW["arguments"], "--max-queue", "1", environment=SLOW["environment"]) as server, \
                server.socket() as connection:
            connection.sendall(raw_predict(slow_question(100)))
            while server.metric("sightline_requests_running") == 0:
                time.sleep(0.005)
            reply = server.predict(question())
            self.assertEqual((reply.status, reply.code), (503, "busy"))
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)


class SmokeTest(unittest.TestCase):
    def run_smoke_test(self, *arguments):
        return subprocess.run([BINARY, "smoke-test", *map(str, arguments)], check=False, capture_output=True,
                              timeout=SECONDS)

    def test_prints_the_line_of_the_seed(self):
        with LocateServer() as server:
            url = f"http://127.0.0.1:{server.port}"
            overlay = server.folder / "overlay.png"
            done = self.run_smoke_test("--url", url + "/", "--save", overlay)
            self.assertEqual(done.returncode, 0, done.stdout)
            line = done.stdout.decode()
            self.assertRegex(line, r"^PASS 1 boxes labels=\['car'\] tokens=10 eos=True grid=\[24, 44\] canon=\[616, 336\] "
                                   r"mode=ar_greedy vision=\d+ms prefill=\d+ms decode=\d+ms \(\d+\.\d tok/s\)\n$")
            self.assertTrue(overlay.read_bytes().startswith(b"\x89PNG"))
            done = self.run_smoke_test("--url", url, "--query", "person", "--image", PICTURES / "cat.png")
            self.assertTrue(done.stdout.startswith(b"PASS 2 boxes labels=['person']"), done.stdout)
            failed = self.run_smoke_test("--url", url, "--query", "x" * 2000)
            self.assertEqual(failed.returncode, 1)
            self.assertRegex(failed.stdout.decode(), r"^FAIL status 400: query has 2000 characters")
            failed = self.run_smoke_test("--url", url + "/v1")
            self.assertRegex(failed.stdout.decode(), r"^FAIL status 404: there is no such route")

    def test_no_server_fails(self):
        done = self.run_smoke_test("--url", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith(b"FAIL http://127.0.0.1:1/predict:"), done.stdout)


class TinyTest(LocateServerTest):
    """Random weights: answers without sense, that still end and are JSON."""

    @classmethod
    def start(cls, *arguments):
        return LocateServer(*arguments, weights=weights_of("tiny"))

    # NVlabs/Eagle and mudler/locate-anything.cpp: the same box again and again up to the last token.
    def test_answers_end(self):
        for fields in ({"mode": "hybrid"}, {"mode": "fast"}, {"mode": "slow"}, {"mode": "slow", "temperature": 1.0},
                       {"mode": "hybrid", "temperature": 1.0, "top_p": 0.9, "repetition_penalty": 1.1}):
            with self.subTest(str(fields)):
                answer = self.answer(question("cat", max_new_tokens=40, seed=5, **fields))
                self.assertLessEqual(answer["num_generated_tokens"], 40)
                self.assertIn(answer["finish_reason"], ("stop", "length", "loop", "malformed"))
                again = self.answer(question("cat", max_new_tokens=40, seed=5, **fields))
                self.assertEqual(again["token_ids"], answer["token_ids"])
