"""Packages that come, stay, go and are published, as a person at a shell has it."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
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

    def test_registry(self):
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
        target = f"oci://127.0.0.1:{port}/models/other:1"
        report = json.loads(self.output_of("push", self.package, "--repo", target, "--json"))
        pulled = json.loads(self.output_of("pull", target, "--container", "--json"))
        self.assertEqual((pulled["id"], pulled["revision"]), (target, report["revision"]))
        folder = (self.home / ".cache/sightline/packages/oci" / f"127.0.0.1:{port}" / "models--other" /
                  report["revision"].removeprefix("sha256:"))
        sent = files_below(self.package)
        came = files_below(folder)
        self.assertIn("image/index.json", came)
        for name, content in came.items():
            self.assertEqual(content, sent[name], name)
        self.output_of("verify")
        self.output_of("rm", target)
        self.assertFalse(folder.exists())

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
