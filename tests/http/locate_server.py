"""A running `sightline serve locate-anything` with weights that answer by script, and questions to it.

The puppet (`sightline synth locate-anything --size puppet`) looks at no picture: car is answered with one box, person
with two, dog with a point, cat with None, everything else with None."""
import atexit
import functools
import pathlib
import shutil
import subprocess
import tempfile

from running_server import BINARY, ROOT, Server, ServerTest, text_of

CAR = [282, 414, 607, 797]
PICTURE = ROOT / "assets" / "car.png"  # 616 x 336
WIDTH, HEIGHT = 616, 336


@functools.cache
def weights_of(size):
    """A folder of synthetic weights, made once and removed at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sightline-weights-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([BINARY, "synth", "locate-anything", "--size", size, "--seed", "1", "--out", folder / size],
                   check=True, capture_output=True)
    return folder / size


def question(query="car", picture=PICTURE, **fields):
    return {"image": text_of(picture), "query": query, **fields}


class LocateServer(Server):
    model = "locate-anything"

    def __init__(self, *arguments, weights=None, **more):
        super().__init__(*arguments, weights=["--weights", weights or weights_of("puppet")], **more)


class LocateServerTest(ServerTest):
    start = LocateServer

    def answer(self, request):
        reply = self.server.predict(request)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.document

    def assert_answers(self):
        """The server still gives a right answer."""
        self.assertEqual(self.answer(question())["detections"][0]["box_norm"], CAR)
