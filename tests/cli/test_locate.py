"""sightline locate, with weights that answer by script (`synth locate-anything --size puppet`)."""
import json
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile

from sightline_program import BINARY, PICTURES, ProgramTest, ROOT, SECONDS, png_size

CAR = ROOT / "assets" / "car.png"  # 616 x 336
CAR_NORM = [282, 414, 607, 797]


def without_times(document):
    """What must be equal when the same is asked twice."""
    return {key: value for key, value in document.items() if key not in ("timing_ms", "cached")}


class LocateTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.puppet = cls.scratch / "puppet"
        subprocess.run([BINARY, "synth", "locate-anything", "--size", "puppet", "--out", cls.puppet], check=True,
                       capture_output=True, env=cls.environment)
        cls.options = ["--weights", cls.puppet]

    def locate(self, *arguments, **options):
        return self.document_of("locate", *arguments, *self.options, **options)


class Bench(LocateTest):
    def test_times_and_shares(self):
        document = self.document_of("bench", "locate-anything", "--iterations", "2", *self.options)
        parts = [document[name] for name in ("vision", "prefill", "window_step", "single_step")]
        for stage in (*document["stages"], *parts, document["five_boxes"], document["second_question"]):
            self.assertGreater(stage["best_ms"], 0)
            self.assertLessEqual(stage["best_ms"], stage["fastest_ms"] + 1e-6)
            self.assertLessEqual(stage["fastest_ms"], stage["median_ms"])
        for stage in parts:
            name = stage["name"].split(",")[0]
            of_kinds = sum(kind["best_ms"] for kind in document["stages"] if kind["name"].startswith(name))
            self.assertLessEqual(of_kinds, stage["best_ms"])
            self.assertGreater(stage["share_of_peak"], 0)
        self.assertGreater(document["five_boxes"]["best_ms"], document["vision"]["best_ms"])


class Answers(LocateTest):
    def test_document_is_the_servers_and_more(self):
        document = self.locate(CAR, "car", "cat")
        self.assertEqual(document["query"], "car</c>cat")
        self.assertEqual(document["raw_text"], "<ref>car</ref><box><282><414><607><797></box><|im_end|>")
        self.assertEqual(document["detections"][0]["box_norm"], CAR_NORM)
        self.assertEqual(document["mode"], "hybrid")
        self.assertEqual(document["finish_reason"], "stop")
        self.assertEqual(len(document["token_ids"]), 10)
        self.assertGreaterEqual(document["forwards"], 1)
        self.assertEqual([category["status"] for category in document["categories"]], ["found", "not_answered"])
        self.assertNotIn("request_id", document)

    def test_one_text_with_separators_is_the_same(self):
        self.assertEqual(without_times(self.locate(CAR, "car</c>cat")), without_times(self.locate(CAR, "car", "cat")))

    def test_table(self):
        lines = self.output_of("locate", CAR, "person", *self.options).splitlines()
        self.assertRegex(lines[0], r"car\.png: 616x336, 24x44 patches, \d+ ms, CPU .* threads?, vision bf16, "
                                   r"language int8 \[synthetic weights\]$")
        self.assertEqual(lines[1].split(), ["kind", "x1,y1,x2,y2", "or", "x,y", "score", "label"])
        self.assertEqual([line.split()[0] for line in lines[2:]], ["box", "box"])
        self.assertEqual(lines[2].split()[1], "62,67,185,134")
        lines = self.output_of("locate", CAR, "dog", "zebra", *self.options).splitlines()
        self.assertEqual(lines[2].split()[:2], ["point", "315,86"])
        self.assertEqual(lines[3], "zebra: not answered")

    # pytorch/serve #435: nothing detected was an exception.
    def test_nothing_found_is_an_answer(self):
        done = self.run_program("locate", CAR, "cat", *self.options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"nothing: the model answers that there is no such object", done.stdout)
        document = self.locate(CAR, "cat")
        self.assertEqual(document["detections"], [])
        self.assertEqual(document["categories"][0]["status"], "none")

    def test_modes_and_precisions_agree_where_the_model_is_sure(self):
        for mode in ("hybrid", "fast", "slow"):
            for more in ([], ["--reference"]):
                document = self.locate(CAR, "car", "--mode", mode, "--precision", "f32", *more)
                self.assertEqual(document["detections"][0]["box_norm"], CAR_NORM)
                self.assertEqual(document["mode"], mode)
        for precision in ("bf16", "int8", "int8w", "int4"):
            document = self.locate(CAR, "car", "--precision", precision)
            self.assertEqual(document["detections"][0]["box_norm"], CAR_NORM)

    def test_sampling_is_repeatable(self):
        words = ["--temperature", "0.7", "--top-p", "0.9", "--top-k", "50", "--repetition-penalty", "1.1", "--seed", "5"]
        first, second = self.locate(CAR, "bus", *words), self.locate(CAR, "bus", *words)
        self.assertEqual(first["token_ids"], second["token_ids"])
        self.assertEqual(first["decode_mode"], "mtp_hybrid")

    def test_tasks_and_own_prompts(self):
        for task in ("ground_one", "ground_all", "point", "find_text", "gui_box", "gui_point"):
            self.assertEqual(self.locate(CAR, "the red car", "--task", task)["detections"][0]["box_norm"], CAR_NORM)
        self.assertEqual(self.locate(CAR, "--task", "read_text")["query"], "")
        self.assertEqual(self.locate(CAR, "--prompt", "Point to: the car.")["task"], "raw")

    # A raw prompt is read as the published program reads it only where that is asked for.
    def test_token_strings_are_text_unless_reference(self):
        literal = self.locate(CAR, "--prompt", "car <box>")["prompt_tokens"]
        token = self.locate(CAR, "--prompt", "car <box>", "--reference")["prompt_tokens"]
        self.assertGreater(literal, token)

    def test_scaling(self):
        self.assertEqual(self.locate(CAR, "car", "--grid", "10x12")["grid_hw"], [10, 12])
        self.assertLess(self.locate(CAR, "car", "--in-token-limit", "100")["num_image_tokens"], 60)

    def test_budget_is_told(self):
        done = self.run_program("locate", CAR, "car", "--max-new-tokens", "3", *self.options)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"the answer was cut off after 3 tokens (--max-new-tokens)", done.stderr)

    # A full disk, a folder of somebody else: every start then takes as long as the first.
    def test_weights_that_cannot_be_kept_are_told(self):
        no_folder = self.scratch / "no_folder"
        no_folder.write_text("")
        done = self.run_program("locate", CAR, "car", *self.options, environment={"SIGHTLINE_CACHE": str(no_folder)})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.decode(), f"sightline: warning: cannot create {no_folder}/packed: not a directory; "
                                               "packing into memory, which takes time at every start\n")

    def test_decimal_commas_of_a_locale_change_nothing(self):
        usual = self.locate(CAR, "car")
        german = self.locate(CAR, "car", environment={"LC_ALL": "de_DE.UTF-8"})
        self.assertEqual(without_times(german), without_times(usual))


# A folder whose files contradict each other, or what this program computes, gives no answer: it would look like one.
class Folders(LocateTest):
    def changed(self, name, change):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        for file in self.puppet.iterdir():
            (folder / file.name).symlink_to(file)
        document = json.loads((self.puppet / name).read_text())
        change(document)
        (folder / name).unlink()
        (folder / name).write_text(json.dumps(document))
        return folder

    def test_tokens_mean_the_same_to_model_and_tokenizer(self):
        def swap(tokens):
            tokens["<box>"], tokens["</box>"] = tokens["</box>"], tokens["<box>"]
        folder = self.changed("added_tokens.json", swap)
        self.assert_fails(6, f"{folder}: token 151668 is '</box>' in the tokenizer, expected '<box>'",
                          "locate", CAR, "car", "--weights", folder)
        for name, value, expected in (("none_token_id", 6697, "token 6697 is 'none' in the tokenizer, expected 'None'"),
                                      ("none_token_id", 150, "token 150 is '\ufffd' in the tokenizer"),
                                      ("image_token_index", 151667, "expected '<IMG_CONTEXT>'")):
            folder = self.changed("config.json", lambda config: config.update({name: value}))
            self.assert_fails(6, expected, "locate", CAR, "car", "--weights", folder)

    def test_a_head_that_is_not_the_embedding_is_told_at_every_start(self):
        folder = self.changed("config.json", lambda config: None)
        name = "model-00001-of-00001.safetensors"
        (folder / name).unlink()
        shutil.copy(self.puppet / name, folder / name)
        with open(folder / name, "r+b") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(header_bytes))["language_model.lm_head.weight"]
            file.seek(8 + header_bytes + head["data_offsets"][1] - 1)
            file.write(b"\x3f")
        for _ in range(2):
            done = self.run_program("locate", CAR, "car", "--weights", folder)
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"warning: %s: language_model.lm_head.weight differs" % os.fsencode(folder), done.stderr)

    def test_models_of_another_kind_are_refused(self):
        for part, name, value, told in (
                ("text_config", "rope_scaling", {"type": "yarn", "factor": 4}, 'is {"type":"yarn","factor":4}, expected null'),
                ("text_config", "tie_word_embeddings", False, "is false, expected true"),
                ("text_config", "use_sliding_window", True, "is true, expected false"),
                ("text_config", "hidden_act", "gelu", 'is "gelu", expected "silu"'),
                ("text_config", "block_size", 8, "is 8, expected 6"),
                ("vision_config", "patch_size", 16, "is 16, expected 14"),
                ("vision_config", "merge_kernel_size", [4, 4], "is [4,4], expected [2,2]")):
            folder = self.changed("config.json", lambda config: config[part].update({name: value}))
            self.assert_fails(6, f"{folder}/config.json: {part}: {name} {told}", "locate", CAR, "car", "--weights", folder)


class Pictures(LocateTest):
    def test_several_pictures_are_lines(self):
        folder = self.scratch / "several"
        folder.mkdir()
        shutil.copy(CAR, folder / "a.png")
        (folder / "b.jpg").write_bytes(b"no picture")
        shutil.copy(PICTURES / "cat.png", folder / "c.png")
        (folder / "notes.txt").write_text("x")
        done = self.run_program("locate", folder, "car", "--json", *self.options)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual([line["status"] for line in lines], ["ok", "error", "ok"])
        self.assertEqual(lines[0]["file"], str(folder / "a.png"))
        self.assertEqual(lines[1]["error"]["code"], "unsupported_media_type")
        self.assertEqual(done.returncode, 4)
        kept = self.run_program("locate", folder, "car", "--json", "--keep-going", *self.options)
        self.assertEqual(kept.returncode, 20)
        alone = self.locate(folder / "c.png", "car")
        self.assertEqual({**without_times(alone), "file": lines[2]["file"], "status": "ok"}, without_times(lines[2]))

    def test_further_pictures_and_standard_input(self):
        with open(CAR, "rb") as picture:
            done = self.run_program("locate", "-", "cat", "--image", PICTURES / "cat.png", "--json", *self.options,
                                    stdin=picture)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual([line["file"] for line in lines], ["-", str(PICTURES / "cat.png")])
        self.assertEqual([line["status"] for line in lines], ["empty", "empty"])

    def test_together_is_one_question(self):
        document = self.locate(CAR, "car", "--image", PICTURES / "cat.png", "--together", "--grid", "8x8")
        self.assertEqual(document["num_image_tokens"], 32)
        self.assertEqual(len(document["images"]), 2)
        self.assertNotIn("file", document)

    def test_overlay(self):
        self.output_of("locate", CAR, "person", "--overlay", "out.png", *self.options)
        width, height = png_size((self.scratch / "out.png").read_bytes())
        self.assertAlmostEqual(width / height, 616 / 336, places=2)
        self.output_of("locate", CAR, "dog", "--image", PICTURES / "cat.png", "--overlay", "overlays", *self.options)
        self.assertEqual(sorted(path.name for path in (self.scratch / "overlays").iterdir()), ["car.png", "cat.png"])
        self.assert_fails(2, "would overwrite the picture", "locate", "out.png", "car", "--overlay", "out.png",
                          *self.options)

    def test_refusals(self):
        self.assert_fails(3, "no-such.png", "locate", "no-such.png", "car", *self.options)
        self.assert_fails(3, "config.json", "locate", CAR, "car", "--weights", self.scratch)
        self.assert_fails(3, "Hugging Face cache", "locate", CAR, "car")
        self.assert_fails(2, "query: category 2 is empty", "locate", CAR, "car</c>", *self.options)
        self.assert_fails(4, "expected at most", "locate", CAR, "x " * 40000, *self.options)
        (self.scratch / "empty.png").write_bytes(b"")
        done = self.run_program("locate", "empty.png", "car", "--json", *self.options)
        self.assertEqual(done.returncode, 4)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "image_empty")


class Terminal(LocateTest):
    def test_progress_shows_the_growing_answer(self):
        controller, terminal = pty.openpty()
        process = subprocess.Popen([BINARY, "locate", CAR, "person", "--mode", "slow", *self.options],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(controller, 4096):
                shown += part
        except OSError:
            pass  # the other side has closed
        finally:
            os.close(controller)
        output, _ = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"person", output)
        text = shown.decode()
        for stage in ("loading weights", "vision", "prompt", "answer, "):
            self.assertIn(stage, text)
        self.assertIn("tokens: <ref>person</ref>", text)
        self.assertTrue(text.endswith("\r\x1b[K"))
