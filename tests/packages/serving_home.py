"""A user with a home of their own, who serves packages with the built program. SIGHTLINE_BINARY names it."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("SIGHTLINE_BINARY", ROOT / "build" / "bin" / "sightline")).absolute()
TT_MODEL = BINARY.parent / "tt-model"
TOY = ROOT / "assets" / "toy"
SECONDS = 120
GAZE_WEIGHTS = "changh95/gaze-lle-weights"
GAZE_REVISION = "f83e53f0f17dd2175f31ceaf9fa650044147ada1"
ENGINE = "nothing-that-is-installed"  # unless a test brings one


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServingTest(unittest.TestCase):
    """Each test has a fresh home, whose Hugging Face cache holds the toy's weights as if they were Gaze-LLE's."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sightline-packages-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.environment = {**os.environ, "HOME": str(self.home), "LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1",
                            "SIGHTLINE_CONTAINER_ENGINE": ENGINE}
        for name in ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "XDG_CACHE_HOME", "SIGHTLINE_CACHE", "TT_MODEL_PROGRESS",
                     "SIGHTLINE_CONTAINER_ARGS", "SIGHTLINE_CONTAINER_RUN_ARGS", "TT_MODEL_READY_TIMEOUT"):
            self.environment.pop(name, None)
        self.lay_out_weights()
        self.addCleanup(self.end_all)

    def lay_out_weights(self):
        repo = self.home / ".cache/huggingface/hub" / ("models--" + GAZE_WEIGHTS.replace("/", "--"))
        snapshot = repo / "snapshots" / GAZE_REVISION
        snapshot.mkdir(parents=True)
        (repo / "blobs").mkdir()
        (repo / "refs").mkdir()
        (repo / "refs/main").write_text(GAZE_REVISION)
        names = {"dinov2_toy_pretrain.pth": "dinov2_vitb14_pretrain.pth",
                 "gazelle_toy_inout.pt": "gazelle_dinov2_vitb14_inout.pt"}
        for number, (source, name) in enumerate(names.items()):
            digest = f"{number:064x}"
            shutil.copyfile(TOY / source, repo / "blobs" / digest)
            (snapshot / name).symlink_to(f"../../blobs/{digest}")

    def end_all(self):
        self.run_program("stop", "--all", "--grace", "5")

    def run_program(self, *arguments, program=BINARY, **options):
        environment = {**self.environment, **options.pop("environment", {})}
        return subprocess.run([program, *map(str, arguments)], env=environment, capture_output=True, text=True,
                              check=False, timeout=SECONDS, cwd=self.home, stdin=subprocess.DEVNULL, **options)

    def output_of(self, *arguments, **options):
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def start(self, *arguments, program=BINARY, **options):
        """A call that goes on; its output is in pipes."""
        process = subprocess.Popen([program, *map(str, arguments)], env=self.environment, cwd=self.home, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def running(self):
        return json.loads(self.output_of("ps", "--json"))

    def wait_for(self, condition, what):
        end = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end, f"never came: {what}")
            time.sleep(0.02)

    def predict(self, port):
        """Asks about a head in one of the toy's pictures; the answer's document."""
        import base64
        truth = json.loads((TOY / "truth.json").read_text())["pictures"][0]
        body = json.dumps({"image": base64.b64encode((TOY / truth["file"]).read_bytes()).decode(),
                           "bboxes": [truth["people"][0]["box"]], "heatmap_format": "none"})
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
        self.assertEqual(reply.status, 200, text)
        return json.loads(text)


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def kill(pid):
    os.kill(pid, signal.SIGKILL)
