"""Requests that are wrong by accident or on purpose."""
import json
import os
import unittest

from gaze_server import AWKWARD, ServerTest, raw_predict, read_status, seeded, text_of, toy_request

SMALL = {"image": text_of(AWKWARD / "gray.jpg"), "bboxes": [[10, 10, 60, 50]], "heatmap_format": "none"}


def mutated(generator):
    """The raw bytes of a valid request with something wrong in its JSON, its fields, its picture or its head."""
    request = dict(SMALL)
    kind = generator.randrange(8)
    if kind == 0:  # a field gone
        del request[generator.choice(["image", "bboxes"])]
    elif kind == 1:  # a field of another type or range
        field, value = generator.choice([
            ("image", 5), ("image", None), ("image", ["x"]), ("image", "?" * generator.randrange(1, 99)),
            ("image", "data:image/png," + SMALL["image"]), ("image", "http://127.0.0.1/x.png"),
            ("bboxes", 7), ("bboxes", [[]]), ("bboxes", [[1, 2, 3]]), ("bboxes", [["a", 1, 2, 3]]), ("bboxes", {}),
            ("bboxes", [[30, 30, 10, 10]]), ("bboxes", [[1e9, 1, 2e9, 2]]), ("bboxes", [[1, 1, 9, 9]] * 11),
            ("bbox_format", "xywh"), ("bbox_format", "normalized"), ("bbox_format", 3), ("heatmap_format", "svg"),
            ("detect_heads", 1), ("max_heads", -1), ("head_threshold", 7)])
        request[field] = value
    elif kind == 2:  # a cut or damaged picture
        text = request["image"]
        request["image"] = text[:generator.randrange(len(text) // 2)]
    body = json.dumps(request).encode()
    if kind == 3:  # cut JSON
        body = body[:generator.randrange(len(body))]
    elif kind == 4:  # bytes that are not UTF-8, or not JSON
        at = generator.randrange(len(body))
        body = body[:at] + generator.choice([b"\xff", b"\xc0\xaf", b"\x00", b"\xed\xa0\x80"]) + body[at:]
    elif kind == 5:  # noise
        body = generator.randbytes(generator.randrange(500))
    elif kind == 6:  # deep or wide
        body = generator.choice([b"[" * 5000, b'{"a":' * 5000, b'{"image":"' + b"A" * 50000,
                                 b"{" + b",".join(b'"%d":0' % i for i in range(500)) + b"}"])
    data = raw_predict(body)
    if kind == 7:  # a wrong head
        old, new = generator.choice([
            (b"HTTP/1.1", b"HTTP/9.9"), (b"Host: x\r\n", b""), (b"Host: x\r\n", b"Host: x\r\nHost: y\r\n"),
            (b"application/json", b"text/xml"), (b"Content-Length: ", b"Content-Length: -"),
            (b"Content-Length: ", b"Transfer-Encoding: chunked\r\nContent-Length: "), (b"Host: x", b"Host : x"),
            (b"\r\nHost", b"\nHost"), (b"POST /predict", b"POST /predict%0"), (b"Host: x", b"Host: x\r\n fold"),
            (b"Content-Length: ", b"Content-Length: 99999999")])
        data = data.replace(old, new, 1)
    return data


class MalformedTest(ServerTest):
    def test_a_thousand_malformed_requests(self):
        generator = seeded(7)
        self.assert_answers()
        statuses = {}

        def send(count):
            for _ in range(count):
                data = mutated(generator)
                with self.server.socket() as connection:
                    connection.sendall(data)
                    status = read_status(connection)
                statuses[status] = statuses.get(status, 0) + 1
                self.assertIsNotNone(status, data[:300])
                self.assertTrue(400 <= status < 500, (status, data[:300]))
        send(300)
        before = self.server.private_memory()
        send(700)
        self.assertLess(self.server.private_memory() - before, 4 << 20)
        self.assertEqual(sum(statuses.values()), 1000)
        self.assertGreaterEqual(len(statuses), 3, statuses)
        self.assert_answers()

    # ollama #18106, llama.cpp #27725: a slow leak. SIGHTLINE_LONG=1 asks as often as the report says.
    def test_memory_does_not_grow_with_answers(self):
        rounds = 2000 if os.environ.get("SIGHTLINE_LONG") else 40
        pictures = [text_of(AWKWARD / name) for name in ("gray.jpg", "lossy.webp", "palette.png", "exif_6.jpg")]

        def ask(count):
            for i in range(count):
                request = {**SMALL, "image": pictures[i % 4], "heatmap_format": ("png", "npz", "json", "none")[i % 4]}
                self.assertEqual(self.server.predict(request).status, 200)
        ask(rounds // 2)
        before = self.server.private_memory()
        ask(rounds)
        self.assertLess(self.server.private_memory() - before, 4 << 20)

    # llama.cpp #6396
    def test_other_encodings_are_named(self):
        body = json.dumps(SMALL).encode()[:-1] + b', "note": "\xb0\xa1"}'
        reply = self.server.predict(body)
        self.assert_error(reply, 400, "invalid_utf8", says=f"byte {body.index(0xb0)}")

    # openedai-vision #4, freebuff PR 978
    def test_double_data_uri_is_named(self):
        twice = "data:image/png;base64,data:image/png;base64," + SMALL["image"]
        self.assert_error(self.server.predict({**SMALL, "image": twice}), 400, "invalid_base64", "image", "second data URI")

    def test_urls_and_paths_are_never_opened(self):
        for text, code in (("http://127.0.0.1:1/a.png", "image_url_not_allowed"),
                           ("file:///etc/passwd", "image_url_not_allowed"), ("/etc/passwd!", "invalid_base64")):
            self.assert_error(self.server.predict({**SMALL, "image": text}), 400, code, "image")


class SmugglingTest(ServerTest):
    """Whatever two programs could read differently ends the connection: no second answer comes."""

    HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"

    def test_ambiguous_lengths(self):
        start = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        for fields in (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                       b"Content-Length: 4\r\nContent-Length: 40\r\n", b"Content-Length: 4, 40\r\n",
                       b"Content-Length: 4\r\n\x20Content-Length: 40\r\n", b"Content-Length : 4\r\n",
                       b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
                       b"Transfer-Encoding:\x0bchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
                       b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
                       b"X: y\nTransfer-Encoding: chunked\r\n", b"Content-Length: 0x4\r\n", b"Content-Length: +4\r\n"):
            with self.subTest(fields), self.server.socket() as connection:
                connection.sendall(start + fields + b"\r\n0\r\n\r\n" + self.HIDDEN)
                answers = self.read_all(connection)
                self.assertEqual(answers.count(b"HTTP/1.1 "), 1, answers)
                self.assertTrue(answers.startswith(b"HTTP/1.1 400 "), answers)
        self.assertEqual(self.server.metric("sightline_requests_total", route="other", code="not_found"), 0)

    def test_bad_chunks(self):
        start = (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n")
        for chunks in (b"zz\r\n", b"-1\r\n", b"5\r\nabcdefgh\r\n", b"fffffffffffffffff\r\n", b"5;\x00\r\nabcde\r\n"):
            with self.subTest(chunks), self.server.socket() as connection:
                connection.sendall(start + chunks + b"0\r\n\r\n" + self.HIDDEN)
                answers = self.read_all(connection)
                self.assertEqual(answers.count(b"HTTP/1.1 "), 1, answers)
                self.assertTrue(answers.startswith(b"HTTP/1.1 400 "), answers)

    def test_huge_announcements_are_413_unread(self):
        for length in (b"33554433", b"3000000000", b"9223372036854775807"):
            with self.server.socket() as connection:
                connection.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: " + length + b"\r\n\r\n")
                self.assertEqual(read_status(connection), 413)

    def test_long_heads_are_431(self):
        self.assertEqual(self.server.send(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40000 + b"\r\n\r\n"), 431)
        self.assertEqual(self.server.send(b"GET /" + b"x" * 40000), 431)

    # triton #4244: fields of a protocol that we do not speak change nothing.
    def test_binary_extension_headers_are_ignored(self):
        for value in ("0", "-1", "99999999999"):
            reply = self.server.predict(SMALL, {"Inference-Header-Content-Length": value})
            self.assertEqual(reply.status, 200, reply.body)

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.socket() as connection:
            connection.sendall(raw_predict(SMALL) + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answers = self.read_all(connection)
        self.assertEqual(answers.count(b"HTTP/1.1 200 OK"), 2)
        self.assertLess(answers.index(b'"predictions"'), answers.index(b'"status"'))

    def read_all(self, connection):
        data = b""
        while part := connection.recv(65536):
            data += part
        return data


if __name__ == "__main__":
    unittest.main()
