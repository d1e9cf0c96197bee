"""The real huggingface_hub package beside our module: what the local hub speaks, and one cache for both.

The package lies in a virtual environment that scripts/test makes (build/hub-venv, tests/hub/requirements.txt); our side
is hub_program, built with the tests.
"""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from running_hub import HERE, RunningHub

ROOT = HERE.parent.parent
PYTHON = pathlib.Path(os.environ.get("SIGHTLINE_HUB_PYTHON", ROOT / "build/hub-venv/bin/python3"))
PROGRAM = pathlib.Path(os.environ.get("SIGHTLINE_HUB_PROGRAM", ROOT / "build/bin/hub_program"))
NOISE = random.Random(1).randbytes(250_000)
FILES = {"README.md": b"# hello\n", "config.json": b"{}", "empty": b"", "code/a/b.py": b"print()\n",
         "model.safetensors": NOISE, "copy/of.safetensors": NOISE, "a b/\u00fc.txt": b"odd"}


@unittest.skipUnless(PYTHON.exists(), "huggingface_hub is not installed: scripts/test does that")
@unittest.skipUnless(PROGRAM.exists(), "hub_program is not built")
class HuggingfaceHub(unittest.TestCase):
    def setUp(self):
        self.hub = RunningHub()
        self.addCleanup(self.hub.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.source = self.home / "source"
        for path, data in FILES.items():
            (self.source / path).parent.mkdir(parents=True, exist_ok=True)
            (self.source / path).write_bytes(data)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        return {**kept, "HF_ENDPOINT": self.hub.hub, "HF_HOME": str(self.home / "hf"), "HF_HUB_DISABLE_XET": "1",
                "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_TOKEN": "hf_write",
                "no_proxy": "*", **more}

    def package(self, code, **environment):
        """Runs code with huggingface_hub; returns what it assigns to `result`."""
        text = f"import json, huggingface_hub as hub\n{code}\nprint(json.dumps(result))"
        done = subprocess.run([PYTHON, "-c", text], env=self.environment(**environment), capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, *arguments, **environment):
        done = subprocess.run([PROGRAM, *arguments], env=self.environment(**environment), capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def check_snapshot(self, folder):
        for path, data in FILES.items():
            self.assertEqual((pathlib.Path(folder) / path).read_bytes(), data, path)

    def check_repository(self, repo):
        self.assertEqual({path: file["size"] for path, file in self.hub.state(repo)["files"].items()},
                         {path: len(data) for path, data in FILES.items()})

    def layout(self, repo):
        """Every file and link of the cache, but for the locks."""
        cache = self.home / "hf/hub" / ("models--" + repo.replace("/", "--"))
        return {path.relative_to(cache).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
                for path in cache.rglob("*") if path.is_symlink() or path.is_file()}

    def test_the_package_uploads_to_the_local_hub_and_downloads_from_it(self):
        self.hub.set(part=100_000, page=3)
        name = self.package("api = hub.HfApi()\n"
                            "api.create_repo('org/theirs', private=True)\n"
                            f"api.upload_folder(repo_id='org/theirs', folder_path={str(self.source)!r})\n"
                            "result = api.whoami()['name']")
        self.assertEqual(name, "writer")
        self.check_repository("org/theirs")
        self.check_snapshot(self.package("result = hub.snapshot_download('org/theirs')"))

    def test_the_package_understands_the_refusals(self):
        self.hub.put("org/gated", {"a": b"1"}, gated="manual")
        kinds = self.package("def kind(call):\n"
                             "    try: call()\n"
                             "    except Exception as error: return type(error).__name__\n"
                             "api = hub.HfApi(token=False)\n"
                             "result = [kind(lambda: api.model_info('org/nowhere')),\n"
                             "          kind(lambda: api.hf_hub_download('org/gated', 'a')),\n"
                             "          kind(lambda: api.model_info('org/gated', revision='v9')),\n"
                             "          kind(lambda: hub.hf_hub_download('org/gated', 'b'))]")
        self.assertEqual(kinds, ["RepositoryNotFoundError", "GatedRepoError", "RevisionNotFoundError",
                                 "RemoteEntryNotFoundError"])

    def test_our_cache_is_read_by_the_package_without_a_network(self):
        commit = self.hub.put("org/model", FILES)
        folder = self.ours("download", "org/model").split()[0]
        self.hub.stop = lambda: None
        self.hub.process.stdin.close()
        self.hub.process.wait(10)
        self.hub.process.stdout.close()
        self.assertEqual(self.package("result = hub.snapshot_download('org/model', local_files_only=True)"), folder)
        self.assertEqual(self.package("result = hub.hf_hub_download('org/model', 'code/a/b.py')", HF_HUB_OFFLINE="1"),
                         f"{folder}/code/a/b.py")
        scanned = self.package("info = hub.scan_cache_dir()\n"
                               "repo, = info.repos\n"
                               "revision, = repo.revisions\n"
                               "result = [repo.repo_id, repo.nb_files, repo.size_on_disk, revision.commit_hash,\n"
                               "          sorted(revision.refs), [str(w) for w in info.warnings]]")
        size = sum(len(data) for path, data in FILES.items() if not path.startswith("copy"))
        self.assertEqual(scanned, ["org/model", 6, size, commit, ["main"], []])

    def test_both_write_the_same_cache(self):
        self.hub.put("org/model", FILES)
        self.ours("download", "org/model")
        ours = self.layout("org/model")
        subprocess.run(["rm", "-rf", self.home / "hf"], check=True)
        self.package("result = hub.snapshot_download('org/model')")
        theirs = self.layout("org/model")
        trees = [name for name in ours if name.startswith("trees/")]
        self.assertEqual(len(trees), 1)
        self.assertEqual(json.loads(ours.pop(trees[0])), json.loads(theirs.pop(trees[0])))
        self.assertEqual(ours, theirs)

    def test_what_the_package_fetched_is_reused(self):
        self.hub.put("org/model", FILES)
        folder = self.package("result = hub.snapshot_download('org/model')")
        self.hub.reset()
        self.assertEqual(self.ours("download", "org/model"), f"{folder} there")
        self.assertFalse([entry for entry in self.hub.log() if "/resolve" in entry["path"] or "/objects" in entry["path"]])
        self.assertEqual(self.ours("download", "org/model", HF_HUB_OFFLINE="1"), f"{folder} there")
        self.assertEqual(self.ours("verify", "org/model"), "0 problems, 6 blobs")

    def test_what_we_fetched_is_reused_by_the_package(self):
        self.hub.put("org/model", FILES)
        folder = self.ours("download", "org/model").split()[0]
        self.hub.reset()
        self.assertEqual(self.package("result = hub.snapshot_download('org/model')"), folder)
        self.assertFalse([entry for entry in self.hub.log() if "/resolve" in entry["path"] or "/objects" in entry["path"]])

    def test_what_we_upload_the_package_downloads(self):
        self.hub.set(part=100_000)
        self.ours("upload", "org/ours", self.source, "--create")
        self.check_repository("org/ours")
        self.check_snapshot(self.package("result = hub.snapshot_download('org/ours')"))


if __name__ == "__main__":
    unittest.main()
