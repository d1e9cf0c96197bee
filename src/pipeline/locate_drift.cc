#include <algorithm>
#include <cmath>

#include "pipeline/iou.h"
#include "pipeline/locate_picture.h"
#include "pipeline/packed_cache.h"
#include "pipeline/pipeline.h"

namespace sightline {
namespace {

constexpr int kWidth = 640, kHeight = 480;
constexpr int64_t kTokenLimit = 256;

// What one network says about one picture.
struct Run {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // the reference's, token by token
  std::vector<float> logits;    // of every row of `answer`, [rows, vocabulary]
  std::vector<Box> boxes;       // of the network's own answer
};

class Network {
 public:
  static Result<std::unique_ptr<Network>> Open(const LocateWeights& weights, LocatePrecision precision,
                                               const LocateDriftOptions& options) {
    SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
    auto network = std::make_unique<Network>();
    network->backend_ = MakeCpuBackend({.threads = options.threads, .isa = isa});
    SIGHTLINE_ASSIGN_OR_RETURN(network->tokenizer_, Tokenizer::Open(weights.folder));
    std::vector<std::string> warnings;
    SIGHTLINE_ASSIGN_OR_RETURN(
        network->model_, LocateAnything::Load(*network->backend_, weights.folder, precision, CacheFolderOrMemory(),
                                              &warnings, options.packing));
    return network;
  }

  // Fills what `run` lacks: prompt and answer of a first network, logits and boxes of any.
  Status Answer(int picture, int64_t tokens, Run* run) {
    const Image image{kWidth, kHeight, SyntheticRgb(static_cast<uint64_t>(picture) + 1, kWidth, kHeight)};
    SIGHTLINE_ASSIGN_OR_RETURN(const LocatePicture seen,
                               PrepareLocatePicture(image, {.token_limit = kTokenLimit, .grid = {}}, "picture"));
    SIGHTLINE_ASSIGN_OR_RETURN(std::vector<float> rows, model_->Encode(seen.patches, seen.grid));
    rows_ = std::make_shared<const std::vector<float>>(std::move(rows));
    if (run->prompt.empty()) {
      const std::vector<int64_t> picture_tokens{seen.grid.tokens()};
      LocateQuestion question;
      question.query = {"car", "person"};
      SIGHTLINE_ASSIGN_OR_RETURN(const LocatePrompt prompt,
                                 MakeLocatePrompt(*tokenizer_, model_->config().tokens, question, picture_tokens));
      run->prompt = prompt.ids;
      SIGHTLINE_ASSIGN_OR_RETURN(run->answer, Generated(*run, DecodingMode::kSlow, tokens));
    }
    SIGHTLINE_ASSIGN_OR_RETURN(const std::vector<TokenId> own, Generated(*run, DecodingMode::kHybrid, tokens));
    run->boxes = BoxesOf(own);
    return ReadLogits(run);
  }

 private:
  std::unique_ptr<LocateAnything::Session> NewSession(int64_t capacity) {
    auto session = model_->NewSession(capacity);
    session->SetImages(rows_);
    return session;
  }

  Result<std::vector<TokenId>> Generated(const Run& run, DecodingMode mode, int64_t tokens) {
    GenerationOptions options;
    options.mode = mode;
    options.max_new_tokens = tokens;
    options.tokens = model_->config().tokens;
    const auto session = NewSession(static_cast<int64_t>(run.prompt.size()) + tokens + 2 * kWindow);
    SIGHTLINE_ASSIGN_OR_RETURN(Generation generation, Generate(*session, run.prompt, options));
    return std::move(generation.ids);
  }

  std::vector<Box> BoxesOf(const std::vector<TokenId>& ids) const {
    const std::vector<double> probabilities(ids.size(), 1.0);
    const std::vector<std::string> categories{"car", "person"};
    const LocateReading reading =
        ReadLocateAnswer(*tokenizer_, model_->config().tokens, ids, probabilities, categories);
    std::vector<Box> boxes;
    for (const LocateFinding& finding : reading.findings) {
      if (finding.kind == LocateFinding::Kind::kBox) boxes.push_back(finding.normalized);
    }
    return boxes;
  }

  Status ReadLogits(Run* run) {
    std::vector<TokenId> all = run->prompt;
    all.insert(all.end(), run->answer.begin(), run->answer.end() - 1);
    const auto session = NewSession(static_cast<int64_t>(all.size()));
    return session->Forward({.ids = all, .logit_rows = static_cast<int64_t>(run->answer.size())}, {}, &run->logits);
  }

  std::unique_ptr<Backend> backend_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<LocateAnything> model_;
  std::shared_ptr<const std::vector<float>> rows_;
};

double Correlation(std::span<const float> a, std::span<const float> b) {
  double mean_a = 0, mean_b = 0;
  for (size_t i = 0; i < a.size(); ++i) mean_a += a[i], mean_b += b[i];
  mean_a /= static_cast<double>(a.size()), mean_b /= static_cast<double>(b.size());
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

// Sums; divided at the end.
void Add(const Run& reference, const Run& other, LocateDrift* drift) {
  const size_t rows = reference.answer.size(), vocabulary = reference.logits.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const auto a = std::span(reference.logits).subspan(row * vocabulary, vocabulary);
    const auto b = std::span(other.logits).subspan(row * vocabulary, vocabulary);
    drift->top1_agreement += std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin();
    drift->correlation += Correlation(a, b);
  }
  drift->rows += static_cast<int64_t>(rows);
  for (size_t i = 0; i < reference.boxes.size(); ++i) {
    ++drift->boxes;
    if (i < other.boxes.size()) drift->mean_iou += Iou(reference.boxes[i], other.boxes[i]);
  }
}

}  // namespace

Result<LocateDrift> MeasureLocateDrift(const LocateWeights& weights, const LocateDriftOptions& options,
                                       const std::function<void(int done, int total)>& progress) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Isa isa, DetectIsa());
  const bool lossless = MakeCpuBackend({.threads = 1, .isa = isa})->preferred_precision() == Precision::kF32;
  const Precision exact = lossless ? Precision::kBF16 : Precision::kF32;
  LocateDrift drift;
  drift.reference = {exact, exact};
  std::vector<Run> references(static_cast<size_t>(options.pictures));
  const int total = 2 * options.pictures;
  for (const bool first : {true, false}) {
    SIGHTLINE_ASSIGN_OR_RETURN(const auto network,
                               Network::Open(weights, first ? drift.reference : options.precision, options));
    for (int i = 0; i < options.pictures; ++i) {
      Run& reference = references[static_cast<size_t>(i)];
      if (first) {
        SIGHTLINE_RETURN_IF_ERROR(network->Answer(i, options.tokens, &reference));
      } else {
        Run other{reference.prompt, reference.answer, {}, {}};
        SIGHTLINE_RETURN_IF_ERROR(network->Answer(i, options.tokens, &other));
        Add(reference, other, &drift);
      }
      if (progress) progress(i + 1 + (first ? 0 : options.pictures), total);
    }
  }
  drift.top1_agreement /= static_cast<double>(drift.rows);
  drift.correlation /= static_cast<double>(drift.rows);
  if (drift.boxes > 0) drift.mean_iou /= static_cast<double>(drift.boxes);
  return drift;
}

}  // namespace sightline
