"""tt-model with containers, against a docker that runs our own server in their place."""
import json
import unittest

from fake_docker_home import IMAGE, FakeDockerTest
from serving_home import TT_MODEL, free_port


class ContainerServeTest(FakeDockerTest):
    def tt_model(self, *arguments, **options):
        return self.run_program(*arguments, program=TT_MODEL, **options)

    def test_serves_until_stopped(self):
        port = free_port()
        done = self.tt_model("serve", "org/gaze", "--port", port, "--no-weights")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("✓ org/gaze ready", done.stdout)
        self.assertNotIn("Application startup complete", done.stdout + done.stderr)  # no line of its log
        self.assertIn("tt-model-gaze-default", done.stdout)
        [run] = self.calls("run")
        self.assertEqual(run[:4], ["run", "--detach", "--name", "tt-model-gaze-default"])
        self.assertIn(IMAGE, run)
        self.predict(port)
        done = self.tt_model("logs", "org/gaze")
        self.assertIn("Application startup complete", done.stdout)
        done = self.tt_model("serve", "org/gaze", "--no-weights")
        self.assertEqual(done.returncode, 1)
        self.assertIn("already running", done.stderr)
        done = self.tt_model("stop", "org/gaze")
        self.assertEqual((done.returncode, done.stdout), (0, "stopped 1 container(s)\n"))
        self.assertEqual(self.tt_model("stop", "org/gaze").stdout, "nothing running\n")
        self.assertEqual(self.tt_model("logs", "org/gaze").returncode, 1)

    def test_verbose_rows_are_plain_lines(self):
        done = self.tt_model("--verbose", "serve", "org/gaze", "--detach", "--no-weights", "--port", free_port())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("starting the container…\n", done.stderr)
        self.assertIn("✓ container started  tt-model-gaze-default", done.stderr)
        self.assertNotIn("\x1b", done.stderr + done.stdout)
        self.assertEqual(self.calls("logs"), [])

    def test_events(self):
        port = free_port()
        done = self.tt_model("--verbose", "serve", "org/gaze", "--detach", "--no-weights", "--port", port,
                             environment={"TT_MODEL_PROGRESS": "ndjson"})
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        [container] = [event for event in events if event["event"] == "container"]
        self.assertEqual(container["endpoint"], f"http://127.0.0.1:{port}/v1")
        states = {(event["key"], event["state"]) for event in events if event["event"] == "step"}
        self.assertLessEqual({("host", "done"), ("container", "start"), ("container", "done")}, states)

    def test_failure_is_an_event_too(self):
        done = self.tt_model("serve", "org/gaze", "--detach", "--no-weights", "--profile", "nope",
                             environment={"TT_MODEL_PROGRESS": "ndjson"})
        self.assertEqual(done.returncode, 1)
        [error] = [json.loads(line) for line in done.stdout.splitlines() if '"event": "error"' in line]
        self.assertIn("nope", error["cause"] + error["detail"])

    def test_print_runs_nothing(self):
        done = self.tt_model("serve", "org/gaze", "--print", "--", "--loud", "a b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("docker run --name tt-model-gaze-default "), done.stdout)
        self.assertTrue(done.stdout.endswith(" --loud 'a b'\n"), done.stdout)
        self.assertEqual(self.calls("run"), [])

    def test_ps_says_how_long(self):
        self.tt_model("serve", "org/gaze", "--detach", "--no-weights", "--port", free_port())
        [row] = self.running()
        self.assertEqual((row["name"], row["mode"], row["uptime"]), ("tt-model-gaze-default", "container", "3 minutes"))
        self.assertGreater(row["uptime_seconds"], 0)

    def test_profiles(self):
        done = self.tt_model("profiles", "org/gaze")
        self.assertIn("default (default)  p150 · P150", done.stdout)

    def test_curl_refuses_a_server_that_does_not_chat(self):
        port = free_port()
        self.tt_model("serve", "org/gaze", "--port", port, "--no-weights")
        done = self.tt_model("curl", "hello", "--base-url", f"http://localhost:{port}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/v1/models", done.stderr)


if __name__ == "__main__":
    unittest.main()
