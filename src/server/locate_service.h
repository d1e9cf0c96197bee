// The LocateAnything server's own part: what POST /predict asks and answers.
#pragma once

#include <memory>

#include "pipeline/pipeline.h"
#include "server/locate_settings.h"
#include "server/server.h"
#include "server/service.h"

namespace sightline {

class LocateService : public Service {
 public:
  LocateService(const LocateServerOptions& options, const LocateSettings& settings);
  ~LocateService() override { FinishWork(); }

  // From here on requests are answered. The engine must live until FinishWork has returned.
  void SetEngine(LocateEngine& engine);

 private:
  struct Question;

  void Predict(std::shared_ptr<Call> call) override;
  Result<LocateRequest> Read(Call& call, Question* question) const;
  Status ReadPictures(const std::vector<std::vector<std::byte>>& files, LocateRequest* request,
                      Question* question) const;
  Answered Write(LocateAnswer answer, Question& question) const;

  const LocateServerOptions options_;
  const LocateSettings settings_;
  LocateEngine* locate_ = nullptr;  // set before requests are let in
};

}  // namespace sightline
