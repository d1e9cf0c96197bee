"""One peer in a process of its own. Started by `run`; speaks JSON lines.

peer.py export FOLDER            writes FOLDER/vit.onnx and FOLDER/expected.npy, then ends
peer.py NAME FOLDER THREADS      loads, warms up, says {"ready": ...} or {"missing": ...}, then for every line
                                 {"passes": K, "seconds": S} measures up to K passes, no new one after S seconds,
                                 and says {"times_ms": [...]}
"""

import json
import os
import sys
import time

import numpy as np


class Torch:
    def __init__(self, folder, threads, precision, compiled):
        import torch
        import vit

        torch.set_num_threads(threads)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.torch, self.version = torch, torch.__version__
        self.model = vit.random_backbone().to(dtype)
        self.image = vit.random_image().to(dtype)
        if compiled:
            import torch._inductor.config as inductor

            inductor.freezing = True
            self.model = torch.compile(self.model)

    def run(self):
        with self.torch.no_grad():
            return self.model(self.image).float().numpy()

    def note(self):
        return ""


class OnnxRuntime:
    def __init__(self, folder, threads):
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(
            os.path.join(folder, "vit.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self.image = np.load(os.path.join(folder, "image.npy"))

    def run(self):
        return self.session.run(None, {"image": self.image})[0]

    def note(self):
        return ""


class OpenVino:
    def __init__(self, folder, threads, precision):
        import openvino

        self.version = openvino.__version__.split("-")[0]
        self.compiled = openvino.Core().compile_model(
            os.path.join(folder, "vit.onnx"),
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": threads,
                "INFERENCE_PRECISION_HINT": precision,
            },
        )
        self.request = self.compiled.create_infer_request()
        self.image = np.load(os.path.join(folder, "image.npy"))
        self.asked = precision

    def run(self):
        return next(iter(self.request.infer({"image": self.image}).values()))

    def note(self):
        used = self.compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        return "" if used == self.asked else f"computes in {used}"


PEERS = {
    "onnxruntime f32": lambda folder, threads: OnnxRuntime(folder, threads),
    "openvino f32": lambda folder, threads: OpenVino(folder, threads, "f32"),
    "openvino bf16": lambda folder, threads: OpenVino(folder, threads, "bf16"),
    "torch f32": lambda folder, threads: Torch(folder, threads, "f32", False),
    "torch f32 compiled": lambda folder, threads: Torch(folder, threads, "f32", True),
    "torch bf16": lambda folder, threads: Torch(folder, threads, "bf16", False),
    "torch bf16 compiled": lambda folder, threads: Torch(folder, threads, "bf16", True),
}


def export(folder):
    """The model file that the peers without torch read, its input, and what every peer must compute."""
    import torch
    import vit

    backbone, image = vit.random_backbone(), vit.random_image()
    torch.onnx.export(
        backbone,
        (image,),
        os.path.join(folder, "vit.onnx"),
        input_names=["image"],
        output_names=["tokens"],
        opset_version=17,
        dynamo=False,
    )
    np.save(os.path.join(folder, "image.npy"), image.numpy())
    np.save(os.path.join(folder, "expected.npy"), backbone(image).numpy())


def correlation(a, b):
    return float(np.corrcoef(a.ravel().astype(np.float64), b.ravel().astype(np.float64))[0, 1])


def say(message):
    print(json.dumps(message), file=CHANNEL, flush=True)


def measure(peer, passes, seconds):
    times = []
    start = time.perf_counter()
    while len(times) < passes and (not times or time.perf_counter() - start < seconds):
        before = time.perf_counter()
        peer.run()
        times.append((time.perf_counter() - before) * 1e3)
    return times


def serve(name, folder, threads):
    try:
        peer = PEERS[name](folder, threads)
        tokens = peer.run()  # compiles, too
        peer.run()
    except ImportError as error:
        return say({"missing": f"not installed ({error})"})
    except Exception as error:  # a peer that fails is reported and skipped, whatever its reason
        return say({"missing": f"failed: {str(error).strip().splitlines()[0] if str(error).strip() else type(error)}"})
    expected = np.load(os.path.join(folder, "expected.npy"))
    say({"ready": {"version": peer.version, "note": peer.note(), "pcc": correlation(tokens, expected)}})
    for line in sys.stdin:
        request = json.loads(line)
        say({"times_ms": measure(peer, request["passes"], request["seconds"])})


if __name__ == "__main__":
    # Libraries print to standard output as they like; the answers go to a copy of it.
    CHANNEL = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if sys.argv[1] == "export":
        export(sys.argv[2])
    else:
        serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
