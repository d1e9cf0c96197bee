"""The whole way with a real podman, where it may run containers: this program as an image, served, asked, stopped."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from serving_home import BINARY, ServingTest, free_port

RUN_ARGUMENTS = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network host"


def why_not():
    """Why no container can run here; nothing when one can."""
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "podman without root needs a machine that is set up for it"
    done = subprocess.run(["podman", "--runtime", "runc", "info"], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode != 0 else None


class PodmanServeTest(ServingTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(f"no container can run here: {reason}")

    def setUp(self):
        super().setUp()
        self.environment.update(SIGHTLINE_CONTAINER_ENGINE="podman", SIGHTLINE_CONTAINER_ARGS="--runtime runc",
                                SIGHTLINE_CONTAINER_RUN_ARGS=RUN_ARGUMENTS)

    def test_package_serve_predict_logs_stop(self):
        built = json.loads(self.output_of("package", "gaze-lle", "--out", "built", "--json"))
        package = pathlib.Path(self.home / built["folder"])
        self.addCleanup(self.run_podman, "image", "rm", "--force", built["image"])
        port = free_port()
        output = self.output_of("serve", package, "--container", "--local-only", "--port", port)
        self.assertIn("ready", output)
        self.assertEqual(self.predict(port)["num_heads"], 1)
        [row] = self.running()
        self.assertEqual((row["mode"], row["port"], row["status"]), ("container", port, "running"))
        self.assertIn("Application startup complete", self.output_of("logs", package))
        self.assertIn("stopped tt-model-", self.output_of("stop", package))
        self.assertEqual(self.running(), [])

    def test_what_the_machine_does_not_allow_is_said(self):
        built = json.loads(self.output_of("package", "gaze-lle", "--out", "built", "--json"))
        package = pathlib.Path(self.home / built["folder"])
        self.addCleanup(self.run_podman, "image", "rm", "--force", built["image"])
        done = self.run_program("serve", package, "--container", "--local-only",
                                environment={"SIGHTLINE_CONTAINER_RUN_ARGS": "--ulimit nofile=99999999:99999999"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("SIGHTLINE_CONTAINER_RUN_ARGS", done.stderr)
        self.assertEqual(self.run_podman("ps", "--all", "--quiet", "--filter", "name=tt-model-gaze").stdout, "")

    def run_podman(self, *arguments):
        return subprocess.run(["podman", "--runtime", "runc", *arguments], env=self.environment, capture_output=True,
                              text=True, check=False)


if __name__ == "__main__":
    unittest.main()
