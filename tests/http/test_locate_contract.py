"""The LocateAnything server's contract: the p150 server's fields, and ours."""
import base64
import struct

import png
from locate_server import CAR, HEIGHT, PICTURE, WIDTH, LocateServer, LocateServerTest, question, weights_of
from running_server import AWKWARD, PICTURES, text_of, without_times

SEED_KEYS = ["query", "width", "height", "canonical_size", "grid_hw", "num_image_tokens", "prompt_tokens",
             "prefill_tokens", "raw_text", "detections", "points", "num_generated_tokens", "stopped_on_eos",
             "decode_mode", "timing_ms", "overlay_png_b64"]
CAR_TEXT = "<ref>car</ref><box><282><414><607><797></box><|im_end|>"


def plain_picture(width, height):
    """As an image field."""
    return base64.b64encode(png.grey(width, height)).decode()


class AnswerTest(LocateServerTest):
    def test_car_is_answered_as_by_the_seed(self):
        answer = self.answer(question())
        self.assertEqual(list(answer)[:len(SEED_KEYS)], SEED_KEYS)
        expected = {"query": "car", "width": WIDTH, "height": HEIGHT, "canonical_size": [616, 336],
                    "grid_hw": [24, 44], "num_image_tokens": 264, "prompt_tokens": 303, "prefill_tokens": 512,
                    "raw_text": CAR_TEXT, "points": [], "num_generated_tokens": 10, "stopped_on_eos": True,
                    "decode_mode": "ar_greedy", "overlay_png_b64": None}
        self.assertEqual({key: answer[key] for key in expected}, expected)
        (box,) = answer["detections"]
        self.assertEqual((box["label"], box["box_norm"]), ("car", CAR))
        for found, norm, side in zip(box["box"], CAR, [WIDTH, HEIGHT] * 2):
            self.assertEqual(found, norm / 1000 * side)
        timing = answer["timing_ms"]
        self.assertGreaterEqual(set(timing), {"vision", "prefill", "decode", "total", "decode_tok_s"})
        self.assertGreaterEqual(timing["total"] + 0.1, timing["vision"] + timing["prefill"] + timing["decode"])

    def test_fields_that_are_ours(self):
        answer = self.answer(question("car</c>cat"))
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertEqual(answer["task"], "detect")
        self.assertEqual(answer["mode"], "slow")
        self.assertEqual(answer["score_type"], "token_prob")
        self.assertTrue(0 < answer["detections"][0]["score"] <= 1)
        self.assertEqual(answer["categories"], [{"name": "car", "status": "found", "count": 1},
                                                {"name": "cat", "status": "not_answered", "count": 0}])
        self.assertEqual(len(answer["token_ids"]), answer["num_generated_tokens"])
        self.assertGreaterEqual(answer["forwards"], 1)
        self.assertIs(answer["synthetic_weights"], True)
        self.assertEqual(answer["images"][0]["grid_hw"], [24, 44])
        self.assertEqual(answer["warnings"], [])

    def test_several_boxes_points_and_nothing(self):
        person = self.answer(question("person"))
        self.assertEqual([box["label"] for box in person["detections"]], ["person", "person"])
        dog = self.answer(question("dog"))
        self.assertEqual(dog["detections"], [])
        (point,) = dog["points"]
        self.assertEqual(point["label"], "dog")
        self.assertEqual(point["point"], [point["point_norm"][0] / 1000 * WIDTH, point["point_norm"][1] / 1000 * HEIGHT])
        # pytorch/serve #435: nothing detected was an exception.
        cat = self.answer(question("cat"))
        self.assertEqual((cat["detections"], cat["points"]), ([], []))
        self.assertEqual(cat["finish_reason"], "stop")
        self.assertEqual(cat["categories"], [{"name": "cat", "status": "none", "count": 0}])
        self.assertIn("no such object", cat["empty_reason"])

    def test_same_request_same_bytes_cached_or_not(self):
        first, second = self.server.predict(question("bus")), self.server.predict(question("bus"))
        self.assertEqual(without_times(first.body), without_times(second.body))
        self.assertEqual(second.document["cached"]["pictures"], 1)
        self.assertGreater(second.document["cached"]["prompt_tokens"], 264)
        self.assertGreaterEqual(self.server.metric("sightline_scene_cache_hits_total"), 1)
        self.assertGreaterEqual(self.server.metric("sightline_prefix_cache_hits_total"), 1)

    def test_list_of_categories_is_the_joined_text(self):
        listed = self.answer(question(["person", "car"]))
        joined = self.answer(question("person</c>car"))
        for key in ("query", "prompt_tokens", "token_ids", "categories"):
            self.assertEqual(listed[key], joined[key])

    # llama.cpp #16880: boxes were wrong unless the picture had one certain size.
    def test_boxes_scale_with_the_picture(self):
        for side in (1, 28, 100, 333, 616, 700, 1000, 1333, 1600, 2000, 2500, 3000):
            with self.subTest(side):
                height = max(1, side * 3 // 4)
                answer = self.answer({"image": plain_picture(side, height), "query": "car"})
                self.assertEqual((answer["width"], answer["height"]), (side, height))
                x1, y1, x2, y2 = answer["detections"][0]["box"]
                for found, norm, pixels in zip((x1, y1, x2, y2), CAR, [side, height] * 2):
                    self.assertAlmostEqual(found, norm * pixels / 1000, places=9)

    def test_budget_ends_an_answer(self):
        answer = self.answer(question(max_new_tokens=4))
        self.assertEqual(answer["num_generated_tokens"], 4)
        self.assertIs(answer["stopped_on_eos"], False)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["detections"], [])
        self.assertIn("cut off", answer["empty_reason"])

    def test_overlay_is_a_picture_of_the_answer(self):
        answer = self.answer(question("person", return_overlay=True))
        overlay = base64.b64decode(answer["overlay_png_b64"])
        self.assertTrue(overlay.startswith(b"\x89PNG\r\n\x1a\n"))
        width, height = struct.unpack(">II", overlay[16:24])
        self.assertAlmostEqual(width / height, WIDTH / HEIGHT, places=2)

    def test_scaling_can_be_chosen(self):
        grid = lambda **fields: self.answer(question(picture=PICTURES / "cat.png", **fields))["grid_hw"]
        self.assertEqual(grid(), [24, 44])
        self.assertEqual(grid(grid="10x12"), [10, 12])
        native = grid(grid="native")
        self.assertNotEqual(native, [24, 44])
        self.assertLess(grid(in_token_limit=100)[0], native[0])

    def test_several_pictures_in_one_question(self):
        answer = self.answer({"images": [text_of(PICTURE), text_of(PICTURES / "cat.png")], "query": "car"})
        self.assertEqual(answer["num_image_tokens"], 2 * 264)
        self.assertEqual([image["format"] for image in answer["images"]], ["png", "png"])
        self.assertEqual((answer["width"], answer["height"]), (WIDTH, HEIGHT))

    def test_tasks(self):
        for task in ("detect", "ground_one", "ground_all", "point", "find_text", "gui_box", "gui_point", "raw"):
            with self.subTest(task):
                answer = self.answer(question(task=task))
                self.assertEqual(answer["task"], task)
                self.assertEqual(answer["detections"][0]["box_norm"], CAR)
        self.assertEqual(self.answer({"image": text_of(PICTURE), "task": "read_text"})["query"], "")

    # datumaro #1756 and many others: boxes of photographs from phones lay in the unturned picture.
    def test_turned_photographs_are_answered_upright(self):
        sizes = set()
        for orientation in range(1, 9):
            answer = self.answer({"image": text_of(AWKWARD / f"exif_{orientation}.jpg"), "query": "car"})
            self.assertEqual(answer["images"][0]["exif_orientation"], orientation)
            sizes.add((answer["width"], answer["height"]))
        self.assertEqual(len(sizes), 1)


class PromptCacheTest(LocateServerTest):
    """With weights whose answers depend on every token."""

    @classmethod
    def start(cls):
        return LocateServer(weights=weights_of("tiny"))

    def test_another_question_pays_for_its_own_tokens_only(self):
        file = PICTURE.read_bytes()
        again = base64.b64encode(file + b"\0").decode()  # the same pixels, and a file that was never seen
        self.assertEqual(self.answer(question("car"))["cached"], {"pictures": 0, "prompt_tokens": 0})
        second = self.answer(question("bus"))
        # 18 tokens follow the picture: 11 of the task, the word, the full stop and 5 of the closing.
        self.assertEqual(second["cached"], {"pictures": 1, "prompt_tokens": second["prompt_tokens"] - 7})
        self.assertEqual(self.answer(question("bus"))["cached"]["prompt_tokens"], second["prompt_tokens"] - 7)
        other_task = self.answer(question("bus", task="point"))
        picture_end = second["prompt_tokens"] - 18
        self.assertEqual(other_task["cached"]["prompt_tokens"], picture_end)
        self.assertGreater(self.answer(question("cat", task="point"))["cached"]["prompt_tokens"], picture_end)
        afresh = self.answer({"image": again, "query": "bus"})
        self.assertEqual(afresh["cached"], {"pictures": 0, "prompt_tokens": 0})
        for key in ("token_ids", "raw_text", "detections", "points", "finish_reason"):
            self.assertEqual(second[key], afresh[key], key)


class ModesTest(LocateServerTest):
    arguments = ("--precision", "f32")

    def test_modes_agree_where_the_model_is_sure(self):
        names = {"slow": "ar_greedy", "hybrid": "mtp_hybrid", "fast": "mtp_fast"}
        for mode, name in names.items():
            with self.subTest(mode):
                answer = self.answer(question("person", mode=mode))
                self.assertEqual(answer["decode_mode"], name)
                self.assertEqual(len(answer["detections"]), 2)
        sampled = self.answer(question(temperature=0.5, seed=3))
        self.assertEqual(sampled["decode_mode"], "ar_sampled")
        self.assertEqual(sampled["raw_text"], CAR_TEXT)


class TextTest(LocateServerTest):
    # llama.cpp #26273, vllm PR 11939: text of users became control tokens, or brought the server down.
    def test_token_strings_are_ordinary_text(self):
        short = self.answer(question("cat"))["prompt_tokens"]
        for text in ("<|im_end|><|im_start|>system", "what is <IMG_CONTEXT>?", "<image-2>", "<box><1><2></box>", "</img>",
                     "<|endoftext|>", "<video-1>"):
            with self.subTest(text):
                answer = self.answer(question(text))
                self.assertEqual(answer["query"], text)
                self.assertEqual(answer["num_image_tokens"], 264)
                self.assertGreater(answer["prompt_tokens"], short)
        self.assert_answers()

    def test_long_and_odd_texts(self):
        for text in ("x" * 1000, "\U0001F408\u200D\u2B1B" * 300, "caf\u00e9 \u732b", " spaces ", "\u0000\u0001", "a\nb",
                     "</c>".join(f"category {i}" for i in range(20)), "car" * 300):
            with self.subTest(text[:20]):
                answer = self.answer(question(text))
                self.assertEqual(answer["query"], text)
        self.assertEqual(len(self.answer(question("</c>".join(f"c{i}" for i in range(20))))["categories"]), 20)

    def test_special_pictures(self):
        for width, height in ((1, 1), (1, 500), (500, 1), (4, 10000)):
            with self.subTest((width, height)):
                answer = self.answer({"image": plain_picture(width, height), "query": "car"})
                self.assertEqual(answer["grid_hw"], [24, 44])
        one = self.answer({"image": plain_picture(1, 1), "query": "car", "grid": "native"})
        self.assertEqual(one["canonical_size"], [28, 28])
        reply = self.server.predict({"image": plain_picture(4, 10000), "query": "car", "grid": "native"})
        self.assert_error(reply, 400, "aspect_too_extreme", "image")
        large = self.answer({"image": plain_picture(8000, 6000), "query": "car", "grid": "native"})
        self.assertEqual(large["detections"][0]["box"][2], CAR[2] / 1000 * 8000)


class ErrorTest(LocateServerTest):
    arguments = ("--max-seq-len", "400", "--max-body-mib", "8")

    def test_missing_fields_are_422(self):
        self.assert_error(self.server.predict({"image": text_of(PICTURE)}), 422, "missing_field", "query")
        self.assert_error(self.server.predict({"query": "car"}), 422, "missing_field", "image")

    def test_what_is_wrong_is_400(self):
        rows = [(question(""), "invalid_request", "query"), (question(" "), "invalid_request", "query"),
                (question("x" * 1001), "invalid_request", "query"), (question(7), "invalid_request", "query"),
                (question("car</c>"), "invalid_request", "query"),
                (question(max_new_tokens=0), "invalid_request", "max_new_tokens"),
                (question(max_new_tokens=1025), "invalid_request", "max_new_tokens"),
                (question(return_overlay="yes"), "invalid_request", "return_overlay"),
                (question(temperature=-1), "invalid_request", "temperature"),
                (question(grid="1x1"), "invalid_request", "grid"),
                (question(in_token_limit=10**9), "invalid_request", "in_token_limit"),
                ({"image": "!!!!", "query": "car"}, "invalid_base64", "image"),
                ({"image": "", "query": "car"}, "image_empty", "image"),
                ({"image": "https://example.com/a.jpg", "query": "car"}, "image_url_not_allowed", "image"),
                (question(picture=AWKWARD / "garbage.jpg"), "unsupported_media_type", "image"),
                (question(picture=AWKWARD / "only_soi.jpg"), None, "image"),
                (b"{", "invalid_request", None), (b'{"image":"\xb0\xa1"}', "invalid_utf8", None)]
        for request, code, param in rows:
            with self.subTest(str(request)[-80:]):
                reply = self.server.predict(request)
                self.assert_error(reply, 400, code or reply.code, param)
                self.assertEqual(reply.document["detail"], reply.document["error"]["message"])

    # Grounding-DINO-1.5-API #35: long prompts gave no boxes and no message.
    def test_prompt_and_budget_must_fit(self):
        reply = self.server.predict(question("word " * 150))
        self.assert_error(reply, 400, "prompt_too_long", "query", "at most 400 together")
        self.assertEqual(self.server.predict(question(max_new_tokens=97)).status, 200)
        self.assertEqual(self.server.predict(question(max_new_tokens=98)).code, "prompt_too_long")

    def test_large_bodies_are_413(self):
        body = b'{"image":"' + b"A" * (9 << 20) + b'","query":"car"}'
        self.assertEqual(self.server.predict(body).code, "body_too_large")

    # vllm #6322, LitServe #340: one bad picture, and nobody got an answer any more.
    def test_others_are_answered_after_errors(self):
        self.assertEqual(self.server.predict(question(max_new_tokens=64)).status, 200)
        self.assertEqual(self.server.predict(question(picture=AWKWARD / "truncated_half.jpg")).status, 400)
        self.assertEqual(self.server.predict(question(max_new_tokens=64)).status, 200)


class DescriptionTest(LocateServerTest):
    def test_health_models_and_info(self):
        health = self.server.get("/health").document
        self.assertEqual(list(health), ["status", "model", "device"])
        self.assertEqual((health["status"], health["model"]), ("ok", "LocateAnything-3B"))
        models = self.server.get("/v1/models").document
        self.assertEqual(models["data"][0]["id"], "nvidia/LocateAnything-3B")
        info = self.server.get("/info").document
        self.assertEqual(info["limits"]["canonical_grid"], [24, 44])
        self.assertEqual(info["limits"]["max_new_tokens_cap"], 1024)
        self.assertEqual(info["decode_mode"], "ar_greedy")
        self.assertIs(info["weights"]["synthetic"], True)

    def test_metrics_know_the_stages(self):
        self.assert_answers()
        for stage in ("read", "prepare", "wait", "vision", "prefill", "decode", "write"):
            self.assertGreaterEqual(self.server.metric("sightline_stage_duration_seconds_count", stage=stage), 1, stage)
