"""Head boxes: what users of other servers reported (field reports 29, 31, 32)."""
import unittest

from gaze_server import PICTURES, ServerTest, text_of, toy_request


class BoxesTest(ServerTest):
    def ask(self, box, **fields):
        return self.server.predict(toy_request(bboxes=[box], heatmap_format="none", **fields))

    # inselect #461
    def test_box_partly_outside_is_clipped_with_a_warning(self):
        answer = self.ask([-0.2, 0.1, 1.3, 0.5], bbox_format="normalized").document
        self.assertEqual(answer["predictions"][0]["bbox"], [-0.2, 0.1, 1.3, 0.5])
        self.assertEqual(answer["predictions"][0]["bbox_normalized"], [0.0, 0.1, 1.0, 0.5])
        self.assertEqual([(w["code"], w["param"]) for w in answer["warnings"]], [("box_clipped", "bboxes[0]")])

    def test_box_wholly_outside_is_refused(self):
        for box in ([600, 10, 700, 50], [-50, -50, -10, -10], [1e307, 1e307, 1e308, 1e308]):
            self.assert_error(self.ask(box), 400, "box_outside", "bboxes[0]")

    # fkryan/gazelle: a pixel box taken for a normalised one gave an empty head map without a word.
    def test_units_must_fit(self):
        reply = self.server.predict({"image": text_of(PICTURES / "astronaut.png"), "bboxes": [[152, 14, 302, 192]],
                                     "bbox_format": "normalized"})
        self.assert_error(reply, 400, "units_mismatch", "bboxes[0]", "values > 1")
        self.assert_error(self.ask([0.2, 0.1, 0.4, 0.3]), 400, "units_mismatch", "bboxes[0]")
        reply = self.server.predict({"image": text_of(PICTURES / "astronaut.png"), "bboxes": [[152, 14, 302, 192]],
                                     "heatmap_format": "none"})
        self.assertEqual(reply.status, 200)

    def test_inverted_and_empty_boxes_are_refused(self):
        for box in ([.4, .1, .2, .4], [.1, .4, .2, .1], [.1, .1, .1, .4]):
            self.assert_error(self.ask(box, bbox_format="normalized"), 400, "invalid_box", "bboxes[0]")

    def test_numbers_that_are_none_are_refused(self):
        for number in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"null", b'"1"', b"0x10", b"01", b"1."):
            body = b'{"image": "Zm9v", "bboxes": [[' + number + b", 1, 2, 3]]}"
            self.assert_error(self.server.predict(body), 400, "invalid_request")

    def test_tiny_box_marks_one_cell_with_a_warning(self):
        answer = self.ask([.3, .3, .301, .301], bbox_format="normalized").document
        self.assertEqual([w["code"] for w in answer["warnings"]], ["box_widened"])

    def test_the_bad_box_of_several_is_named(self):
        reply = self.server.predict(toy_request(bboxes=[[10, 10, 50, 50], [20, 20, 60, 60], [70, 70, 30, 30]]))
        self.assert_error(reply, 400, "invalid_box", "bboxes[2]")


if __name__ == "__main__":
    unittest.main()
