// The readers of published programs: any text is read to its end, and what evaluation takes lies in the picture.
#include <cstdlib>

#include "pipeline/pipeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sightline;
  constexpr int kWidth = 640, kHeight = 480;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const WorkerReading worker = ReadLikeWorker(text, kWidth, kHeight);
  const PortReading port = ReadLikePort(text, kWidth, kHeight);
  // The port reads labels too, so that a box inside a label is the worker's alone.
  if (port.detections.size() > worker.boxes.size() || port.points.size() > worker.points.size()) std::abort();
  for (const EvaluationTask task : {EvaluationTask::kDetection, EvaluationTask::kGrounding}) {
    for (const EvaluationLabel& label : ReadLikeEvaluation(text, kWidth, kHeight, task)) {
      for (const auto& place : label.places) {
        if (place.size() != 2 && place.size() != 4) std::abort();
        for (size_t i = 0; i < place.size(); ++i) {
          if (!(place[i] >= 0 && place[i] < (i % 2 == 0 ? kWidth : kHeight))) std::abort();
        }
      }
    }
  }
  return 0;
}
