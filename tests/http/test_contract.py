"""The contract of the seed's server and of docs/http-api.md, as clients see it."""
import base64
import io
import json
import math
import re
import struct
import subprocess
import unittest
import zipfile
import zlib

from gaze_server import JSON_TYPE, PICTURES, TOY, TRUTH, ServerTest, text_of, toy_boxes, toy_request

ANSWER_KEYS = ["model", "image_size", "input_size", "num_heads", "heatmap_size", "heatmap_format", "predictions",
               "timing_ms", "warnings", "image", "request_id", "toy_weights"]
PREDICTION_KEYS = ["bbox", "bbox_normalized", "inout", "gaze_target"]
TARGET_KEYS = ["x", "y", "x_norm", "y_norm", "heatmap_row", "heatmap_col", "score"]


def grey_png(file):
    """Width, height and rows of an 8-bit grey PNG without interlacing."""
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, header = 8, b"", None
    while at < len(file):
        length, kind = struct.unpack(">I4s", file[at:at + 8])
        content = file[at + 8:at + 8 + length]
        assert zlib.crc32(kind + content) == struct.unpack(">I", file[at + 8 + length:at + 12 + length])[0]
        header = struct.unpack(">IIBBBBB", content) if kind == b"IHDR" else header
        data += content if kind == b"IDAT" else b""
        at += 12 + length
    width, height = header[:2]
    assert header[2:] == (8, 0, 0, 0, 0)
    raw, rows, above = zlib.decompress(data), [], bytes(width)
    for y in range(height):
        kind, line = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            left, up, corner = line[x - 1] if x else 0, above[x], above[x - 1] if x else 0
            paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
        rows.append(list(line))
        above = bytes(line)
    return width, height, rows


def npy(file):
    """Shape and values of a little-endian float32 .npy file."""
    assert file[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", file[8:10])[0]
    header = file[10:10 + length].decode()
    assert "'<f4'" in header and "'fortran_order': False" in header
    shape = tuple(int(n) for n in re.search(r"'shape': \(([^)]*)\)", header)[1].split(",") if n.strip())
    return shape, [v[0] for v in struct.iter_unpack("<f", file[10 + length:])]


class PredictTest(ServerTest):
    def test_answer_has_the_seeds_form(self):
        reply = self.server.predict(toy_request())
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(reply.headers["content-type"], "application/json")
        answer = reply.document
        self.assertEqual(list(answer), ANSWER_KEYS)
        self.assertEqual(answer["model"], "gaze-lle")
        self.assertEqual(answer["image_size"], [507, 374])
        self.assertEqual(answer["input_size"], [448, 448])
        self.assertEqual(answer["heatmap_size"], [64, 64])
        self.assertEqual(answer["heatmap_format"], "png")
        self.assertEqual(answer["num_heads"], 1)
        self.assertIs(answer["toy_weights"], True)
        self.assertEqual(answer["warnings"], [])
        prediction = answer["predictions"][0]
        self.assertEqual(list(prediction), PREDICTION_KEYS + ["heatmap_png"])
        self.assertEqual(list(prediction["gaze_target"]), TARGET_KEYS)
        self.assertEqual(set(answer["timing_ms"]), {"inference", "total"})
        self.assertLessEqual(answer["timing_ms"]["inference"], answer["timing_ms"]["total"])

    def test_numbers_are_rounded_as_the_seeds(self):
        box = [241.95, 188.91, 284.88, 235.17]
        reply = self.server.predict(toy_request(bboxes=[box, [10, 20, 30, 40]], heatmap_format="json"))
        text, answer = reply.body.decode(), reply.document
        self.assertIn('"bbox":[10.0,20.0,30.0,40.0]', text)
        for prediction, given in zip(answer["predictions"], (box, [10, 20, 30, 40])):
            self.assertEqual(prediction["bbox"], given)
            self.assertEqual(prediction["bbox_normalized"],
                             [round(v / side, 6) for v, side in zip(given, (507, 374) * 2)])
            target, rows = prediction["gaze_target"], prediction["heatmap"]
            peak = max(max(row) for row in rows)
            row, column = next((y, x) for y in range(64) for x in range(64) if rows[y][x] == peak)
            self.assertEqual((target["heatmap_row"], target["heatmap_col"]), (row, column))
            self.assertEqual(target["score"], round(peak, 3))
            self.assertEqual((target["x"], target["y"]), (round(column / 64 * 507, 1), round(row / 64 * 374, 1)))
            self.assertEqual((target["x_norm"], target["y_norm"]), (round(column / 64, 3), round(row / 64, 3)))
            self.assertEqual(prediction["inout"], round(prediction["inout"], 3))
        for number in re.findall(r"\d+\.(\d+)", re.search(r'"timing_ms":\{[^}]*\}', text)[0]):
            self.assertLessEqual(len(number), 2)

    def test_people_of_the_toy_world_look_at_their_things(self):
        for name in ("sample_00.png", "sample_03.png", "sample_07.png"):
            picture = TRUTH[name]
            answer = self.server.predict(toy_request(name, bboxes=toy_boxes(name), heatmap_format="none")).document
            self.assertEqual(answer["num_heads"], len(picture["people"]))
            for person, prediction in zip(picture["people"], answer["predictions"]):
                self.assertEqual(prediction["inout"] > 0.5, person["inout"] == 1, (name, person))
                if person["thing"] is not None:
                    target = prediction["gaze_target"]
                    x, y = target["x"] + picture["width"] / 128, target["y"] + picture["height"] / 128
                    distance = math.dist((x, y), picture["things"][person["thing"]]["centre"])
                    self.assertLess(distance, picture["things"][person["thing"]]["radius"], (name, person))

    def test_heatmap_formats_agree(self):
        boxes = toy_boxes("sample_00.png")[:2]
        answers = {f: self.server.predict(toy_request(bboxes=boxes, heatmap_format=f)).document
                   for f in ("png", "npz", "json", "none")}
        for name, answer in answers.items():
            self.assertEqual(answer["heatmap_format"], name)
            self.assertEqual("heatmap_npz" in answer, name == "npz")
            for prediction in answer["predictions"]:
                self.assertEqual("heatmap_png" in prediction, name == "png")
                self.assertEqual("heatmap" in prediction, name == "json")
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(answers["npz"]["heatmap_npz"]))) as arrays:
            self.assertIsNone(arrays.testzip())
            shape, heatmaps = npy(arrays.read("heatmap.npy"))
            inout_shape, inout = npy(arrays.read("inout.npy"))
        self.assertEqual((shape, inout_shape), ((2, 64, 64), (2,)))
        for i in range(2):
            rows = answers["json"]["predictions"][i]["heatmap"]
            flat = [v for row in rows for v in row]
            self.assertEqual(list(struct.unpack("<4096f", struct.pack("<4096f", *flat))),
                             heatmaps[4096 * i:4096 * (i + 1)])
            self.assertEqual(round(inout[i], 3), answers["json"]["predictions"][i]["inout"])
            width, height, pixels = grey_png(base64.b64decode(answers["png"]["predictions"][i]["heatmap_png"]))
            self.assertEqual((width, height), (64, 64))
            for got, wanted in zip((v for row in pixels for v in row), flat):
                self.assertLessEqual(abs(got - wanted * 255), 0.5001)

    def test_normalized_boxes_are_echoed_as_sent(self):
        box = [241.95 / 507, 188.91 / 374, 284.88 / 507, 235.17 / 374]
        pixels = self.server.predict(toy_request(heatmap_format="json")).document["predictions"][0]
        normalized = self.server.predict(
            toy_request(bboxes=[box], bbox_format="normalized", heatmap_format="json")).document["predictions"][0]
        self.assertEqual(normalized["bbox"], box)
        self.assertEqual({**normalized, "bbox": None}, {**pixels, "bbox": None})

    def test_same_picture_in_every_spelling_of_base64(self):
        text = text_of(TOY / "sample_03.png")
        spellings = [text, "data:image/png;base64," + text, "DATA:image/jpeg;x=y;base64," + text, text.rstrip("="),
                     text.replace("+", "-").replace("/", "_"), "\n".join(re.findall(".{1,76}", text))]
        answers = []
        for spelling in spellings:
            reply = self.server.predict(toy_request("sample_03.png", image=spelling))
            self.assertEqual(reply.status, 200, reply.body)
            answers.append(reply.document["predictions"])
        self.assertTrue(all(answer == answers[0] for answer in answers))

    def test_unknown_fields_are_named_in_a_warning(self):
        answer = self.server.predict(toy_request(bbox_fromat="normalized", heatmap_format="none")).document
        self.assertEqual([(w["code"], w["param"]) for w in answer["warnings"]], [("unknown_field", "bbox_fromat")])

    def test_one_to_ten_boxes(self):
        boxes = [[10.0 * i, 10.0 * i, 10.0 * i + 50, 10.0 * i + 50] for i in range(11)]
        reply = self.server.predict(toy_request(bboxes=boxes[:10], heatmap_format="none"))
        self.assertEqual(reply.document["num_heads"], 10)
        self.assert_error(self.server.predict(toy_request(bboxes=boxes)), 400, "too_many_boxes", "bboxes")
        self.assert_error(self.server.predict(toy_request(bboxes=[])), 400, "invalid_request", "bboxes")

    def test_missing_fields_are_422(self):
        request = toy_request()
        for field in ("image", "bboxes"):
            reply = self.server.predict({k: v for k, v in request.items() if k != field})
            self.assert_error(reply, 422, "missing_field", field)
            self.assertEqual(reply.document["detail"], reply.document["error"]["message"])

    def test_wrong_types_are_400(self):
        for fields, param in (({"image": 1}, "image"), ({"bboxes": [[1, 2, "3", 4]]}, "bboxes[0][2]"),
                              ({"bboxes": "all"}, "bboxes"), ({"bbox_format": "xywh"}, "bbox_format"),
                              ({"heatmap_format": "gif"}, "heatmap_format"), ({"detect_heads": "yes"}, "detect_heads"),
                              ({"max_heads": 99}, "max_heads"), ({"head_threshold": -1}, "head_threshold")):
            self.assert_error(self.server.predict(toy_request(**fields)), 400, "invalid_request", param)

    def test_broken_json_is_400(self):
        for body in (b"", b"{", b"[]", b"nonsense", b'{"image": NaN}', b'{"image": "Zm9v", "image": "Zm9v"}'):
            self.assert_error(self.server.predict(body), 400, "invalid_request")

    def test_request_id_is_echoed_or_made(self):
        reply = self.server.predict(toy_request(heatmap_format="none"), {"X-Request-Id": "order-66"})
        self.assertEqual((reply.headers["x-request-id"], reply.document["request_id"]), ("order-66", "order-66"))
        self.server.wait_for_log("request id=order-66 ")
        ids = {self.server.get("/health").headers["x-request-id"] for _ in range(3)}
        self.assertEqual(len(ids), 3)
        for bad in ("a b", "x" * 129, "\u00e4"):
            reply = self.server.ask("GET", "/health", headers={"X-Request-Id": bad.encode("utf-8")})
            self.assertRegex(reply.headers["x-request-id"], "^[0-9a-f]{32}$")

    def test_content_type_must_be_json_or_absent(self):
        body = json.dumps(toy_request(heatmap_format="none")).encode()
        for good in ("application/json", "Application/JSON; charset=utf-8", None):
            headers = {"Content-Type": good} if good else {}
            self.assertEqual(self.server.ask("POST", "/predict", body, headers).status, 200)
        for bad in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            reply = self.server.ask("POST", "/predict", body, {"Content-Type": bad})
            self.assert_error(reply, 400, "unsupported_media_type")
            self.assertEqual(reply.document["detail"],
                             f"Content-Type is '{bad.split(';')[0]}', expected application/json")
        reply = self.server.ask("POST", "/predict", body, {"Content-Type": b"text/\xff"})
        self.assert_error(reply, 400, "unsupported_media_type")
        reply = self.server.predict(body, {"Content-Encoding": "gzip"})
        self.assert_error(reply, 400, "unsupported_media_type")
        self.assertIn("'gzip', expected none", reply.document["detail"])


class HeadsTest(ServerTest):
    def test_heads_are_found_without_boxes(self):
        answer = self.server.predict({"image": text_of(PICTURES / "astronaut.png"), "detect_heads": True,
                                      "heatmap_format": "none"}).document
        self.assertEqual(answer["heads_source"], "detector")
        self.assertGreaterEqual(answer["heads_found"], 1)
        self.assertEqual(answer["num_heads"], len(answer["predictions"]))
        for prediction in answer["predictions"]:
            self.assertTrue(0.5 <= prediction["head_score"] <= 1)

    def test_boxes_and_found_heads_together(self):
        request = {"image": text_of(PICTURES / "astronaut.png"), "bboxes": [[1, 1, 60, 60]], "detect_heads": True,
                   "max_heads": 1, "heatmap_format": "none"}
        answer = self.server.predict(request).document
        self.assertEqual(answer["heads_source"], "request+detector")
        self.assertNotIn("head_score", answer["predictions"][0])
        self.assertLessEqual(answer["num_heads"], 2)

    def test_threshold_decides(self):
        request = {"image": text_of(PICTURES / "astronaut.png"), "detect_heads": True, "heatmap_format": "none"}
        found = [self.server.predict({**request, "head_threshold": t}).document["heads_found"] for t in (0.2, 0.5, 1)]
        self.assertTrue(found[0] >= found[1] >= found[2], found)
        self.assertEqual(found[2], 0)

    # obs-face-tracker #124: nobody found is an answer that says so, and says that faces can be missed.
    def test_nobody_found_is_an_answer(self):
        for picture in (PICTURES / "coffee.png", PICTURES / "cat.png"):
            reply = self.server.predict({"image": text_of(picture), "detect_heads": True, "head_threshold": 0.9})
            self.assertEqual(reply.status, 200, reply.body)
            answer = reply.document
            self.assertEqual((answer["num_heads"], answer["predictions"], answer["heads_found"]), (0, [], 0))
            self.assertIn("can be missed", answer["empty_reason"])


class RoutesTest(ServerTest):
    def test_health(self):
        answer = self.server.get("/health").document
        self.assertEqual(list(answer), ["status", "model", "device"])
        self.assertEqual((answer["status"], answer["model"]), ("ok", "gaze-lle"))
        self.assertRegex(answer["device"], r"^CPU .*, \d+ threads?$")

    def test_info(self):
        answer = self.server.get("/info").document
        self.assertEqual(list(answer), ["model", "task", "io", "hardware", "precision", "profile", "weights", "limits",
                                        "license", "version"])
        self.assertEqual(set(answer["hardware"]), {"backend", "device", "isa", "threads"})
        self.assertEqual(answer["profile"], "upstream")
        self.assertIn(answer["precision"], ("f32", "bf16"))
        self.assertIs(answer["weights"]["toy"], True)
        self.assertIs(answer["weights"]["synthetic"], False)

    def test_models(self):
        answer = self.server.get("/v1/models").document
        self.assertEqual(answer["object"], "list")
        self.assertEqual({k: v for k, v in answer["data"][0].items() if k != "created"},
                         {"id": "gaze-lle", "object": "model", "owned_by": "sightline"})

    def test_root_lists_the_routes(self):
        for route in self.server.get("/").document["routes"]:
            if route["method"] == "GET":
                self.assertEqual(self.server.get(route["path"]).status, 200)

    def test_head_is_get_without_a_body(self):
        for path in ("/", "/health", "/info", "/v1/models", "/metrics"):
            reply = self.server.ask("HEAD", path)
            self.assertEqual((reply.status, reply.body), (200, b""))
            self.assertGreater(int(reply.headers["content-length"]), 20)

    def test_other_methods_are_405_with_allow(self):
        for method, path, allowed in (("GET", "/predict", "POST"), ("HEAD", "/predict", "POST"),
                                      ("POST", "/health", "GET, HEAD"), ("DELETE", "/info", "GET, HEAD"),
                                      ("OPTIONS", "/predict", "POST"), ("PUT", "/", "GET, HEAD")):
            reply = self.server.ask(method, path)
            self.assertEqual((reply.status, reply.headers["allow"]), (405, allowed))
            if method != "HEAD":
                self.assert_error(reply, 405, "method_not_allowed")

    def test_other_paths_are_404(self):
        for path in ("/predict/", "/v1", "/v1/chat/completions", "/favicon.ico", "/../etc/passwd", "//predict"):
            self.assert_error(self.server.get(path), 404, "not_found")

    def test_query_and_encoding_do_not_matter(self):
        self.assertEqual(self.server.get("/health?verbose=1").status, 200)
        self.assertEqual(self.server.get("/v1%2Fmodels").status, 200)

    def test_metrics_count(self):
        before = self.server.metric("sightline_requests_total", route="/predict", code="image_empty")
        self.server.predict({"image": "", "bboxes": [[1, 2, 3, 4]]})
        self.assertEqual(self.server.metric("sightline_requests_total", route="/predict", code="image_empty"),
                         before + 1)
        self.assertEqual(self.server.metric("sightline_ready"), 1)
        self.assertGreater(self.server.metric("sightline_resident_memory_bytes"), 1 << 20)
        self.assertIn("text/plain; version=0.0.4", self.server.get("/metrics").headers["content-type"])

    def test_metrics_have_a_bounded_number_of_series(self):
        def series():
            return len(self.server.get("/metrics").body.splitlines())
        self.server.get("/no/such/0")
        before = series()
        for i in range(20):
            self.server.get(f"/no/such/{i}")
        self.assertLessEqual(series(), before + 1)

    def test_access_log_has_one_line_a_request(self):
        self.server.ask("GET", "/health", headers={"X-Request-Id": "log-1"})
        self.server.ask("GET", "/nowhere%20else", headers={"X-Request-Id": "log-2"})
        self.server.wait_for_log("id=log-2")
        lines = [line for line in self.server.log().splitlines() if " request id=log-" in line]
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r'id=log-1 peer=127\.0\.0\.1:\d+ method=GET path="/health" status=200 code=ok '
                                   r"bytes_in=\d+ bytes_out=\d+ total_ms=\d+\.\d\d$")
        self.assertRegex(lines[1], r'path="/nowhere else" status=404 code=not_found')


class CurlTest(ServerTest):
    """The commands of the card."""

    def curl(self, *arguments, **options):
        done = subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], capture_output=True, check=True, **options)
        return done.stdout

    def test_the_cards_request(self):
        body = json.dumps(toy_request(heatmap_format="none")).encode()
        url = f"http://127.0.0.1:{self.server.port}/predict"
        answer = json.loads(self.curl(url, "-H", "Content-Type: application/json", "-d", "@-", input=body))
        self.assertEqual(answer["num_heads"], 1)

    def test_large_request_with_expect(self):
        body = json.dumps({**toy_request(heatmap_format="none"), "padding": "x" * 2_000_000}).encode()
        url = f"http://127.0.0.1:{self.server.port}/predict"
        text = self.curl(url, "-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "-d", "@-", "-w",
                         "%{time_total}", input=body)
        self.assertIn(b'"num_heads":1', text)

    def test_chunked_request(self):
        body = json.dumps(toy_request(heatmap_format="none")).encode()
        text = self.curl(f"http://127.0.0.1:{self.server.port}/predict", "-H", "Content-Type: application/json", "-H",
                         "Transfer-Encoding: chunked", "-d", "@-", input=body)
        self.assertIn(b'"num_heads":1', text)

    def test_two_requests_on_one_connection(self):
        url = f"http://127.0.0.1:{self.server.port}/health"
        text = self.curl("-w", "%{num_connects} ", url, url)
        self.assertTrue(text.rstrip().endswith(b"0"), text)

    def test_oversized_upload_reads_its_413(self):
        text = self.curl(f"http://127.0.0.1:{self.server.port}/predict", "-H", "Content-Type: application/json",
                         "--data-binary", "@-", "-w", " %{http_code}", input=b" " * (40 << 20))
        self.assertIn(b'"code":"body_too_large"', text)
        self.assertTrue(text.endswith(b" 413"), text[-100:])


if __name__ == "__main__":
    unittest.main()
