"""Packages that run natively: started, asked, watched, stopped; whatever happens to the tool meanwhile."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import time
import unittest

from serving_home import BINARY, GAZE_REVISION, GAZE_WEIGHTS, TT_MODEL, ServingTest, free_port, kill, write_program

FOREIGN = {
    "schema_version": "5.1", "name": "gaze-lle-p150", "tt_metal_version": "unknown", "arch": "blackhole",
    "device_count": 1, "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-09-13T15:37:45.123456+00:00"},
    "weights": {"repo_id": GAZE_WEIGHTS, "revision": GAZE_REVISION},
    "container": {"image": {"registry": "hf", "tag": "tt-model/gaze-lle-p150:0123456789ab"}, "kind": "tt-dit-server",
                  "runtime": {"app": "a.b:app"}, "serve": {"hardware": "p150", "mesh_device": "P150"},
                  "serve_profiles": [{"name": "default"}], "default_profile": "default"},
}


class NativeServeTest(ServingTest):
    def serve(self, *arguments, target="gaze-lle"):
        port = free_port()
        output = self.output_of("serve", target, "--native", "--port", port, *arguments)
        return port, output

    def test_serves_answers_and_stops(self):
        port, output = self.serve()
        self.assertIn("✓ gaze-lle ready", output)
        self.assertIn(f"http://127.0.0.1:{port}", output)
        self.assertEqual(self.predict(port)["num_heads"], 1)
        [row] = self.running()
        self.assertEqual((row["target"], row["mode"], row["profile"], row["port"], row["status"]),
                         ("gaze-lle", "native", "cpu", port, "ready"))
        self.assertIn("Application startup complete", self.output_of("logs", "gaze-lle"))
        self.assertIn("stopped gaze-lle", self.output_of("stop", "gaze-lle"))
        self.assertEqual(self.running(), [])
        self.assertEqual(self.output_of("stop", "gaze-lle"), "nothing running\n")
        self.assertIn("stopped", self.output_of("logs", "gaze-lle", "--tail", "1"), "the log stays")

    def test_package_of_someone_else_runs_here_by_its_weights(self):
        manifest = self.home / "package" / "tt_kernel_manifest.json"
        manifest.parent.mkdir()
        manifest.write_text(json.dumps(FOREIGN))
        port = free_port()
        done = self.run_program("serve", manifest, "--port", port, program=TT_MODEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("runs natively on the CPU", done.stderr)
        self.predict(port)
        done = self.run_program("stop", manifest, program=TT_MODEL)
        self.assertEqual(done.stdout, "stopped 1 container(s)\n")

    def test_options_of_the_server_are_passed_on(self):
        port, _ = self.serve("--max-heads", "1")
        import http.client
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/info")
            self.assertIn('"max_heads":1', connection.getresponse().read().decode().replace(" ", ""))

    def test_option_that_the_server_does_not_know(self):
        done = self.run_program("serve", "gaze-lle", "--native", "--max-model-len", "9")
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not take --max-model-len 9", done.stderr)
        self.assertIn("'--max-model-len' is not understood", done.stderr)
        self.assertEqual(self.running(), [])

    def test_detached_returns_before_it_is_ready(self):
        port = free_port()
        output = self.output_of("serve", "gaze-lle", "--detach", "--port", port)
        self.assertIn(f"http://127.0.0.1:{port}", output)
        self.assertNotIn("ready", output)
        self.wait_for(lambda: self.running()[0]["status"] == "ready", "ready")

    def test_second_one_is_refused(self):
        self.serve()
        done = self.run_program("serve", "gaze-lle", "--native")
        self.assertEqual(done.returncode, 5)
        self.assertIn("gaze-lle is already running", done.stderr)
        self.assertIn("sightline stop gaze-lle", done.stderr)
        done = self.run_program("serve", "gaze-lle", program=TT_MODEL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tt-model stop gaze-lle", done.stderr)

    def test_taken_port_is_said(self):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]
            done = self.run_program("serve", "gaze-lle", "--native", "--port", port)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"port {port} is taken", done.stderr)

    def test_removed_package_runs_no_more(self):
        self.output_of("serve", "gaze-lle", "--native", "--detach", "--port", free_port())
        self.output_of("rm", "gaze-lle")
        self.assertEqual(self.running(), [])

    def test_server_outlives_a_tool_that_is_killed(self):
        port = free_port()
        tool = self.start("serve", "gaze-lle", "--native", "--port", port)
        self.wait_for(lambda: self.running() != [], "a server")
        tool.kill()
        tool.wait()
        self.wait_for(lambda: self.running()[0]["status"] == "ready", "ready")
        self.predict(port)
        self.assertIn("stopped", self.output_of("stop", "gaze-lle"))

    def test_tool_that_is_killed_at_any_moment_leaves_nothing_unknown(self):
        for delay in range(0, 60, 3):
            tool = self.start("serve", "gaze-lle", "--native", "--port", free_port())
            time.sleep(delay / 1000)
            tool.kill()
            tool.wait()
            time.sleep(0.05)
            known = {row["pid"] for row in self.running()}
            self.assertEqual(known, self.servers_of_this_home())
            self.output_of("stop", "--all")
            self.assertEqual(self.servers_of_this_home(), set())

    def servers_of_this_home(self):
        """Process numbers of servers, found by what the kernel knows."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--log-file" in words and str(self.home).encode() in words[words.index(b"--log-file") + 1]:
                    found.add(int(pid))
        return found

    def test_dead_server_is_noticed(self):
        self.serve()
        kill(self.running()[0]["pid"])
        self.wait_for(lambda: self.running() == [], "its end")
        self.assertEqual(self.output_of("stop", "gaze-lle"), "nothing running\n")
        self.serve()

    def test_dead_engine_keeps_no_server_from_stopping(self):
        self.serve()
        write_program(self.home / "bin/docker", "#!/bin/sh\n[ $1 = --version ] && exec echo Docker version 28.0.1\n"
                                                "echo 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
        self.environment.update(PATH=f"{self.home / 'bin'}:{os.environ['PATH']}", SIGHTLINE_CONTAINER_ENGINE="docker")
        done = self.run_program("stop", "--all")
        self.assertEqual(done.stdout, "stopped gaze-lle\n")
        self.assertIn("its daemon does not answer", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.running(), [])

    def test_interrupt_ends_the_waiting_and_not_the_server(self):
        tool = self.start("serve", "gaze-lle", "--native", "--port", free_port())
        self.wait_for(lambda: self.running() != [], "a server")
        tool.send_signal(signal.SIGINT)
        output, errors = tool.communicate(timeout=60)
        if "ready" not in output:  # else it was ready before the signal came
            self.assertEqual(tool.returncode, 130, errors)
        self.assertEqual(len(self.running()), 1)

    def test_logs_follow_until_the_end(self):
        self.serve()
        follow = self.start("logs", "gaze-lle", "--follow")
        self.assertIn("\n", follow.stdout.readline())
        self.output_of("stop", "gaze-lle")
        rest, _ = follow.communicate(timeout=60)
        self.assertIn("stopped", rest)
        self.assertEqual(follow.returncode, 0)

    def test_foreground_is_this_process(self):
        port = free_port()
        server = self.start("serve", "gaze-lle", "--foreground", "--port", port)
        for line in server.stderr:
            if "Application startup complete" in line:
                break
        self.predict(port)
        server.terminate()
        self.assertEqual(server.wait(60), 0)

    def test_printed_command_does_nothing(self):
        output = self.output_of("serve", "gaze-lle", "--print", "--port", "20123")
        self.assertEqual(output.count("\n"), 1)
        self.assertIn(" serve gaze-lle --weights ", output)
        self.assertIn(f"/snapshots/{GAZE_REVISION} --port 20123", output)
        self.assertEqual(self.running(), [])

    def test_missing_weights_offline_say_what_is_missing(self):
        import shutil
        shutil.rmtree(self.home / ".cache/huggingface")
        done = self.run_program("serve", "gaze-lle", "--native")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(GAZE_WEIGHTS, done.stderr)
        self.assertEqual(self.running(), [])

    def test_progress_events(self):
        done = self.run_program("serve", "gaze-lle", "--native", "--port", free_port(),
                                environment={"TT_MODEL_PROGRESS": "ndjson"})
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        steps = [(event["key"], event["state"]) for event in events if event["event"] == "step"]
        for key in ("weights", "server", "boot"):
            self.assertIn((key, "start"), steps)
            self.assertIn((key, "done"), steps)


class PersonaTest(ServingTest):
    def test_version_help_and_no_arguments(self):
        self.assertEqual(self.output_of("--version", program=TT_MODEL), "0.1.0\n")
        self.assertEqual(self.output_of("version", program=TT_MODEL), "0.1.0\n")
        self.assertEqual(self.output_of(program=TT_MODEL), self.output_of("--help", program=TT_MODEL))

    def test_usage_errors_are_2_and_failures_1(self):
        done = self.run_program("serve", program=TT_MODEL)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr.startswith("tt-model: "), done.stderr)
        done = self.run_program("stop", "nobody/nothing", program=TT_MODEL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tt-model pull nobody/nothing", done.stderr)

    def test_two_verbs_in_a_row(self):
        done = self.run_program("stop", "serve", "x/y", program=TT_MODEL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Did you mean: tt-model serve x/y", done.stderr)

    def test_misspelt_verb(self):
        done = self.run_program("sreve", "x/y", program=TT_MODEL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Did you mean: tt-model serve", done.stderr)

    def test_name_of_old(self):
        done = self.run_program("--version", program=BINARY.parent / "tt-kernel")
        self.assertEqual((done.returncode, done.stdout), (0, "0.1.0\n"))
        self.assertIn("tt-kernel is called tt-model now", done.stderr)

    def test_wrong_timeout_is_a_failure(self):
        done = self.run_program("serve", "gaze-lle", program=TT_MODEL, environment={"TT_MODEL_READY_TIMEOUT": "soon"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("TT_MODEL_READY_TIMEOUT is 'soon'", done.stderr)

    def test_curl_prints_a_command(self):
        done = self.run_program("curl", "hi", "--print", "--model", "org/m", "--temperature", "0.5", program=TT_MODEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("curl -sS http://localhost:20000/v1/chat/completions \\\n"))
        self.assertIn('"temperature": 0.5', done.stdout)
        self.assertIn("--model", done.stderr)


if __name__ == "__main__":
    unittest.main()
