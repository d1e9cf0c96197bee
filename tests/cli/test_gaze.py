"""sightline gaze, on the toy world, where answers can be judged."""
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time
import zipfile

from sightline_program import BINARY, PICTURES, ProgramTest, TOY, boxes_of, png_size, without_times

SAMPLE = TOY / "sample_00.png"
TOY_OPTIONS = ["--toy", "--precision", "f32"]
A_BOX = ["--box", "40,40,120,120"]


def npy_header(data):
    """The dict in an .npy file's header."""
    assert data[:6] == b"\x93NUMPY"
    return eval(data[10:10 + struct.unpack("<H", data[8:10])[0]].decode())  # a Python literal, by the format's rule


class Answers(ProgramTest):
    def test_arrows_end_in_the_right_things(self):
        picture = json.loads((TOY / "truth.json").read_text(encoding="utf-8"))["pictures"][0]
        document = self.document_of("gaze", TOY / picture["file"], *boxes_of(picture["file"]), *TOY_OPTIONS)
        self.assertIs(document["toy_weights"], True)
        self.assertEqual(document["image_size"], [picture["width"], picture["height"]])
        self.assertEqual(document["num_heads"], len(picture["people"]))
        for truth, person in zip(picture["people"], document["predictions"], strict=True):
            self.assertEqual(person["inout"] >= 0.5, bool(truth["inout"]))
            if truth["inout"]:
                thing = picture["things"][truth["thing"]]
                x = person["gaze_target"]["x"] + picture["width"] / 128
                y = person["gaze_target"]["y"] + picture["height"] / 128
                distance = ((x - thing["centre"][0]) ** 2 + (y - thing["centre"][1]) ** 2) ** 0.5
                self.assertLessEqual(distance, thing["radius"])

    def test_table(self):
        lines = self.output_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS).splitlines()
        self.assertRegex(lines[0], r"sample_00\.png: \d+x\d+, \d+ ms, CPU .* threads?, f32, profile upstream "
                                   r"\[toy weights\]$")
        self.assertTrue(lines[1].startswith("person"))
        self.assertEqual(len(lines), 2 + len(boxes_of(SAMPLE.name)) // 2)

    def test_nothing_on_standard_error_when_all_is_well(self):
        done = self.run_program("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS)
        self.assertEqual(done.stderr, b"")

    def test_standard_input_is_a_picture_too(self):
        by_name = self.document_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS)
        with open(SAMPLE, "rb") as picture:
            by_pipe = self.document_of("gaze", "-", *boxes_of(SAMPLE.name), *TOY_OPTIONS, stdin=picture)
        self.assertEqual(without_times(by_name), without_times(by_pipe))
        # As a shell's <(command), which is a pipe under /dev/fd.
        fifo = self.scratch / "fifo"
        os.mkfifo(fifo)
        writer = threading.Thread(target=lambda: fifo.write_bytes(SAMPLE.read_bytes()))
        writer.start()
        by_fifo = self.document_of("gaze", fifo, *boxes_of(SAMPLE.name), *TOY_OPTIONS)
        writer.join()
        self.assertEqual(without_times(by_name), without_times(by_fifo))

    def test_normalized_boxes_answer_as_pixels_do(self):
        width, height = png_size(SAMPLE.read_bytes())
        pixels = boxes_of(SAMPLE.name)[1]
        parts = [float(part) for part in pixels.split(",")]
        fractions = ",".join(repr(part / side) for part, side in zip(parts, (width, height) * 2))
        one = self.document_of("gaze", SAMPLE, "--box", pixels, *TOY_OPTIONS)
        other = self.document_of("gaze", SAMPLE, "--box", fractions, "--units", "normalized", *TOY_OPTIONS)
        self.assertEqual(one["predictions"][0]["gaze_target"], other["predictions"][0]["gaze_target"])

    def test_a_decimal_comma_locale_changes_nothing(self):
        documents = [self.document_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS,
                                      environment={"LC_ALL": locale, "LANG": locale})
                     for locale in ("C", "de_DE.UTF-8")]
        self.assertEqual(*map(without_times, documents))

    def test_heat_map_formats(self):
        def document(name):
            return self.document_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS, "--heatmap-format", name)
        self.assertIn("heatmap_png", document("png")["predictions"][0])
        self.assertIn("heatmap_npz", document("npz"))
        self.assertEqual(len(document("json")["predictions"][0]["heatmap"]), 64)
        self.assertNotIn("heatmap_png", document("none")["predictions"][0])

    def test_nobody_is_an_answer_with_a_reason(self):
        done = self.run_program("gaze", PICTURES / "coffee.png", "--detect-heads", *TOY_OPTIONS)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"\nnobody: ", done.stdout)
        document = self.document_of("gaze", PICTURES / "coffee.png", "--detect-heads", *TOY_OPTIONS)
        self.assertEqual(document["predictions"], [])
        self.assertIn("head", document["empty_reason"])

    def test_heads_are_found(self):
        document = self.document_of("gaze", PICTURES / "astronaut.png", "--detect-heads", *TOY_OPTIONS)
        self.assertEqual(document["heads_source"], "detector")
        self.assertEqual(document["num_heads"], 1)
        self.assertGreaterEqual(document["predictions"][0]["head_score"], 0.5)

    def test_warnings_go_to_standard_error_and_into_the_document(self):
        done = self.run_program("gaze", SAMPLE, "--box", "-20,40,120,120", *TOY_OPTIONS, "--json")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"sightline: warning: ", done.stderr)
        self.assertEqual(json.loads(done.stdout)["warnings"][0]["code"], "box_clipped")

    def test_reference_mode_takes_nobody_as_a_box(self):
        document = self.document_of("gaze", SAMPLE, "--reference", "--box", "none", *TOY_OPTIONS)
        self.assertIsNone(document["predictions"][0]["bbox"])
        self.output_of("gaze", SAMPLE, "--reference", "--box", "none", *TOY_OPTIONS, "--overlay", "nobody.png")

    def test_profiles_and_precisions(self):
        for profile in ("upstream", "port"):
            for precision in ("f32", "bf16"):
                text = self.output_of("gaze", SAMPLE, *A_BOX, "--toy", "--profile", profile, "--precision", precision,
                                      "--threads", "1")
                self.assertIn(f"1 thread, {precision}, profile {profile}", text)


class Files(ProgramTest):
    def test_overlay_has_at_least_the_size_of_the_picture(self):
        self.output_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS, "--overlay", "out.png",
                       "--blend-heatmap")
        sizes = zip(png_size((self.scratch / "out.png").read_bytes()), png_size(SAMPLE.read_bytes()))
        self.assertTrue(all(drawn >= given for drawn, given in sizes))

    def test_heat_maps_as_npz(self):
        self.output_of("gaze", SAMPLE, *boxes_of(SAMPLE.name), *TOY_OPTIONS, "--heatmap", "out.npz")
        count = len(boxes_of(SAMPLE.name)) // 2
        with zipfile.ZipFile(self.scratch / "out.npz") as archive:
            heatmap = npy_header(archive.read("heatmap.npy"))
            inout = npy_header(archive.read("inout.npy"))
        self.assertEqual((heatmap["shape"], heatmap["descr"]), ((count, 64, 64), "<f4"))
        self.assertEqual((inout["shape"], inout["descr"]), ((count,), "<f4"))

    def test_existing_files_are_overwritten(self):
        (self.scratch / "old.png").write_bytes(b"old")
        self.output_of("gaze", SAMPLE, *A_BOX, *TOY_OPTIONS, "--overlay", "old.png")
        png_size((self.scratch / "old.png").read_bytes())

    def test_the_picture_is_never_overwritten(self):
        picture = self.scratch / "mine.png"
        shutil.copy(SAMPLE, picture)
        self.assert_fails(2, "would overwrite the picture", "gaze", picture, *A_BOX, *TOY_OPTIONS, "--overlay",
                          "mine.png")
        self.assertEqual(picture.read_bytes(), SAMPLE.read_bytes())

    def test_a_missing_folder_is_said_before_any_work(self):
        self.assert_fails(3, "there is no folder", "gaze", SAMPLE, *A_BOX, *TOY_OPTIONS, "--overlay", "no/out.png")

    def test_names_that_are_not_plain(self):
        for name in ("with space.png", "-dash.png", "blick ü.png", "[2021].png", "new\nline.png"):
            shutil.copy(SAMPLE, self.scratch / name)
            document = self.document_of("gaze", f"./{name}", *A_BOX, *TOY_OPTIONS)
            self.assertEqual(document["num_heads"], 1)
        raw = os.fsencode(self.scratch) + b"/\xff\xfe.png"
        shutil.copy(SAMPLE, raw)
        lines = self.output_of("gaze", raw, raw, *A_BOX, *TOY_OPTIONS, "--json", "--heatmap-format", "none")
        self.assertEqual([json.loads(line)["status"] for line in lines.splitlines()], ["ok", "ok"])


class Batches(ProgramTest):
    def setUp(self):
        self.folder = self.scratch / "photos"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        shutil.copy(PICTURES / "astronaut.png", self.folder / "a.png")
        shutil.copy(PICTURES / "awkward" / "truncated_half.jpg", self.folder / "b.jpg")
        shutil.copy(PICTURES / "coffee.png", self.folder / "c.PNG")
        (self.folder / "notes.txt").write_text("no picture")
        self.options = ["--detect-heads", *TOY_OPTIONS, "--heatmap-format", "none"]

    def test_a_folder_gives_one_line_a_picture(self):
        done = self.run_program("gaze", self.folder, *self.options, "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([os.path.basename(line["file"]) for line in lines], ["a.png", "b.jpg", "c.PNG"])
        self.assertEqual([line["status"] for line in lines], ["ok", "error", "empty"])
        self.assertEqual(lines[1]["error"]["code"], "image_truncated")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"notes.txt", done.stderr)

    def test_answers_are_those_of_single_calls(self):
        done = self.run_program("gaze", self.folder, *self.options, "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for index, name in ((0, "a.png"), (2, "c.PNG")):
            alone = self.document_of("gaze", self.folder / name, *self.options)
            in_batch = {key: value for key, value in lines[index].items() if key not in ("file", "status")}
            self.assertEqual(without_times(in_batch), without_times(alone))

    def test_keep_going_exits_with_20(self):
        done = self.run_program("gaze", self.folder, *self.options, "--keep-going")
        self.assertEqual(done.returncode, 20)
        self.assertIn(b"b.jpg: ", done.stderr)
        self.assertIn(b"a.png: ", done.stdout)
        self.assertIn(b"c.PNG: ", done.stdout)

    def test_all_well_exits_with_0(self):
        self.output_of("gaze", self.folder / "a.png", self.folder / "c.PNG", *self.options, "--keep-going")

    def test_outputs_go_into_a_folder(self):
        self.run_program("gaze", self.folder, *self.options, "--overlay", "drawn", "--heatmap", "maps")
        self.assertEqual(sorted(os.listdir(self.scratch / "drawn")), ["a.png", "c.png"])
        self.assertEqual(sorted(os.listdir(self.scratch / "maps")), ["a.npz", "c.npz"])

    def test_overlays_do_not_land_on_the_pictures(self):
        self.assert_fails_with_note(2, "would overwrite the picture", "gaze", self.folder, *self.options, "--overlay",
                                    self.folder)
        self.assertEqual((self.folder / "a.png").read_bytes(), (PICTURES / "astronaut.png").read_bytes())

    def assert_fails_with_note(self, exit_code, sentence, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, exit_code)
        self.assertIn(sentence, done.stderr.decode())

    def test_a_missing_file_does_not_stop_the_rest(self):
        done = self.run_program("gaze", "no.jpg", self.folder / "a.png", *self.options, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertEqual([json.loads(line)["status"] for line in done.stdout.splitlines()], ["error", "ok"])

    def test_standard_input_among_files(self):
        with open(SAMPLE, "rb") as picture:
            done = self.run_program("gaze", "-", self.folder / "a.png", *self.options, "--json", stdin=picture)
        self.assertEqual([json.loads(line)["file"] for line in done.stdout.splitlines()][0], "-")

    def test_one_kind_of_failure_of_everything_is_reported_once(self):
        done = self.assert_fails(3, "--toy", "gaze", SAMPLE, SAMPLE, *A_BOX, "--json")
        self.assertEqual(done.stdout.count(b"\n"), 1)


class Failures(ProgramTest):
    def test_boxes_that_mean_nothing(self):
        for box, code in (("nan,0,10,10", "invalid_box"), ("0,0,inf,10", "invalid_box"), ("1e999,0,1,1", "invalid_box"),
                          ("50,10,20,40", "invalid_box"), ("5000,5000,6000,6000", "box_outside"),
                          ("0.1,0.1,0.2,0.3", "units_mismatch")):
            done = self.assert_fails(4, "", "gaze", SAMPLE, "--box", box, *TOY_OPTIONS, "--json")
            error = json.loads(done.stdout)["error"]
            self.assertEqual((error["code"], error["param"]), (code, "bboxes[0]"), box)

    def test_pixels_as_fractions(self):
        done = self.assert_fails(4, "", "gaze", SAMPLE, "--box", "120,40,300,260", "--units", "normalized",
                                 *TOY_OPTIONS, "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "units_mismatch")

    def test_no_heads_says_both_ways(self):
        done = self.assert_fails(2, "--detect-heads", "gaze", SAMPLE, "--toy")
        self.assertIn(b"--box", done.stderr)

    def test_files(self):
        self.assert_fails(3, "no.jpg", "gaze", "no.jpg", *A_BOX, *TOY_OPTIONS)
        (self.scratch / "empty.jpg").write_bytes(b"")
        self.assert_fails(4, "", "gaze", "empty.jpg", *A_BOX, *TOY_OPTIONS)
        self.assert_fails(4, "", "gaze", TOY / "truth.json", *A_BOX, *TOY_OPTIONS)
        (self.scratch / "none").mkdir()
        self.assert_fails(3, "none: ", "gaze", "none", *A_BOX, *TOY_OPTIONS)

    def test_weights(self):
        done = self.assert_fails(3, "--weights", "gaze", SAMPLE, *A_BOX)
        self.assertIn(b"--toy", done.stderr)
        self.assert_fails(2, "", "gaze", SAMPLE, *A_BOX, "--toy", "--synthetic")
        self.assert_fails(3, "no-such", "gaze", SAMPLE, *A_BOX, "--weights", "no-such")
        folder = self.scratch / "damaged"
        folder.mkdir()
        (folder / "dinov2.pth").write_bytes((TOY / "dinov2_toy_pretrain.pth").read_bytes()[:100_000])
        shutil.copy(TOY / "gazelle_toy_inout.pt", folder)
        self.assert_fails(6, "dinov2.pth", "gaze", SAMPLE, *A_BOX, "--weights", folder)

    def test_usage_errors_are_documents_too(self):
        done = self.assert_fails(2, "--threads is '0'", "gaze", SAMPLE, *A_BOX, "--threads", "0", "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "usage")

    def test_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, "gaze", SAMPLE, *A_BOX, *TOY_OPTIONS], env=self.environment, stdout=full,
                                  stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(done.returncode, 7)
        self.assertIn(b"no space left", done.stderr)


class Signals(ProgramTest):
    def start(self, *arguments):
        process = subprocess.Popen([BINARY, *arguments], env=self.environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        return process

    def test_interrupt_ends_at_once(self):
        process = self.start("gaze", "-", *A_BOX, *TOY_OPTIONS)  # waits for its standard input
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10), -signal.SIGINT)
        self.assertLess(time.monotonic() - start, 2)

    def test_a_reader_that_has_enough_ends_it_quietly(self):
        done = subprocess.run(["bash", "-c", 'trap "" PIPE; "$@" | true', "bash", BINARY, "gaze", *[SAMPLE] * 20,
                               *A_BOX, *TOY_OPTIONS, "--json"], env=self.environment, capture_output=True,
                              check=False, timeout=120)
        self.assertEqual(done.stderr, b"")
