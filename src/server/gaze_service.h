// The gaze server's own part: what POST /predict asks and answers.
#pragma once

#include <memory>

#include "pipeline/pipeline.h"
#include "server/server.h"
#include "server/service.h"

namespace sightline {

class GazeService : public Service {
 public:
  explicit GazeService(const GazeServerOptions& options);
  ~GazeService() override { FinishWork(); }

  // From here on requests are answered. The engine must live until FinishWork has returned.
  void SetEngine(GazeEngine& engine);

 private:
  struct Question;

  void Predict(std::shared_ptr<Call> call) override;
  Result<GazeRequest> Read(Call& call, Question* question) const;
  Answered Write(GazeAnswer answer, const Question& question) const;

  const GazeServerOptions options_;
  GazeEngine* gaze_ = nullptr;  // set before requests are let in
};

}  // namespace sightline
