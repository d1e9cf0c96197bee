"""A user with a docker on the PATH that is fake_docker.py, and with a package whose image opens no device."""
import json
import os
import pathlib

from serving_home import BINARY, ServingTest, write_program

HERE = pathlib.Path(__file__).resolve().parent
IMAGE = "tt-model/gaze:111111111111"
MANIFEST = {
    "schema_version": "5.1", "name": "gaze", "tt_metal_version": "unknown", "arch": "blackhole", "device_count": 0,
    "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-09-13T15:37:45.123456+00:00"},
    "weights": {"repo_id": "org/weights-of-gaze", "revision": None},
    "container": {"image": {"registry": "hf", "repository": "gaze", "tag": IMAGE, "digest": "sha256:" + "1" * 64},
                  "kind": "tt-dit-server", "runtime": {"app": "a.b:app"},
                  "serve": {"hardware": "p150", "mesh_device": "P150"}, "serve_profiles": [{"name": "default"}],
                  "default_profile": "default"},
}


class FakeDockerTest(ServingTest):
    def setUp(self):
        super().setUp()
        self.docker = self.home / "docker-state"
        self.docker.mkdir()
        write_program(self.home / "bin/docker", f"#!/bin/sh\nexec {HERE / 'fake_docker.py'} \"$@\"\n")
        self.environment.update(PATH=f"{self.home / 'bin'}:{os.environ['PATH']}", FAKE_DOCKER=str(self.docker),
                                SIGHTLINE_BINARY=str(BINARY), SIGHTLINE_CONTAINER_ENGINE="docker")
        self.install_package()

    def install_package(self):
        """As a pull leaves it."""
        root = self.home / ".cache/tt-model"
        manifest = root / "pulled/org__gaze/tt_kernel_manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(json.dumps(MANIFEST))
        (root / "installed.json").write_text(json.dumps({"org/gaze": {
            "repo_id": "org/gaze", "container": True, "image": IMAGE, "revision": None, "manifest": str(manifest),
            "arch": "blackhole", "image_digest": "sha256:" + "1" * 64, "image_loaded_id": "sha256:" + "1" * 64,
            "profile": "default", "profiles": ["default"]}}))

    def calls(self, verb):
        lines = (self.docker / "calls").read_text().splitlines()
        return [call for call in map(json.loads, lines) if call[0] == verb]
