"""The LocateAnything server at the edge of what can be asked: reports from users of comparable systems, each with the
thread it comes from. tests/cli/test_locate_edges.py asks the same on the command line."""
import base64
import json
import os
import time
import unittest

import png
from locate_server import CAR, HEIGHT, PICTURE, WIDTH, LocateServer, LocateServerTest, question, weights_of
from running_server import AWKWARD, PICTURES, raw_predict, text_of, without_times

VOC = ["aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
       "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"]


def encoded(file):
    return base64.b64encode(file).decode()


def plain(width, height):
    return encoded(png.grey(width, height))


class PuppetTest(LocateServerTest):
    # llama.cpp #16880: boxes were wrong unless the picture had one certain size; here in the picture's own aspect.
    def test_boxes_scale_with_the_picture(self):
        grids = set()
        for side in (1, 28, 60, 100, 200, 333, 500, 700, 1000, 1600, 2000, 3000):
            with self.subTest(side):
                height = max(1, side * 3 // 4)
                answer = self.answer({"image": plain(side, height), "query": "car", "grid": "native"})
                grids.add(tuple(answer["grid_hw"]))
                for found, norm, pixels in zip(answer["detections"][0]["box"], CAR, [side, height] * 2):
                    self.assertAlmostEqual(found / pixels, norm / 1000, delta=1e-12)
        self.assertGreater(len(grids), 6)

    # NVlabs/Eagle #67: classes went missing without a word when many were asked for.
    def test_every_class_has_a_status(self):
        answer = self.answer(question(VOC))
        self.assertEqual([category["name"] for category in answer["categories"]], VOC)
        self.assertEqual({category["name"]: category["status"] for category in answer["categories"]
                          if category["status"] != "not_answered"}, {"car": "found"})

    # VPP-LLaVA #3: a separator inside a class made two of one.
    def test_a_class_is_never_two(self):
        answer = self.answer(question(["chair", "table", "car"]))
        self.assertEqual([category["status"] for category in answer["categories"]],
                         ["not_answered", "not_answered", "found"])
        self.assert_error(self.server.predict(question(["chair</c>table"])), 400, "invalid_request", "query[0]")

    # pytorch/serve #435: nothing detected was an exception.
    def test_nothing_there_is_an_answer(self):
        for picture, query in ((plain(200, 100), "zebra"), (text_of(PICTURES / "child_sand.jpg"), "aeroplane")):
            answer = self.answer({"image": picture, "query": query})
            self.assertEqual((answer["detections"], answer["points"]), ([], []))
            self.assertEqual((answer["finish_reason"], answer["malformed"]), ("stop", 0))
            self.assertIn("no such object", answer["empty_reason"])

    # Grounding-DINO-1.5-API #35: 300 words gave no boxes and no message.
    def test_long_queries_work_to_the_limit_and_then_say_so(self):
        words = "word " * 199
        self.assertEqual(self.answer(question(words + "words"))["query"], words + "words")
        self.assert_error(self.server.predict(question("word " * 300)), 400, "invalid_request", "query",
                          "1500 characters, expected 1 to 1000")

    def test_the_separator_alone_is_no_category(self):
        for text in ("</c>", "</c>car", "car</c></c>cat"):
            self.assert_error(self.server.predict(question(text)), 400, "invalid_request", "query", "is empty")

    # freebuff PR 978, awslabs/multi-model-server #110, HumanSignal and others: what comes for a picture.
    def test_what_is_no_picture_is_named(self):
        rows = [("garbage.jpg", "unsupported_media_type"), ("anim.gif", "unsupported_media_type"),
                ("truncated_half.jpg", "image_truncated"), ("bad_crc_idat.png", None), ("bomb_sof.jpg", "image_too_large"),
                ("empty.png", "image_empty")]
        for name, code in rows:
            with self.subTest(name):
                reply = self.server.predict(question(picture=AWKWARD / name))
                self.assert_error(reply, 413 if code == "image_too_large" else 400, code or reply.code, "image")
        double = "data:image/png;base64,data:image/png;base64," + text_of(PICTURE)
        self.assert_error(self.server.predict({"image": double, "query": "car"}), 400, "invalid_base64", "image")
        self.assert_answers()

    # llama-cpp-python #1140: WebP brought the server down. lmstudio #1150: formats worked at one entrance only.
    def test_formats(self):
        for name in ("lossless.webp", "lossy.webp", "alpha.webp", "animated.webp", "cmyk_adobe.jpg", "gray16.png",
                     "gray_alpha.png", "interlaced.png", "palette_trns.png"):
            with self.subTest(name):
                answer = self.answer(question(picture=AWKWARD / name))
                self.assertEqual(answer["detections"][0]["box_norm"], CAR)
                self.assertEqual(answer["images"][0]["format"], {"jpg": "jpeg"}.get(name[-3:], name[-4:].lstrip(".")))
        codes = [warning["code"] for warning in self.answer(question(picture=AWKWARD / "animated.webp"))["warnings"]]
        self.assertIn("animated", codes)

    # ollama #18106, llama.cpp #27725: a slow leak. SIGHTLINE_LONG=1 asks as often as the report says.
    def test_memory_does_not_grow_with_answers(self):
        rounds = 2000 if os.environ.get("SIGHTLINE_LONG") else 120
        requests = [question(query, mode=mode, grid="10x12", picture=picture) for query in ("car", "person", "cat", "bus")
                    for mode in ("slow", "hybrid") for picture in (PICTURE, PICTURES / "cat.png")]
        for request in requests * 2:
            self.answer(request)
        before = self.server.private_memory()
        for i in range(rounds):
            self.answer(requests[i % len(requests)])
        self.assertLess(self.server.private_memory() - before, 4 << 20)


class TinyTest(LocateServerTest):
    """Random weights: answers depend on every pixel, which the puppet's do not."""

    @classmethod
    def start(cls, *arguments):
        return LocateServer(*arguments, weights=weights_of("tiny"))

    def ask(self, picture, query="car", **fields):
        request = {"image": picture, "query": query, "max_new_tokens": 12, "grid": "native", **fields}
        answer = self.answer(request)
        if not answer["detections"] and not answer["points"]:
            self.assertTrue(answer["empty_reason"])
        return answer

    # llama-cpp-python #90, #1458: the answer was that of an earlier picture.
    def test_answers_belong_to_their_picture(self):
        pictures = [text_of(PICTURES / name) for name in ("cat.png", "coffee.png", "hopper.jpg", "child_sand.jpg")]
        alone = []
        for picture in pictures:
            with LocateServer(weights=weights_of("tiny")) as server:
                alone.append(server.predict({"image": picture, "query": "car", "max_new_tokens": 12}).document)
        request = lambda picture, query="car": {"image": picture, "query": query, "max_new_tokens": 12}
        together = [self.answer(request(picture)) for picture in pictures]
        self.assertEqual([answer["token_ids"] for answer in together], [answer["token_ids"] for answer in alone])
        self.assertGreater(len({tuple(answer["token_ids"]) for answer in together}), 1)
        first, again = (self.server.predict(request(pictures[0])) for _ in range(2))
        self.assertEqual(without_times(first.body), without_times(again.body))
        self.assertEqual(first.document["token_ids"], alone[0]["token_ids"])
        changed = self.answer(request(pictures[0], "a red bus"))
        self.assertGreater(changed["cached"]["prompt_tokens"], 264)
        self.assertEqual(changed["query"], "a red bus")

    # datumaro #1756 and many others: boxes of photographs from phones lay in the unturned picture.
    def test_turned_pictures_are_the_upright_one(self):
        rows = [[(x * 3 % 256, y * 5 % 256, (x + y) % 256) for x in range(90)] for y in range(60)]
        answers = set()
        for orientation in range(1, 9):
            answer = self.ask(encoded(png.write(png.stored_as(rows, orientation), orientation)))
            self.assertEqual((answer["width"], answer["height"]), (90, 60))
            self.assertEqual(answer["images"][0]["exif_orientation"], orientation)
            answers.add(json.dumps([answer["token_ids"], answer["detections"], answer["points"]]))
        self.assertEqual(len(answers), 1)

    def test_edges_of_size(self):
        for width, height in ((1, 1), (1, 500), (500, 1), (8000, 6000)):
            with self.subTest((width, height)):
                self.ask(plain(width, height))
        reply = self.server.predict({"image": plain(4, 10000), "query": "car", "grid": "native"})
        self.assert_error(reply, 400, "aspect_too_extreme", "image", "4x10000")

    def test_edges_of_text(self):
        picture = plain(56, 56)
        for text in ("x" * 1000, "\U0001F408\u200d\u2b1b" * 300, "<box>", "<|im_end|>", "<IMG_CONTEXT>", "<image-2>",
                     "</c>".join(VOC), "\u0000", "%s%n", "\\", "\ufeff"):
            with self.subTest(text[:12]):
                self.assertEqual(self.ask(picture, text)["query"], text)
                self.assertEqual(self.ask(picture, text)["num_image_tokens"], 4)
        self.assert_error(self.server.predict({"image": picture, "query": "x" * 1001}), 400, "invalid_request", "query",
                          "1001 characters")


class OtherTest(unittest.TestCase):
    # nlohmann/json #302: decimal commas.
    def test_answers_do_not_depend_on_the_locale(self):
        bodies = []
        for locale in ("C", "de_DE.UTF-8"):
            with LocateServer(environment={"LC_ALL": locale}) as server:
                bodies.append(without_times(server.predict(question("person")).body))
        self.assertEqual(bodies[0], bodies[1])

    # llama.cpp #24496: fifty clients that give up, by closing and by closing half.
    def test_fifty_clients_that_leave(self):
        with LocateServer("--threads", "1", "--max-seq-len", "16384", "--warmup-runs", "0", "--precision", "f32",
                          environment={"SIGHTLINE_ISA": "generic"}) as server:
            count = 50 if os.environ.get("SIGHTLINE_LONG") else 12
            for i in range(count):
                request = raw_predict(question(grid=f"{60 + 2 * (i % 8)}x{60 + 2 * (i // 8)}", in_token_limit=25600))
                with server.socket() as connection:
                    connection.sendall(request)
                    while server.metric("sightline_requests_admitted") == 0:
                        time.sleep(0.002)
                    if i % 2:
                        connection.shutdown(1)
                        time.sleep(0.05)
                self.assertEqual(server.get("/health").document["status"], "ok")
                server.wait_until_idle()
            self.assertEqual(server.metric("sightline_requests_cancelled_total"), count)
            self.assertEqual(server.predict(question()).document["detections"][0]["box_norm"], CAR)
