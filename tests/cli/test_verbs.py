"""Every verb but gaze, and what all verbs have in common."""
import json
import os
import pty
import re
import signal
import subprocess
import threading
import urllib.request

from sightline_program import BINARY, ProgramTest, TOY, boxes_of

VERBS = ("gaze", "serve", "synth", "extract-llm", "tokenize", "bench", "verify", "completion", "help")


class Help(ProgramTest):
    def test_version(self):
        self.assertRegex(self.output_of("--version"), r"\Asightline \d+\.\d+\.\d+\n\Z")

    def test_every_help_starts_with_an_example_that_parses(self):
        for verb in VERBS:
            text = self.output_of(verb, "--help")
            self.assertTrue(text.startswith("Example:\n  "), verb)
            self.assertEqual(text, self.output_of("help", verb))
        self.assertIn("sightline gaze photo.jpg --detect-heads --overlay out.png", self.output_of("--help"))

    def test_main_help_names_every_verb(self):
        text = self.output_of("--help")
        self.assertEqual(text, self.output_of("help"))
        for verb in VERBS:
            self.assertRegex(text, rf"\n  {verb} ")

    def test_exit_codes(self):
        text = self.output_of("help", "exit-codes")
        for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 130, 143):
            self.assertRegex(text, rf"\n +{code}  ")

    def test_usage(self):
        self.assert_fails(2, "no verb is given")
        self.assert_fails(2, "'look' is no verb", "look")
        self.assert_fails(2, "'--colour' is not understood", "gaze", "a.jpg", "--detect-heads", "--colour")


class Synth(ProgramTest):
    def test_writes_weights_that_work_and_are_marked(self):
        done = self.run_program("synth", "gaze-lle", "--size", "tiny", "--seed", "3", "--out", "new/weights")
        self.assertEqual(done.returncode, 0, done.stderr)
        files = done.stdout.decode().split()
        self.assertEqual([os.path.basename(name) for name in files],
                         ["dinov2_tiny_seed3.pth", "gazelle_tiny_inout_seed3.pt"])
        self.assertIn(b"synthetic", done.stderr)
        document = self.document_of("gaze", TOY / "sample_00.png", *boxes_of("sample_00.png"), "--weights",
                                    "new/weights")
        self.assertIs(document["synthetic_weights"], True)
        self.assertNotIn("toy_weights", document)

    def test_the_same_seed_gives_the_same_files(self):
        contents = []
        for folder in ("one", "two"):
            document = self.document_of("synth", "gaze-lle", "--size", "tiny", "--no-inout", "--out", folder)
            self.assertIs(document["synthetic_weights"], True)
            contents.append([(self.scratch / document[part]).read_bytes() for part in ("backbone", "decoder")])
        self.assertEqual(*contents)

    def test_without_the_in_frame_head_there_is_no_such_answer(self):
        self.output_of("synth", "gaze-lle", "--size", "tiny", "--no-inout", "--out", "plain")
        document = self.document_of("gaze", TOY / "sample_00.png", "--box", "40,40,120,120", "--weights", "plain")
        self.assertIsNone(document["predictions"][0]["inout"])
        text = self.output_of("gaze", TOY / "sample_00.png", "--box", "40,40,120,120", "--weights", "plain")
        self.assertRegex(text, r"  -\n\Z")

    def test_refusals(self):
        self.assert_fails(3, "model 'vit' is not known: there are gaze-lle and locate-anything", "synth", "vit", "--out", "x")
        self.assert_fails(2, "--out is missing", "synth", "gaze-lle")
        self.assert_fails(2, "--seed is '-1'", "synth", "gaze-lle", "--seed", "-1", "--out", "x")
        self.assert_fails(3, "", "synth", "gaze-lle", "--rules", "no.json", "--out", "x")


class Bench(ProgramTest):
    def test_json_has_what_tables_are_made_of(self):
        document = self.document_of("bench", "gaze-lle", "--toy", "--iterations", "2", "--precision", "f32", "--threads",
                                    "1")
        for key in ("peak_gflops", "load_ms", "rss_mib", "peak_rss_mib", "ten_to_one"):
            self.assertGreater(document[key], 0, key)
        self.assertRegex(document["output_sha256"], r"\A[0-9a-f]{64}\Z")
        self.assertEqual((document["precision"], document["threads"], document["synthetic"], document["toy"]),
                         ("f32", 1, False, True))
        for stage in (*document["stages"], document["backbone"], document["model_one_head"],
                      document["model_ten_heads"]):
            self.assertGreater(stage["best_ms"], 0)
            self.assertLessEqual(stage["best_ms"], stage["fastest_ms"] + 1e-6)
            self.assertLessEqual(stage["fastest_ms"], stage["median_ms"])
        self.assertTrue(document["isa"])

    def test_the_same_input_gives_the_same_output(self):
        hashes = {self.document_of("bench", "gaze-lle", "--toy", "--iterations", "1", "--precision", "f32", "--threads",
                                   str(threads))["output_sha256"] for threads in (1, 2)}
        self.assertEqual(len(hashes), 1)

    def test_table(self):
        text = self.output_of("bench", "gaze-lle", "--toy", "--iterations", "1")
        self.assertIn("[toy weights]", text.splitlines()[0])
        self.assertRegex(text, r"\nmodel, ten heads .* %\n")
        self.assertRegex(text, r"\noutput: sha256 [0-9a-f]{64}\n")


class Verify(ProgramTest):
    def test_finds_damage(self):
        self.assertEqual(self.output_of("verify"), "no packed files\n")
        self.output_of("gaze", TOY / "sample_00.png", "--box", "40,40,120,120", "--toy", "--precision", "f32")
        lines = self.output_of("verify").splitlines()
        self.assertTrue(lines)
        self.assertTrue(all(line.endswith(": ok") for line in lines))
        packed = lines[0].rsplit(": ", 1)[0]
        with open(packed, "r+b") as file:
            file.seek(-100, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        done = self.run_program("verify", self.scratch / "cache")
        self.assertEqual(done.returncode, 6)
        self.assertIn(f"{packed}: damaged\n".encode(), done.stdout)
        self.assertIn(b"sightline: ", done.stderr)

    def test_a_folder_that_is_not_there(self):
        self.assert_fails(3, "no-such is no folder", "verify", "no-such")


class Serve(ProgramTest):
    def test_refusals(self):
        self.assert_fails(3, "model 'vit' is not known: there are gaze-lle and locate-anything", "serve", "vit")
        self.assert_fails(2, "no model is given", "serve")
        self.assert_fails(2, "--port is '70000'", "serve", "gaze-lle", "--port", "70000")
        self.assert_fails(2, "--deadline-s is 'nan'", "serve", "gaze-lle", "--deadline-s", "nan")

    def test_serves_until_told_to_stop(self):
        process = subprocess.Popen([BINARY, "serve", "gaze-lle", "--toy", "--port", "0"], env=self.environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        timer = threading.Timer(60, process.kill)
        timer.start()
        port = None
        for line in process.stderr:
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            port = port or (found and int(found.group(1)))
            if "Application startup complete" in line:
                break
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as response:
            self.assertEqual(json.load(response)["status"], "ok")
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(20), 0)
        timer.cancel()


class Terminal(ProgramTest):
    def shown_by(self, *arguments):
        """What a terminal gets from the program."""
        controller, terminal = pty.openpty()
        process = subprocess.Popen([BINARY, *arguments], env={**self.environment, "TERM": "xterm"}, cwd=self.scratch,
                                   stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(controller, 4096):
                shown += chunk
        except OSError:  # Linux: the other end is closed
            pass
        os.close(controller)
        self.assertEqual(process.wait(60), 0)
        return shown

    def test_progress_shows_on_a_terminal_and_vanishes(self):
        shown = self.shown_by("synth", "gaze-lle", "--size", "tiny", "--out", "w", "--json")
        self.assertIn(b"making synthetic weights", shown)
        self.assertTrue(shown.endswith(b"\r\033[K"))

    def test_packing_shows_the_first_time(self):
        arguments = ("gaze", TOY / "sample_00.png", "--box", "40,40,120,120", "--toy", "--precision", "f32")
        shown = self.shown_by(*arguments)
        self.assertIn(b"packing weights for this processor, which is done once: 100 %", shown)
        self.assertTrue(shown.endswith(b"\r\033[K"))
        self.assertNotIn(b"packing", self.shown_by(*arguments))
