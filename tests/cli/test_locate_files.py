"""Files of LocateAnything: synthetic folders, the tokenizer, the language model by itself."""
import json
import struct

from sightline_program import ProgramTest, ROOT

TOKENIZER = ("vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json", "special_tokens_map.json")


def header_of(path):
    """Name -> description of each tensor of a safetensors file."""
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


class Synth(ProgramTest):
    def test_writes_the_official_layout(self):
        done = self.run_program("synth", "locate-anything", "--seed", "3", "--out", "new/tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, b"new/tiny\n")
        self.assertIn(b"synthetic", done.stderr)
        folder = self.scratch / "new" / "tiny"
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         sorted(TOKENIZER + ("config.json", "generation_config.json", "model.safetensors.index.json",
                                             "model-00001-of-00001.safetensors", "preprocessor_config.json",
                                             "processor_config.json")))
        header = header_of(folder / "model-00001-of-00001.safetensors")
        self.assertEqual(header["__metadata__"], {"format": "pt", "note": "synthetic weights"})
        self.assertEqual(header["language_model.lm_head.weight"]["shape"], [152681, 256])
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(header) - {"__metadata__"})

    def test_takes_another_tokenizer(self):
        folder = self.scratch / "tokenizer"
        folder.mkdir()
        for name in TOKENIZER[:3]:
            (folder / name).write_bytes((ROOT / "assets" / "tokenizer" / name).read_bytes())
        (folder / "tokenizer_config.json").write_text('{"mine": 1}')
        document = self.document_of("synth", "locate-anything", "--size", "puppet", "--out", "p", "--tokenizer", folder)
        self.assertEqual(document, {"folder": "p", "synthetic_weights": True})
        self.assertEqual((self.scratch / "p" / "tokenizer_config.json").read_text(), '{"mine": 1}')
        (folder / "merges.txt").unlink()
        self.assert_fails(3, "merges.txt", "synth", "locate-anything", "--out", "q", "--tokenizer", folder)

    def test_refusals(self):
        self.assert_fails(2, "--size is 'vitb14', expected one of tiny, full, puppet for locate-anything", "synth",
                          "locate-anything", "--size", "vitb14", "--out", "x")
        self.assert_fails(2, "--size is 'full', expected one of tiny, vitb14, vitl14 for gaze-lle", "synth",
                          "gaze-lle", "--size", "full", "--out", "x")
        self.assert_fails(2, "--no-inout does not belong to locate-anything", "synth", "locate-anything", "--no-inout",
                          "--out", "x")
        self.assert_fails(2, "--tokenizer does not belong to gaze-lle", "synth", "gaze-lle", "--tokenizer", "y",
                          "--out", "x")


class Tokenize(ProgramTest):
    def test_prints_ids(self):
        self.assertEqual(self.output_of("tokenize", "person</c>car</c>bicycle.", "--added-tokens"),
                         "8987 152680 6918 152680 65 26165 13\n")
        self.assertNotIn("152680", self.output_of("tokenize", "person</c>car"))
        self.assertEqual(self.output_of("tokenize", "-", input="e\u0301".encode()), "963\n")
        for text in ('"quoted"', "[a,b]", "a\\nb", "%s", " ", "\u4e2d\U0001F600"):
            self.assertEqual(self.document_of("tokenize", text)["text"], text)
        self.assertEqual(self.document_of("tokenize", "-", input=b"--json")["text"], "--json")
        self.assertEqual(self.output_of("tokenize", "--", "-foo"), "12 7975\n")
        self.assertEqual(self.output_of("tokenize", "--", "--json"), "313 2236\n")

    def test_json_has_the_text_of_each_token(self):
        self.assertEqual(self.document_of("tokenize", "a<box>", "--added-tokens"),
                         {"token_ids": [64, 151668], "tokens": ["a", "<box>"], "text": "a<box>"})

    def test_takes_the_tokenizer_of_a_folder(self):
        folder = ROOT / "assets" / "tokenizer"
        self.assertEqual(self.output_of("tokenize", "None", "--weights", folder), "4064\n")

    def test_refusals(self):
        self.assert_fails(2, "TEXT is missing", "tokenize")
        self.assert_fails(3, "vocab.json", "tokenize", "a", "--weights", "no-such")
        self.assert_fails(2, "'-foo' is not understood here; an argument that begins with - goes behind --", "tokenize",
                          "-foo")
        self.assert_fails(2, "text is not UTF-8 at byte 1", "tokenize", "-", input=b"a\xff")


class ExtractLlm(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls().run_program("synth", "locate-anything", "--out", "tiny")
        assert done.returncode == 0, done.stderr

    def extract(self, *arguments):
        return self.document_of("extract-llm", "--weights", "tiny", "--out", "llm", *arguments)

    def test_is_a_plain_qwen2_folder(self):
        self.assertEqual(self.extract("--force"), {"folder": "llm", "kept": False})
        folder = self.scratch / "llm"
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["Qwen2ForCausalLM"])
        self.assertEqual((config["model_type"], config["tie_word_embeddings"], config["hidden_size"]),
                         ("qwen2", True, 256))
        self.assertNotIn("block_size", config)
        self.assertNotIn("auto_map", (folder / "tokenizer_config.json").read_text())
        self.assertEqual((folder / "merges.txt").read_bytes(), (self.scratch / "tiny" / "merges.txt").read_bytes())
        extracted, whole = header_of(folder / "model.safetensors"), header_of(
            self.scratch / "tiny" / "model-00001-of-00001.safetensors")
        self.assertEqual({"language_model." + name for name in extracted if name != "__metadata__"},
                         {name for name in whole if name.startswith("language_model.model.")})
        name = "model.layers.1.mlp.up_proj.weight"
        self.assertEqual(self.bytes_of(folder / "model.safetensors", name),
                         self.bytes_of(self.scratch / "tiny" / "model-00001-of-00001.safetensors",
                                       "language_model." + name))

    @staticmethod
    def bytes_of(path, name):
        data = path.read_bytes()
        begin, end = header_of(path)[name]["data_offsets"]
        start = 8 + struct.unpack("<Q", data[:8])[0]
        return data[start + begin:start + end]

    def test_keeps_what_is_complete(self):
        self.extract("--force")
        weights = self.scratch / "llm" / "model.safetensors"
        before = weights.stat().st_mtime_ns
        self.assertEqual(self.extract(), {"folder": "llm", "kept": True})
        self.assertEqual(weights.stat().st_mtime_ns, before)
        weights.unlink()  # as after a run that was killed
        self.assertIs(self.extract()["kept"], False)
        weights.write_bytes(weights.read_bytes()[:-1])
        self.assert_fails(2, "--force replaces them", "extract-llm", "--weights", "tiny", "--out", "llm")

    def test_refusals(self):
        self.assert_fails(2, "--weights is missing", "extract-llm", "--out", "x")
        self.assert_fails(2, "--out is missing", "extract-llm", "--weights", "tiny")
        self.assert_fails(2, "tiny is the model's own folder", "extract-llm", "--weights", "tiny", "--out", "tiny")
        self.assert_fails(3, "no-such", "extract-llm", "--weights", "no-such", "--out", "x")
