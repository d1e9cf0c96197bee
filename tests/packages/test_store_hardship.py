"""The store under killed processes, full disks, disks that cannot be written, and several users of it at once."""
import hashlib
import json
import os
import random
import signal
import subprocess
import time
import unittest

from store_home import BINARY, TT_MODEL, WITH_WEIGHTS, StoreTest, noise, package_files

# SIGHTLINE_LONG=1 kills as often as the promise says.
KILLS = 200 if os.environ.get("SIGHTLINE_LONG") else 12


class HardshipTest(StoreTest):
    def verify_is_clean(self):
        text = self.output_of("verify")
        self.assertNotIn("damaged", text)

    def test_two_at_once(self):
        self.hub.put("org/third", package_files("third", {"repo_id": "org/W"}, noise(90_000, 5)))
        pulls = [self.start("pull", name, *WITH_WEIGHTS) for name in ("org/my-dit", "org/my-dit", "org/third")]
        for pull in pulls:
            text = pull.communicate(timeout=100)[0]
            self.assertEqual(pull.returncode, 0, text)
        self.assertEqual(set(self.index), {"org/my-dit", "org/third"})
        self.verify_is_clean()

    def test_killed_at_any_moment(self):
        chance = random.Random(20)
        for round_number in range(KILLS):
            pull = self.start("pull", "org/my-dit", *WITH_WEIGHTS, "--force")
            time.sleep(chance.uniform(0.01, 0.35))
            pull.kill()
            pull.communicate()
            if round_number % 10 == 9:
                self.output_of("verify")
                self.run_program("rm", "org/my-dit", "--include-weights")
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        self.verify_is_clean()
        self.output_of("gc")
        self.verify_is_clean()
        leftovers = [path for path in (self.home / ".cache/tt-model").rglob(".sightline-*")]
        self.assertEqual(leftovers, [])
        self.assertEqual(list(self.index), ["org/my-dit"])

    def in_namespace(self, script):
        """Runs a shell script with mounts of its own; skips where that is not allowed."""
        if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no mount namespaces here")
        return subprocess.run(["unshare", "-rm", "sh", "-ec", script], env=self.environment, capture_output=True,
                              text=True, check=False, timeout=100, cwd=self.scratch)

    def test_full_disk(self):
        self.hub.put("org/W", {"big.bin": noise(3_000_000, 7)})
        self.hub.put("org/big", package_files("big", {"repo_id": "org/W"}, noise(100_000, 8)))
        done = self.in_namespace(f"""
            mount -t tmpfs -o size=1500k none {self.home}
            "{BINARY}" pull org/big --with-weights --accept-license && exit 9
            echo "code $?"
            "{BINARY}" ls --json
            "{BINARY}" verify""")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("code ", done.stdout)
        self.assertRegex(done.stderr.lower(), "space|full")
        self.assertNotIn("damaged", done.stdout)

    def test_full_disk_while_the_package_comes(self):
        self.hub.put("org/big", package_files("big", {"repo_id": "org/W"}, noise(3_000_000, 9)))
        done = self.in_namespace(f"""
            mount -t tmpfs -o size=1500k none {self.home}
            "{BINARY}" pull org/big && exit 9
            "{BINARY}" ls""")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "No packages are here.\n")
        self.assertIn("✗ the disk is full\n", done.stderr)
        self.assertIn("set SIGHTLINE_CACHE to a larger disk", done.stderr)

    def test_store_that_cannot_be_written(self):
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        done = self.in_namespace(f"""
            mount --bind {self.home} {self.home}
            mount -o remount,bind,ro {self.home}
            "{BINARY}" ls --json
            "{BINARY}" show org/my-dit > /dev/null
            "{BINARY}" verify >&2
            "{BINARY}" pull org/my-dit && exit 9
            "{BINARY}" rm org/my-dit && exit 9
            exit 0""")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout)[0]["id"], "org/my-dit")
        self.assertIn("cannot write", done.stderr)
        self.assertIn("cannot remove", done.stderr)
        self.assertNotIn("the Hub request failed", done.stderr)

    def test_interrupted(self):
        blobs = self.home / ".cache/huggingface/hub/models--org--W/blobs"
        digest = hashlib.sha256(noise(200_000)).hexdigest()  # of the weights
        self.hub.fault(match=f"GET /objects/{digest}", kind="slow", rate=5_000, times=1000)
        part = blobs / f"{digest}.incomplete"
        for stop in (signal.SIGINT, signal.SIGTERM):
            for program, code, options in ((BINARY, 128 + stop, WITH_WEIGHTS), (TT_MODEL, 130, ("--with-weights",))):
                with self.subTest(program=program.name, stop=stop):
                    pull = self.start("pull", "org/my-dit", *options, program=program)
                    end = time.monotonic() + 60
                    while not part.exists() and time.monotonic() < end:
                        time.sleep(0.02)
                    pull.send_signal(stop)
                    text = pull.communicate(timeout=60)[0]
                    self.assertEqual(pull.returncode, code, text)
                    self.assertIn("✗ interrupted\n", text)
                    part.unlink()

    def test_cut_connection_is_resumed(self):
        self.hub.put("org/W", {"model.bin": noise(400_000, 11)})
        for tenth in range(1, 10):
            self.hub.ask("POST", "/admin/fault", {"match": "GET .*", "kind": "cut", "after": 40_000 * tenth, "times": 1})
        self.output_of("pull", "org/my-dit", *WITH_WEIGHTS)
        self.verify_is_clean()


if __name__ == "__main__":
    unittest.main()
