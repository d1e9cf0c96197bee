"""The released `tt` client drives our tt-model: serve with its progress, ps, logs, stop.

It lies in a virtual environment of its own (tests/packages/requirements.txt), made here when it is missing.
"""
import json
import os
import pathlib
import subprocess
import unittest

from fake_docker_home import FakeDockerTest
from serving_home import ROOT, TT_MODEL, free_port

VENV = pathlib.Path(os.environ.get("SIGHTLINE_TT_VENV", ROOT / "build" / "tt-venv"))
TT = VENV / "bin" / "tt"
REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"


def make_venv():
    """Why there is no client; nothing when there is one."""
    if TT.exists():
        return None
    steps = [["python3", "-m", "venv", VENV],
             [VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "-r", REQUIREMENTS]]
    for step in steps:
        try:
            subprocess.run(step, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as failure:
            return f"pip cannot fetch the tt client: {failure}"
    return None


class TtClientTest(FakeDockerTest):
    @classmethod
    def setUpClass(cls):
        reason = make_venv()
        if reason:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self.environment.update(TT_TOOL_BIN_TT_MODEL=str(TT_MODEL), TT_TELEMETRY_DISABLED="1", NO_COLOR="1",
                                TT_SERVE_READY_TIMEOUT="100", COLUMNS="200", HF_HUB_DISABLE_TELEMETRY="1")

    def tt(self, *arguments):
        done = self.run_program(*arguments, program=TT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_serve_ps_logs_stop(self):
        port = free_port()
        ready = json.loads(self.tt("serve", "org/gaze", "--yes", "--offline", "--port", port, "--json"))
        self.assertEqual(ready["backend"], "tt-model")
        self.assertEqual(ready["endpoint"], f"http://127.0.0.1:{port}/v1")
        self.assertTrue(ready["container"])
        self.assertEqual(len(self.calls("run")), 1)
        served = json.loads(self.tt("model", "ps", "--json"))
        rows = served if isinstance(served, list) else next(iter(served.values()))
        [row] = [row for row in rows if row["port"] == port]
        self.assertEqual((row["name"], row["profile"], row["health"]), ("org/gaze", "default", "healthy"))
        self.assertIn("Application startup complete", self.tt("model", "logs", "org/gaze"))
        self.assertIn("default", self.tt("model", "profiles", "org/gaze"))
        self.assertIn("stopped 1 container(s)", self.tt("model", "stop", "org/gaze"))
        self.assertEqual(len(self.calls("stop")), 1)

    def test_reason_of_a_failure_reaches_the_user(self):
        done = self.run_program("serve", "org/gaze", "--yes", "--offline", "--profile", "nope", program=TT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nope", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
