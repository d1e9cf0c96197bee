"""Packages that come, stay, go and are published, as a person at a shell has it."""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import unittest
import urllib.request

from store_home import BINARY, ROOT, TT_MODEL, WITH_WEIGHTS, StoreTest, files_below, noise, package_files, write_files


class PullTest(StoreTest):
    def test_pull_list_show_remove(self):
        self.assertIn("pulled org/my-dit@", self.output_of("pull", "org/my-dit", *WITH_WEIGHTS))
        entry = self.index["org/my-dit"]
        self.assertEqual((entry["repo_id"], entry["container"], entry["arch"], entry["revision"]),
                         ("org/my-dit", True, "blackhole", self.commit))
        (row,) = json.loads(self.output_of("ls", "--json"))
        self.assertEqual((row["id"], row["kind"], row["ready"]), ("org/my-dit", "container", False))
        self.assertTrue(row["weights"][0]["complete"])
        shown = json.loads(self.output_of("show", "org/my-dit", "--json"))
        self.assertTrue(shown["installed"])
        self.assertEqual(shown["manifest"]["name"], "my-dit")
        self.assertEqual([one["field"] for one in shown["verdict"]], ["arch", "device_count"])
        self.assertIn("removed org/my-dit", self.output_of("rm", "org/my-dit"))
        self.assertEqual(self.index, {})
        self.assertEqual(self.output_of("ls"), "No packages are here.\n")
        self.assertTrue((self.home / ".cache/huggingface/hub/models--org--W").exists())

    def test_info_of_a_package_that_is_not_here_keeps_nothing(self):
        text = self.output_of("info", "org/my-dit", program=TT_MODEL)
        manifest, verdict = text.rsplit("\n\n", 1)
        self.assertEqual(json.loads(manifest)["name"], "my-dit")
        self.assertIn("[FATAL] arch: bundle='blackhole' local=", verdict)
        self.assertEqual(self.output_of("list", program=TT_MODEL), "No bundles installed.\n")

    def test_weights_are_where_others_look_for_them(self):
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        repo = self.home / ".cache/huggingface/hub/models--org--W"
        self.assertEqual((repo / "refs/main").read_text(), self.weights)
        model = repo / "snapshots" / self.weights / "model.bin"
        self.assertTrue(model.is_symlink())
        self.assertEqual(model.read_bytes(), noise(200_000))

    def test_scripts_accept_the_license(self):
        refused = self.assert_fails(7, "the licence was not accepted", "pull", "org/my-dit", "--with-weights")
        self.assertIn("the weights org/W come under mit", refused.stderr)
        self.assertIn("--accept-license", refused.stderr)
        self.assertFalse((self.home / ".cache/huggingface/hub/models--org--W/blobs").exists())
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        self.assertEqual(json.loads((self.home / ".cache/tt-model/licenses.json").read_text())["org/W"]["license"], "mit")
        shutil.rmtree(self.home / ".cache/huggingface/hub")
        self.output_of("pull", "org/my-dit", "--with-weights")

    def test_tt_model_shows_the_license_and_goes_on(self):
        first = self.run_program("pull", "org/my-dit", "--with-weights", program=TT_MODEL)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("org/W come under mit", first.stderr)
        again = self.run_program("pull", "org/my-dit", "--with-weights", program=TT_MODEL)
        self.assertNotIn("come under", again.stderr)

    def test_offline(self):
        offline = {"HF_HUB_OFFLINE": "1"}
        self.assertNotEqual(self.run_program("pull", "org/my-dit", environment=offline).returncode, 0)
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        self.hub.reset()
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS, environment=offline)
        self.assertEqual(json.loads(self.output_of("ls", "--json", environment=offline))[0]["revision"], self.commit)
        self.assertEqual(self.hub.log(), [])

    def test_failures_say_what_to_do(self):
        for arguments, program, code, sentence in (
                (("pull", "org/nothing"), TT_MODEL, 1, "no such"),
                (("pull", "org/W"), TT_MODEL, 1, "not a tt-model bundle"),
                (("pull", "name"), TT_MODEL, 1, "is not a repo id"),
                (("pull",), TT_MODEL, 2, "nothing is given"),
                (("pull", "org/my-dit", "--native"), BINARY, 1, "cannot run natively"),
                (("rm", "org/my-dit"), TT_MODEL, 1, "is not recorded"),
                (("pull", "serve", "x/y"), TT_MODEL, 2, "tt-model serve x/y"),
                (("info", "/dev/null"), TT_MODEL, 1, "")):
            with self.subTest(arguments):
                done = self.run_program(*arguments, program=program)
                if program == TT_MODEL:
                    self.assertEqual(done.returncode, code, done.stderr)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(sentence, done.stderr)

    def test_gated_weights(self):
        self.hub.put("org/gated", {"a": b"x"}, gated="manual")
        files = package_files("gated", {"repo_id": "org/gated"})
        self.hub.put("org/gated-dit", files)
        self.assert_fails(1, "you do not have access", "pull", "org/gated-dit", "--with-weights",
                          program=TT_MODEL, environment={"HF_TOKEN": "hf_read"})

    def test_progress_events_for_programs(self):
        lines = self.output_of("pull", "org/my-dit", "--with-weights", program=TT_MODEL,
                               environment={"TT_MODEL_PROGRESS": "ndjson"}).splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        keys = {event["key"] for event in events if event["event"] == "step" and event["state"] == "done"}
        self.assertLessEqual({"image", "weights"}, keys)
        self.assert_progress_is_of_steps(events)

    def assert_progress_is_of_steps(self, events):
        begun = set()
        for event in events:
            if event["event"] == "step":
                (begun.add if event["state"] == "start" else begun.discard)(event["key"])
            elif event["event"] == "progress":
                self.assertIn(event["key"], begun, events)

    def test_progress_of_an_image_that_is_there(self):
        self.output_of("pull", "org/my-dit", "--container")
        lines = self.output_of("pull", "org/my-dit", "--container", program=TT_MODEL,
                               environment={"TT_MODEL_PROGRESS": "ndjson"}).splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        self.assertIn("image", {event["key"] for event in events if event["event"] == "progress"})
        self.assert_progress_is_of_steps(events)

    def test_progress_of_other_work(self):
        for arguments in (("serve", "org/my-dit", "--container"), ("pull", "org/my-dit"), ("verify", "org/my-dit"),
                          ("export", "org/my-dit", "x.tar"), ("import", "x.tar")):
            with self.subTest(arguments):
                lines = self.run_program(*arguments, environment={"TT_MODEL_PROGRESS": "ndjson"}).stdout.splitlines()
                self.assert_progress_is_of_steps([json.loads(line) for line in lines if line.startswith("{")])

    def test_without_an_engine_nothing_runs(self):
        self.output_of("pull", "org/my-dit")
        for program in (BINARY, TT_MODEL):
            self.assertEqual(self.output_of("stop", "org/my-dit", program=program), "nothing running\n")
        self.assert_fails(3, "nothing of org/my-dit is running", "logs", "org/my-dit")
        self.assert_fails(3, "no program nothing-that-is-installed", "serve", "org/my-dit", "--container")

    def test_printed_command_is_alone_on_standard_output(self):
        events = {"TT_MODEL_PROGRESS": "ndjson"}
        printed = self.output_of("serve", "org/my-dit", "--print", program=TT_MODEL, environment=events)
        self.assertEqual(printed.count("\n"), 1, printed)
        self.assertIn(" run --name tt-model-my-dit-default ", printed)

    def test_search(self):
        self.hub.put("org/my-dit", {}, tags=["tt-model-cache", "blackhole"])
        found = json.loads(self.output_of("search", "dit", "--json", program=TT_MODEL))
        self.assertEqual([one["id"] for one in found], ["org/my-dit"])
        self.assertEqual(self.output_of("search", "--arch", "wormhole_b0", program=TT_MODEL),
                         "No matching bundles found.\n")

    def test_login(self):
        without = {"HF_TOKEN": ""}
        self.assertEqual(self.output_of("login", "--token", "hf_read", environment=without), "Logged in as reader\n")
        token = self.home / ".cache/huggingface/token"
        self.assertEqual(token.read_text(), "hf_read")
        self.assertEqual(token.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.output_of("login", environment=without), "Logged in as reader\n")
        refused = self.run_program("login", "--token", "hf_wrong", environment=without)
        self.assertNotEqual(refused.returncode, 0)
        self.assertEqual(token.read_text(), "hf_read")
        self.assertNotIn("hf_wrong", refused.stdout + refused.stderr)

    def test_token_of_a_pipe(self):
        done = subprocess.run([BINARY, "login"], env={**self.environment, "HF_TOKEN": ""}, input="hf_read\n",
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.stdout, "Logged in as reader\n", done.stderr)

    def test_repair_of_a_folder_is_refused(self):
        self.assert_fails(2, "--repair is given and . is a folder", "verify", ".", "--repair")

    def test_verify_as_json(self):
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        self.assertEqual(json.loads(self.output_of("verify", "--json")), {"ok": True, "files": []})

    def test_validate(self):
        good = os.path.join(os.path.dirname(__file__), "..", "..", "packages", "gaze-lle", "tt-model.yaml")
        self.assertEqual(self.output_of("validate", good), "VALID\n")
        bad = self.scratch / "tt-model.yaml"
        with open(good, encoding="utf-8") as file:
            bad.write_text(file.read().replace("arch: blackhole", "arch: grayskull").replace("mesh_device: P150",
                                                                                             "mesh_device: P150x9"))
        done = self.run_program("validate", bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("arch must be one of", done.stdout)
        self.assertIn("invalid mesh_device", done.stdout)

    def test_validate_lists_all_problems_of_native_and_wire_manifests(self):
        native = self.scratch / "sightline.yaml"
        text = (ROOT / "packages/gaze-lle/sightline.yaml").read_text()
        native.write_text(text.replace("model: gaze-lle", "model: yolo").replace("max_heads: 10", "heads: 10"))
        wire = self.scratch / "tt_kernel_manifest.json"
        manifest = json.loads(self.files[wire.name])
        manifest["name"] = "../x"
        manifest["container"]["serve_profiles"][0]["speed"] = 1
        wire.write_text(json.dumps(manifest))
        for file, paths in ((native, ["model", "serve.heads"]), (wire, ["name", "container.serve_profiles[0].speed"])):
            done = self.run_program("validate", file, "--json")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(sorted(problem["path"] for problem in json.loads(done.stdout)["problems"]), sorted(paths))


def members(file):
    """Of an export: {name: bytes}."""
    with tarfile.open(file) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def rewrite(file, change):
    """Changes the files of an export, and its list so that it agrees."""
    files = members(file)
    about = json.loads(files.pop("sightline-export.json"))
    change(files)
    about["files"] = [{"name": name, "digest": "sha256:" + hashlib.sha256(content).hexdigest(), "size": len(content)}
                      for name, content in files.items()]
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in {"sightline-export.json": json.dumps(about).encode(), **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


class PublishTest(StoreTest):
    def setUp(self):
        super().setUp()
        self.package = self.scratch / "package"
        write_files(self.package, package_files("other", {"repo_id": "org/W"}, noise(100_000, 3)))

    def test_what_is_pushed_comes_back_bit_equal(self):
        report = json.loads(self.output_of("push", self.package, "--json"))
        self.assertEqual((report["target"], report["created"]), ("org/other", True))
        self.output_of("pull", "org/other", "--container")
        snapshot = self.home / ".cache/sightline/packages/models--org--other/snapshots" / report["revision"]
        sent = files_below(self.package)
        for name, content in files_below(snapshot).items():
            self.assertEqual(content, sent[name], name)
        state = self.hub.state("org/other")
        self.assertEqual(set(state["files"]), set(sent))
        self.assertTrue(state["private"])

    def test_what_is_published_is_found(self):
        def found(*options):
            return [row["id"] for row in json.loads(self.output_of("search", "oth", "--json", *options))]

        self.output_of("push", self.package)  # private
        self.assertEqual(found(), [])
        self.output_of("publish", "org/other")
        self.assertEqual((found(), found("--catalog")), (["org/other"], ["org/other"]))
        self.output_of("push", self.package)  # what is listed stays so
        self.assertEqual(found("--catalog"), ["org/other"])
        self.output_of("unpublish", "org/other")
        self.assertEqual((found(), found("--catalog")), (["org/other"], []))

    def test_publish_is_gated_by_the_card(self):
        manifest = self.package / "tt_kernel_manifest.json"
        manifest.write_text(manifest.read_text().replace('"fast"', '" "'))
        self.assert_fails(1, "performance", "push", self.package, "--publish", program=TT_MODEL)
        self.assert_fails(2, "contradict", "push", self.package, "--publish", "--private", program=TT_MODEL)

    def run_registry(self):
        """Starts one; returns its host with the port."""
        registry = shutil.which("docker-registry")
        if registry is None:
            self.skipTest("no docker-registry")
        with contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = self.scratch / "registry.yml"
        config.write_text(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: "
                          f"{self.scratch}/registry}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n")
        process = subprocess.Popen([registry, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/"):
                break
            time.sleep(0.05)
        return f"127.0.0.1:{port}"

    def test_registry(self):
        host = self.run_registry()
        target = f"oci://{host}/models/other:1"
        report = json.loads(self.output_of("push", self.package, "--repo", target, "--json"))
        pulled = json.loads(self.output_of("pull", target, "--container", "--json"))
        self.assertEqual((pulled["id"], pulled["revision"]), (target, report["revision"]))
        folder = (self.home / ".cache/sightline/packages/oci" / host / "models--other" /
                  report["revision"].removeprefix("sha256:"))
        sent = files_below(self.package)
        came = files_below(folder)
        manifest = came.pop("oci-manifest.json")
        self.assertEqual("sha256:" + hashlib.sha256(manifest).hexdigest(), report["revision"])
        self.assertIn("image/index.json", came)
        for name, content in came.items():
            self.assertEqual(content, sent[name], name)
        self.output_of("verify")
        self.output_of("rm", target)
        self.assertFalse(folder.exists())

    def import_elsewhere(self, file):
        """The import of a file on a machine without a network: the finished process, and what is listed then."""
        home = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        there = {"HOME": str(home), "HF_ENDPOINT": "http://127.0.0.1:9"}
        done = self.run_program("import", file, environment=there)
        return done, json.loads(self.output_of("ls", "--json", environment=there)), home

    def test_package_of_a_registry_travels_as_a_file(self):
        target = f"oci://{self.run_registry()}/models/other:1"
        self.output_of("push", self.package, "--repo", target)
        self.output_of("pull", target, "--container")
        file = self.scratch / "carried.tar"
        self.output_of("export", target, file)
        done, (row,), home = self.import_elsewhere(file)
        self.assertEqual((done.returncode, row["id"]), (0, target), done.stderr)
        self.output_of("export", target, self.scratch / "again.tar", environment={"HOME": str(home)})
        self.assertEqual((self.scratch / "again.tar").read_bytes(), file.read_bytes())

        def grown(files, name):
            files[name] += b" "
        layer = max((name for name in members(file) if "/blobs/" in name), key=lambda name: len(members(file)[name]))
        for case, forge, sentence in (
                ("layer", lambda files: grown(files, layer), "expected"),
                ("manifest", lambda files: grown(files, "package/files/tt_kernel_manifest.json"), "expected"),
                ("list", lambda files: grown(files, "package/oci-manifest.json"), "manifest of the package"),
                ("stranger", lambda files: files.update({"package/files/image/x": b""}), "is no file of the package"),
                ("nothing", lambda files: files.pop("package/oci-manifest.json"), "export it again")):
            with self.subTest(case):
                forged = self.scratch / f"{case}.tar"
                forged.write_bytes(file.read_bytes())
                rewrite(forged, forge)
                done, rows, home = self.import_elsewhere(forged)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(rows, [])
                self.assertEqual([path for path in home.rglob("*.json") if path.is_file()], [])

    def test_package_travels_as_a_file(self):
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        file = self.scratch / "carried.tar"
        self.output_of("export", "org/my-dit", file, "--with-weights")
        there = {"HOME": str(self.scratch / "there"), "HF_ENDPOINT": "http://127.0.0.1:9"}
        os.mkdir(there["HOME"])
        self.output_of("import", file, environment=there)
        (row,) = json.loads(self.output_of("ls", "--json", environment=there))
        self.assertTrue(row["weights"][0]["complete"])
        self.assertIn("ok", self.output_of("verify", environment=there))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        other = {"HOME": str(self.scratch / "other")}
        os.mkdir(other["HOME"])
        self.assertNotEqual(self.run_program("import", file, environment=other).returncode, 0)
        self.assertEqual(self.output_of("ls", environment=other), "No packages are here.\n")


if __name__ == "__main__":
    unittest.main()
