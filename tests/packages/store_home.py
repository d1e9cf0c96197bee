"""A user with an empty home and a hub, who keeps packages with the built program. SIGHTLINE_BINARY names it."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hub"))
from running_hub import RunningHub  # noqa: E402

BINARY = pathlib.Path(os.environ.get("SIGHTLINE_BINARY", ROOT / "build" / "bin" / "sightline")).absolute()
TT_MODEL = BINARY.parent / "tt-model"
SECONDS = 120
ENGINE = "nothing-that-is-installed"
WITH_WEIGHTS = ("--with-weights", "--accept-license")  # as scripts say it


def noise(size, seed=1):
    """Bytes that do not repeat, the same each time."""
    return b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(-(-size // 32)))[:size]


def image_files(reference, layer_bytes):
    """An OCI layout of one layer: {path: bytes}, and the config's digest."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo("data")
        member.size = len(layer_bytes)
        archive.addfile(member, io.BytesIO(layer_bytes))
    layer = gzip.compress(stream.getvalue(), mtime=0)
    digest = lambda content: "sha256:" + hashlib.sha256(content).hexdigest()  # noqa: E731
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [digest(stream.getvalue())]}}).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config),
                   "size": len(config)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(layer),
                    "size": len(layer)}]}).encode()
    index = {"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
         "annotations": {"org.opencontainers.image.ref.name": reference}}]}
    files = {"image/oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "image/index.json": json.dumps(index).encode()}
    for blob in (config, manifest, layer):
        files["image/blobs/sha256/" + digest(blob)[7:]] = blob
    return files, digest(config)


def package_files(name, weights, layer_bytes=b"a layer", repo=None):
    """A container package as `package` writes it: {path: bytes}."""
    reference = f"tt-model/{name}:0123456789ab"
    files, digest = image_files(reference, layer_bytes)
    profile = {"name": "default", "hardware": "p150", "mesh_device": "P150", "port": 20000}
    manifest = {
        "schema_version": "5.1", "name": name, "tt_metal_version": "0.78.0", "arch": "blackhole", "device_count": 1,
        "producer": {"tt_kernel_version": "0.1.0", "created_at": "2026-09-13T15:37:45+00:00", "hostname": None},
        "weights": weights, "auxiliary_weights": [],
        "container": {"image": {"registry": "hf", "repository": name, "tag": reference, "digest": digest},
                      "kind": "tt-dit-server", "runtime": {"app": "pkg.app:app"}, "serve": {},
                      "serve_profiles": [profile], "default_profile": "default", "code_dir": "code", "verify": [],
                      "built": {"repo": repo or f"org/{name}"},
                      "card": {"performance": "fast", "limitations": "some"}}}
    files["tt_kernel_manifest.json"] = json.dumps(manifest, indent=2).encode()
    files["README.md"] = f"---\ntags:\n- tt-model-cache\n---\n# {name}\ntt-model serve org/{name}\n".encode()
    files["code/models/app.py"] = b"print(1)\n"
    return files


def write_files(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class StoreTest(unittest.TestCase):
    """Each test has a fresh home and a fresh hub with weights and a package that points at them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sightline-store-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)
        self.home = self.scratch / "home"
        self.home.mkdir()
        self.hub = RunningHub()
        self.addCleanup(self.hub.stop)
        self.environment = {**os.environ, "HOME": str(self.home), "LC_ALL": "C.UTF-8", "HF_ENDPOINT": self.hub.hub,
                            "HF_TOKEN": "hf_write", "SIGHTLINE_CONTAINER_ENGINE": ENGINE}
        for name in ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "XDG_CACHE_HOME", "SIGHTLINE_CACHE",
                     "TT_MODEL_PROGRESS", "SIGHTLINE_CONTAINER_ARGS", "SIGHTLINE_CONTAINER_RUN_ARGS", "http_proxy"):
            self.environment.pop(name, None)
        self.weights = self.hub.put("org/W", {"config.json": b"{}", "model.bin": noise(200_000)},
                                    card={"license": "mit"})
        self.files = package_files("my-dit", {"repo_id": "org/W", "revision": self.weights}, noise(150_000, 2))
        self.commit = self.hub.put("org/my-dit", self.files)

    @property
    def index(self):
        return json.loads((self.home / ".cache/tt-model/installed.json").read_text())

    def run_program(self, *arguments, program=BINARY, **options):
        environment = {**self.environment, **options.pop("environment", {})}
        return subprocess.run([program, *map(str, arguments)], env=environment, capture_output=True, text=True,
                              check=False, timeout=SECONDS, cwd=self.home, stdin=subprocess.DEVNULL, **options)

    def output_of(self, *arguments, **options):
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_fails(self, exit_code, sentence, *arguments, **options):
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        self.assertIn(sentence, done.stderr)
        return done

    def start(self, *arguments, program=BINARY):
        return subprocess.Popen([program, *map(str, arguments)], env=self.environment, cwd=self.home,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
