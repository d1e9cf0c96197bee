"""Completion scripts, used as shells use them."""
import os
import shutil
import subprocess
import unittest

from sightline_program import BINARY, ProgramTest

# Sets what bash sets when Tab is pressed behind the given words, and prints the proposals.
DRIVER = """
source <("$1" completion bash)
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_sightline
printf '%s\\n' "${COMPREPLY[@]}"
"""


class Bash(ProgramTest):
    def complete(self, *words):
        """Proposals for the last of `words`."""
        done = subprocess.run(["bash", "-c", DRIVER, "bash", BINARY, "sightline", *words], env=self.environment,
                              cwd=self.scratch, capture_output=True, text=True, check=True, timeout=30)
        self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []

    def test_verbs(self):
        self.assertEqual(self.complete("ga"), ["gaze"])
        self.assertIn("serve", self.complete(""))
        self.assertEqual(self.complete("--vers"), ["--version"])

    def test_options(self):
        self.assertEqual(self.complete("gaze", "a.jpg", "--detect"), ["--detect-heads"])
        self.assertEqual(self.complete("synth", "gaze-lle", "--no"), ["--no-inout"])
        self.assertEqual(self.complete("verify", "--detect"), [])

    def test_choices(self):
        self.assertEqual(self.complete("gaze", "--profile", ""), ["upstream", "port"])
        self.assertEqual(self.complete("gaze", "--profile", "=", "p"), ["port"])
        self.assertEqual(self.complete("gaze", "--profile", "="), ["upstream", "port"])
        self.assertEqual(self.complete("synth", "gaze-lle", "--size", "v"), ["vitb14", "vitl14"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("serve", ""), ["gaze-lle", "locate-anything"])
        self.assertIn("exit-codes", self.complete("help", ""))

    def test_files_and_folders(self):
        os.makedirs(self.scratch / "some" / "folder")
        (self.scratch / "some" / "file name.jpg").write_bytes(b"")
        self.assertEqual(sorted(self.complete("gaze", "some/f")), ["some/file name.jpg", "some/folder"])
        self.assertEqual(self.complete("gaze", "--weights", "some/"), ["some/folder"])
        self.assertEqual(self.complete("gaze", "--threads", "some/"), [])

    def test_strict_shells_can_source_it(self):
        subprocess.run(["bash", "-euo", "pipefail", "-c", 'source <("$1" completion bash)', "bash", BINARY],
                       env=self.environment, check=True, timeout=30)


class OtherShells(ProgramTest):
    def test_syntax(self):
        for shell in ("zsh", "fish"):
            script = self.scratch / f"completion.{shell}"
            script.write_text(self.output_of("completion", shell))
            if shutil.which(shell):
                subprocess.run([shell, "-n", script], check=True, timeout=30)


if __name__ == "__main__":
    unittest.main()
