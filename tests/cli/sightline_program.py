"""The built program, as a person at a shell has it. SIGHTLINE_BINARY names it."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = pathlib.Path(os.environ.get("SIGHTLINE_BINARY", ROOT / "build" / "bin" / "sightline")).resolve()
TOY = ROOT / "assets" / "toy"
PICTURES = ROOT / "tests" / "data" / "images"
SECONDS = 120


class ProgramTest(unittest.TestCase):
    """Each test class has a scratch folder and a cache of its own."""

    @classmethod
    def setUpClass(cls):
        cls._scratch = tempfile.TemporaryDirectory(prefix="sightline-cli-")
        cls.addClassCleanup(cls._scratch.cleanup)
        cls.scratch = pathlib.Path(cls._scratch.name)
        cls.environment = {**os.environ, "SIGHTLINE_CACHE": str(cls.scratch / "cache"), "HOME": str(cls.scratch),
                           "LC_ALL": "C"}
        for name in ("HF_HUB_CACHE", "HF_HOME"):
            cls.environment.pop(name, None)

    def run_program(self, *arguments, **options):
        """The finished process; stdout and stderr are bytes."""
        environment = {**self.environment, **options.pop("environment", {})}
        return subprocess.run([BINARY, *map(os.fspath, arguments)], env=environment, capture_output=True, check=False,
                              timeout=SECONDS, cwd=self.scratch, **options)

    def output_of(self, *arguments, **options):
        """What a call that must work printed on standard output, as text."""
        done = self.run_program(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def assert_fails(self, exit_code, sentence, *arguments, **options):
        """A call that must fail: with this exit code and one sentence on standard error that holds `sentence`."""
        done = self.run_program(*arguments, **options)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, exit_code, text)
        self.assertRegex(text, r"\Asightline: [^\n]+\n\Z")
        self.assertIn(sentence, text)
        return done

    def document_of(self, *arguments, **options):
        """The JSON document of a call that must work; it is one line."""
        text = self.output_of(*arguments, "--json", **options)
        self.assertEqual(text.count("\n"), 1)
        return json.loads(text)


def without_times(document):
    """What must be equal when the same is asked twice."""
    return {key: value for key, value in document.items() if key not in ("timing_ms", "request_id")}


def png_size(data):
    """Width and height from a PNG's header."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def boxes_of(picture):
    """--box options of a toy picture's people."""
    pictures = json.loads((TOY / "truth.json").read_text(encoding="utf-8"))["pictures"]
    people = next(entry for entry in pictures if entry["file"] == picture)["people"]
    return [word for person in people for word in ("--box", ",".join(map(str, person["box"])))]
