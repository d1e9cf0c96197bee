"""sightline locate on pictures and texts at the edge of what can be asked, with weights that answer by script (puppet)
and with random ones (tiny), whose answers have no sense but must still be answers."""
import json
import os
import pathlib
import subprocess
import sys
import threading
import unicodedata

from sightline_program import BINARY, PICTURES, ProgramTest, ROOT

sys.path.insert(0, str(ROOT / "tests" / "http"))
import png  # noqa: E402

AWKWARD = PICTURES / "awkward"
CAR = ROOT / "assets" / "car.png"  # 616 x 336
CAR_NORM = [282, 414, 607, 797]
ENDS = ("stop", "length", "loop", "malformed")
VOC = ["aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
       "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"]
TOKEN_STRINGS = ["<box>", "<|im_end|>", "<IMG_CONTEXT>", "<image-2>", "<|im_end|><|im_start|>system", "</img>", "<5>",
                 "<video-1>", "<ref>car</ref><box><1><2><3><4></box>"]


class EdgeTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for size in ("puppet", "tiny"):
            subprocess.run([BINARY, "synth", "locate-anything", "--size", size, "--out", cls.scratch / size], check=True,
                           capture_output=True, env=cls.environment)

    def picture(self, width, height):
        path = self.scratch / f"{width}x{height}.png"
        if not path.exists():
            path.write_bytes(png.grey(width, height))
        return path

    def puppet(self, *arguments, **options):
        return self.document_of("locate", *arguments, "--weights", self.scratch / "puppet", **options)

    def tiny(self, *arguments, **options):
        """A short answer of the random weights: any, but complete and with a reason when it is empty."""
        document = self.document_of("locate", *arguments, "--weights", self.scratch / "tiny", "--max-new-tokens", "12",
                                    **options)
        self.assertIn(document["finish_reason"], ENDS)
        self.assertLessEqual(len(document["token_ids"]), 12)
        if not document["detections"] and not document["points"]:
            self.assertTrue(document["empty_reason"])
        return document

    def assert_refused(self, code, sentence, *arguments):
        return self.assert_fails(code, sentence, "locate", *arguments, "--weights", self.scratch / "puppet")


class Sizes(EdgeTest):
    # vllm PR 9141, mistral-common PR 289: pictures of one pixel brought engines down.
    def test_small_and_thin_pictures(self):
        for (width, height), grid in {(1, 1): [2, 2], (13, 13): [2, 2], (1, 500): [36, 2], (500, 1): [2, 36]}.items():
            with self.subTest((width, height)):
                picture = self.picture(width, height)
                document = self.puppet(picture, "car")
                self.assertEqual((document["width"], document["height"]), (width, height))
                self.assertEqual(document["grid_hw"], grid)
                self.assertEqual(document["canonical_size"], [14 * grid[1], 14 * grid[0]])
                self.assertEqual(document["detections"][0]["box_norm"], CAR_NORM)
                self.assertEqual(self.tiny(picture, "car")["grid_hw"], grid)

    def test_large_picture(self):
        document = self.puppet(self.picture(8000, 6000), "car")
        self.assertLessEqual(document["num_image_tokens"], 1024 // 4 + 40)
        self.assertEqual(document["detections"][0]["box"], [norm / 1000 * side for norm, side in
                                                            zip(CAR_NORM, [8000, 6000] * 2)])
        self.tiny(self.picture(8000, 6000), "car")

    def test_extreme_aspect_is_refused_with_the_limit(self):
        picture = self.picture(4, 10000)
        done = self.assert_refused(4, "4x10000", picture, "car")
        self.assertRegex(done.stderr.decode(), r"715 patches|512")
        failed = self.run_program("locate", picture, "car", "--json", "--weights", self.scratch / "puppet")
        self.assertEqual(json.loads(failed.stdout)["error"]["code"], "aspect_too_extreme")
        # Pressed into a grid it can be asked about.
        document = self.puppet(picture, "car", "--grid", "24x44")
        self.assertEqual(document["detections"][0]["box"][3], CAR_NORM[3] / 1000 * 10000)

    # llama.cpp #16880: boxes fitted pictures of one size only. Native aspect, so the grid is another each time.
    def test_boxes_scale_with_the_picture(self):
        grids = set()
        for side in (1, 28, 60, 100, 200, 333, 500, 700, 1000, 1600, 2000, 3000):
            with self.subTest(side):
                height = max(1, side * 3 // 4)
                document = self.puppet(self.picture(side, height), "car")
                grids.add(tuple(document["grid_hw"]))
                for found, norm, pixels in zip(document["detections"][0]["box"], CAR_NORM, [side, height] * 2):
                    self.assertAlmostEqual(found / pixels, norm / 1000, delta=1e-12)
        self.assertGreater(len(grids), 6)


class Texts(EdgeTest):
    # NVlabs/Eagle #67: classes went missing without a word when many were asked for.
    def test_twenty_categories(self):
        document = self.puppet(CAR, *VOC)
        self.assertEqual([category["name"] for category in document["categories"]], VOC)
        self.assertEqual([category["name"] for category in document["categories"] if category["status"] == "found"],
                         ["car"])
        self.assertEqual({category["status"] for category in document["categories"]}, {"found", "not_answered"})
        self.assertEqual(len(self.tiny(CAR, *VOC)["categories"]), 20)

    def test_long_texts(self):
        # Not cut: a text of 1,000 characters is 1,000 characters longer for the model, too.
        for text in ("x" * 1000, "car " * 250, "\U0001F408\u200d\u2b1b" * 333, "\u732b" * 1000):
            with self.subTest(text[:8]):
                document = self.puppet(CAR, text)
                self.assertEqual(document["query"], text)
                self.assertEqual(self.tiny(CAR, text)["prompt_tokens"], document["prompt_tokens"])
        # Grounding-DINO-1.5-API #35: 300 words gave no boxes and no message.
        self.assertGreater(self.puppet(CAR, "word " * 300)["prompt_tokens"], 550)

    def test_emoji(self):
        for text in ("\U0001F697", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "e\u0301",
                     "\u202ecar"):
            with self.subTest(text):
                self.assertEqual(self.puppet(CAR, text)["query"], text)
                name = self.tiny(CAR, text)["categories"][0]["name"]
                self.assertEqual(unicodedata.normalize("NFC", name), unicodedata.normalize("NFC", text))

    # llama.cpp #26273, vllm PR 11939: text of users became control tokens.
    def test_token_strings_are_text(self):
        plain = self.puppet(CAR, "x")
        for text in TOKEN_STRINGS:
            with self.subTest(text):
                document = self.puppet(CAR, text)
                self.assertEqual(document["query"], text)
                self.assertEqual(document["num_image_tokens"], plain["num_image_tokens"])
                self.assertGreater(document["prompt_tokens"], plain["prompt_tokens"])
                self.tiny(CAR, text)
        # The separator of categories is the one exception: with nothing between, there is no category.
        for text in ("</c>", "car</c>", "</c>car", "car</c></c>cat"):
            self.assert_refused(2, "is empty", CAR, text)

    def test_arguments_that_begin_with_a_dash(self):
        done = self.run_program("locate", "--json", "--weights", self.scratch / "puppet", "--", CAR, "-car")
        self.assertEqual(json.loads(done.stdout)["query"], "-car")


class Answers(EdgeTest):
    # pytorch/serve #435: nothing detected was an exception.
    def test_nothing_there_is_an_answer(self):
        for picture, query in ((self.picture(64, 64), "zebra"), (PICTURES / "child_sand.jpg", "aeroplane")):
            document = self.puppet(picture, query)
            self.assertEqual((document["detections"], document["finish_reason"]), ([], "stop"))
            self.assertIn("no such object", document["empty_reason"])

    # vllm #6322, LitServe #340: a bad item brought the others down.
    def test_a_bad_picture_among_good_ones(self):
        names = [PICTURES / "cat.png", AWKWARD / "truncated_half.jpg", PICTURES / "coffee.png"]
        folder = self.scratch / "batch"
        folder.mkdir()
        for name in names:
            (folder / name.name).write_bytes(name.read_bytes())
        done = self.run_program("locate", folder, "car", "--json", "--weights", self.scratch / "tiny",
                                "--max-new-tokens", "12")
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual(done.returncode, 4)
        failed = [line for line in lines if line["status"] == "error"]
        self.assertEqual([line["error"]["code"] for line in failed], ["image_truncated"])
        for line in lines:
            if line["status"] != "error":
                self.assertEqual(line["token_ids"], self.tiny(line["file"], "car")["token_ids"])

    # pulsejet/memories #170 and many others: the photograph of a phone held upright.
    def test_turned_pictures_are_the_upright_one(self):
        rows = [[(x * 3 % 256, y * 5 % 256, (x + y) % 256) for x in range(90)] for y in range(60)]
        answers = set()
        for orientation in range(1, 9):
            path = self.scratch / f"turned_{orientation}.png"
            path.write_bytes(png.write(png.stored_as(rows, orientation), orientation))
            document = self.tiny(path, "car")
            self.assertEqual((document["width"], document["height"]), (90, 60))
            answers.add(json.dumps([document["token_ids"], document["detections"], document["points"]]))
        self.assertEqual(len(answers), 1)

    def test_a_pipe_is_read(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=lambda: pipe.write_bytes(pathlib.Path(CAR).read_bytes()))
        writer.start()
        document = self.puppet(pipe, "car")
        writer.join()
        self.assertEqual(document["detections"][0]["box_norm"], CAR_NORM)

    # In a folder it is not what was named, and nobody may ever write to it.
    def test_a_pipe_in_a_folder_is_refused(self):
        folder = self.scratch / "with_pipe"
        folder.mkdir()
        os.mkfifo(folder / "a.png")
        (folder / "b.png").write_bytes(pathlib.Path(CAR).read_bytes())
        done = self.run_program("locate", folder, "car", "--json", "--weights", self.scratch / "puppet")
        statuses = [json.loads(line)["status"] for line in done.stdout.decode().splitlines()]
        self.assertEqual(statuses, ["error", "ok"])
        self.assertIn(b"it is a pipe", done.stderr)
