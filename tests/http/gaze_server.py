"""A running `sightline serve gaze-lle`, and questions about the toy's pictures."""
import json

from running_server import (AWKWARD, BINARY, JSON_TYPE, PICTURES, ROOT, SECONDS, Server, ask_on, raw_predict,
                            read_status, seeded, text_of, without_times)
from running_server import ServerTest as AnyServerTest

__all__ = ["AWKWARD", "BINARY", "JSON_TYPE", "PICTURES", "SECONDS", "TOY", "TRUTH", "GazeServer", "ServerTest", "ask_on",
           "random_request", "raw_predict", "read_status", "seeded", "text_of", "toy_boxes", "toy_request",
           "without_times"]

TOY = ROOT / "assets" / "toy"
TRUTH = {picture["file"]: picture for picture in json.loads((TOY / "truth.json").read_text())["pictures"]}


def toy_request(name="sample_00.png", **fields):
    """A valid request about one of the toy's pictures, its first head."""
    return {"image": text_of(TOY / name), "bboxes": [toy_boxes(name)[0]], **fields}


def toy_boxes(name):
    return [person["box"] for person in TRUTH[name]["people"]]


def random_request(generator):
    """A valid request about one of the toy's pictures: a head or near-head, sometimes two, any format."""
    name = generator.choice(sorted(TRUTH))
    width, height = TRUTH[name]["width"], TRUTH[name]["height"]
    boxes = []
    for _ in range(generator.choice([1, 1, 1, 1, 1, 1, 2])):
        x1, y1, x2, y2 = generator.choice(toy_boxes(name))
        jitter = [generator.uniform(-5, 5) for _ in range(4)]
        box = [max(0, x1 + jitter[0]), max(0, y1 + jitter[1]), min(width, x2 + jitter[2]), min(height, y2 + jitter[3])]
        boxes.append([round(value, 2) for value in box])
    request = {"image": text_of(TOY / name), "bboxes": boxes}
    if generator.random() < 0.3:
        request["bbox_format"] = "normalized"
        request["bboxes"] = [[a / width, b / height, c / width, d / height] for a, b, c, d in boxes]
    if generator.random() < 0.8:
        request["heatmap_format"] = generator.choice(["png", "npz", "json", "none"])
    return request


class GazeServer(Server):
    model = "gaze-lle"

    def __init__(self, *arguments, weights="--toy", **more):
        super().__init__(*arguments, weights=[weights], **more)


class ServerTest(AnyServerTest):
    start = GazeServer

    def assert_answers(self):
        """The server still gives a right answer."""
        reply = self.server.predict(toy_request(heatmap_format="none"))
        self.assertEqual(reply.status, 200, reply.body)
