"""Pictures: every file of the manifest, and what users of other servers reported about theirs."""
import base64
import json
import pathlib
import re
import unittest

import png
from gaze_server import AWKWARD, PICTURES, TOY, ServerTest, raw_predict, text_of, toy_boxes, toy_request

MANIFEST = json.loads((AWKWARD / "manifest.json").read_text())["files"]
ANYWHERE = {"bboxes": [[0.1, 0.1, 0.6, 0.6]], "bbox_format": "normalized", "heatmap_format": "none"}


def image_field(name):
    if MANIFEST[name].get("form") == "text":
        return (AWKWARD / name).read_bytes().decode("latin-1")
    return text_of(AWKWARD / name)


class ManifestTest(ServerTest):
    def test_accepted(self):
        for name, row in MANIFEST.items():
            if row["expect"] != "accept":
                continue
            with self.subTest(name):
                reply = self.server.predict({"image": image_field(name), **ANYWHERE})
                if reply.status != 200:
                    self.assertEqual(reply.code, row.get("may_reject"), reply.body)
                    continue
                answer = reply.document
                self.assertEqual(answer["image_size"], [row["width"], row["height"]])
                self.assertEqual(answer["image"]["width"], row["width"])
                self.assertEqual(answer["image"]["exif_orientation"], row.get("exif_orientation", answer["image"][
                    "exif_orientation"]))
                codes = [warning["code"] for warning in answer["warnings"]]
                if "warning" in row:
                    self.assertIn(row["warning"], codes)
                if row.get("exif_orientation", 1) != 1:
                    self.assertIn("exif_orientation", codes)

    def test_refused(self):
        for name, row in MANIFEST.items():
            if row["expect"] != "reject":
                continue
            with self.subTest(name):
                reply = self.server.predict({"image": image_field(name), **ANYWHERE})
                if reply.status == 200:
                    self.assertIn("may_accept", row)
                    continue
                self.assertIn(reply.code, (row["error"], row.get("may_error")))
                self.assert_error(reply, 413 if reply.code == "image_too_large" else 400, reply.code, "image")
                if "detected" in row:
                    self.assertIn(row["detected"], reply.document["error"]["message"].lower())
                if "offset" in row:
                    self.assertRegex(reply.document["error"]["message"], rf"\b{row['offset']}\b")
        self.assert_answers()

    # jasper #80 and the like: decided from the header, without taking memory.
    def test_bombs_take_no_memory(self):
        self.assert_answers()
        for name in ("bomb_60000.png", "bomb_real_30000.png", "bomb_sof.jpg", "bomb_ztxt.png", "bomb_extra_idat.png"):
            before = self.peak_memory()
            self.server.predict({"image": image_field(name), **ANYWHERE})
            self.assertLess(self.peak_memory() - before, 32 << 20, name)

    def peak_memory(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


class PicturesTest(ServerTest):
    # dotnet/machinelearning #6592 and three more: boxes rotated on phone pictures. The same upright picture stored in
    # all eight orientations gives the same answer, in the upright frame.
    def test_eight_orientations_give_one_answer(self):
        rows = png.read((TOY / "sample_01.png").read_bytes())
        answers = []
        for orientation in range(1, 9):
            file = png.write(png.stored_as(rows, orientation), orientation)
            reply = self.server.predict(toy_request("sample_01.png", image=base64.b64encode(file).decode(),
                                                    heatmap_format="json"))
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(reply.document["image"]["exif_orientation"], orientation)
            self.assertEqual(reply.document["image_size"], [len(rows[0]), len(rows)])
            answers.append(reply.document["predictions"])
        self.assertTrue(all(answer == answers[0] for answer in answers))

    # pulsejet/memories #170, photonix #387: heads found in the picture as it was stored, not as it is seen.
    def test_heads_are_found_in_the_upright_frame(self):
        rows = png.read((PICTURES / "astronaut.png").read_bytes())
        answers = []
        for orientation in (1, 6, 8):
            file = png.write(png.stored_as(rows, orientation), orientation)
            answers.append(self.server.predict({"image": base64.b64encode(file).decode(), "detect_heads": True,
                                                "heatmap_format": "none"}).document["predictions"])
        self.assertEqual(len(answers[0]), 1)
        x1, y1, x2, y2 = answers[0][0]["bbox"]
        self.assertTrue(x1 < 227 < x2 and y1 < 103 < y2, answers[0])  # the middle of heads.json's box
        self.assertTrue(all(answer == answers[0] for answer in answers))

    def test_eight_jpegs_give_nearly_one_answer(self):
        targets = []
        for orientation in range(1, 9):
            answer = self.server.predict({"image": text_of(AWKWARD / f"exif_{orientation}.jpg"),
                                          "bboxes": [[60, 5, 90, 30]], "heatmap_format": "json"}).document
            self.assertEqual(answer["image_size"], [96, 64])
            targets.append(answer["predictions"][0])
        for other in targets[1:]:
            difference = max(abs(a - b) for x, y in zip(targets[0]["heatmap"], other["heatmap"]) for a, b in zip(x, y))
            self.assertLess(difference, 0.1)

    # lmstudio #1150: what one entrance accepts another refused. The same pixels as PNG and as WebP.
    def test_lossless_formats_agree(self):
        answers = [self.server.predict({"image": text_of(AWKWARD / name), **ANYWHERE}).document["predictions"]
                   for name in ("png_named.jpg", "lossless.webp")]
        self.assertEqual(answers[0], answers[1])

    # vllm #6322, LitServe #340: one bad picture must not hurt the next request.
    def test_bad_picture_between_good_ones(self):
        def ask(picture):
            return self.server.predict({"image": text_of(picture), **ANYWHERE})
        alone = [ask(PICTURES / "cat.png").document["predictions"], ask(PICTURES / "coffee.png").document["predictions"]]
        first, bad, last = ask(PICTURES / "cat.png"), ask(AWKWARD / "truncated_half.jpg"), ask(PICTURES / "coffee.png")
        self.assert_error(bad, 400, "image_truncated", "image")
        self.assertEqual([first.document["predictions"], last.document["predictions"]], alone)

    # llama-cpp-python #90, #1458: never the answer of an earlier picture.
    def test_answers_belong_to_their_picture(self):
        names = ["sample_01.png", "sample_02.png", "sample_04.png", "sample_05.png", "sample_01.png"]
        box = {"bboxes": [[100, 100, 150, 150]], "heatmap_format": "json"}
        answers = [self.server.predict(toy_request(name, **box)).document["predictions"] for name in names]
        self.assertEqual(answers[0], answers[4])
        for i in range(4):
            for k in range(i):
                self.assertNotEqual(answers[i][0]["heatmap"], answers[k][0]["heatmap"])
        changed = self.server.predict(toy_request("sample_01.png", bboxes=[toy_boxes("sample_01.png")[1]],
                                                  heatmap_format="json")).document["predictions"]
        self.assertNotEqual(changed[0]["heatmap"], answers[4][0]["heatmap"])

    def test_nothing_of_the_file_is_echoed(self):
        reply = self.server.predict({"image": text_of(AWKWARD / "html_polyglot.png"), **ANYWHERE})
        self.assertNotIn(b"<script", reply.body)

    def test_picture_of_many_pixels_works(self):
        file = png.write([[(x % 256, 0, 0) for x in range(3000)]] * 3000)
        reply = self.server.predict({"image": base64.b64encode(file).decode(), **ANYWHERE})
        self.assertEqual(reply.status, 200, reply.body)

    # llama.cpp #17534: NaN for some sizes.
    def test_every_width_gives_numbers(self):
        for width in (1, 2, 13, 14, 15, 27, 28, 29, 31, 32, 33, 63, 64, 65, 447, 448, 449, 1000):
            file = png.write([[(200, x % 256, 50) for x in range(width)]] * 40)
            reply = self.server.predict({"image": base64.b64encode(file).decode(), **ANYWHERE})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertNotIn(b"null,", reply.body.split(b'"gaze_target"')[1].split(b"}")[0])


class PixelLimitTest(ServerTest):
    arguments = ("--max-pixels", "10000", "--max-body-mib", "1")

    def test_limits_are_options(self):
        reply = self.server.predict(toy_request())
        self.assert_error(reply, 413, "image_too_large", "image")
        self.assertEqual(self.server.predict({"image": text_of(AWKWARD / "gray.jpg"), **ANYWHERE}).status, 200)
        self.assertEqual(self.server.send(raw_predict(b" " * ((1 << 20) + 1))), 413)


if __name__ == "__main__":
    unittest.main()
